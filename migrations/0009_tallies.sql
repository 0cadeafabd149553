-- What lists are ordered by beside what runs have anyway, so that a start reads it with the run and counts nothing: how many
-- attempts a run has had, how many of them were failures (of workers or the controller), and how many workers the newest
-- one has.

alter table runs add column num_attempts integer not null default 0;
alter table runs add column num_failures integer not null default 0;
alter table runs add column num_workers integer not null default 0;

update runs
set num_attempts = (select count(*) from attempts where run_id = id),
    num_failures = (
        select count(*)
        from attempts
        where run_id = id
            and end_reason in ('worker_failed', 'hung', 'start_failed', 'callback_failed')
    ),
    num_workers = (
        select count(*)
        from workers
        where run_id = id
            and ordinal = (select max(ordinal) from attempts where run_id = id)
    );
