-- Where rank 0 of an attempt listens for the others, and what became of its processes: both are said by its controller.

alter table attempts add column master_address text;
alter table attempts add column stop_report text;
