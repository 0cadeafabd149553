-- What people may do to runs (the trash), and the resource ledger: nodes with what they have, and what each attempt has
-- reserved. The ledger itself is not kept: it follows from the live attempts. Runs' documents (`runs.doc`) have more
-- members from here on; the head makes them anew when it finds that `head.documents` is of an earlier shape.

alter table runs add column trashed_at_ms integer;
-- Where in `doc` its last member, the workers, begins.
alter table runs add column workers_at integer not null default 0;

alter table attempts add column reservation text;

create table nodes (
    node_id text not null primary key,
    offer text not null,
    first_seen_ms integer not null
) strict, without rowid;

create index workers_alive on workers (node_id) where status = 'ALIVE';
