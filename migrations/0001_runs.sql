-- Runs, the actors that drive them, their attempts and workers, and the trail of changes: what changes together is
-- written in one transaction. `doc` is the run as a list shows it, ready-made, so that a start reads one row a run.

create table head (
    key text not null primary key,
    value text not null
) strict;

create table runs (
    id text not null primary key,
    name text not null,
    job_id text,
    experiment text,
    phase text not null,
    run_status text not null,
    controller_state text,
    controller_actor_id text not null,
    controller_actor_status text not null,
    status_detail text,
    ended_by text,
    start_time_ms integer not null,
    end_time_ms integer,
    noticed_at_ms integer,
    stop text,
    concluded text,
    first_failure text,
    settings text not null,
    datasets text not null,
    framework_versions text not null,
    tags text not null,
    notes text,
    body_hash text not null,
    doc text not null
) strict;

create index runs_live on runs (id) where run_status = 'STARTED';

create table actors (
    run_id text not null,
    epoch integer not null,
    actor_id text not null,
    status text not null,
    token_hash text not null,
    lease_ttl_ms integer not null,
    last_contact_ms integer not null,
    process text,
    process_ended_ms integer,
    clock_skew_ms integer,
    primary key (run_id, epoch)
) strict, without rowid;

create table attempts (
    run_id text not null,
    ordinal integer not null,
    attempt_id text not null,
    status text not null,
    end_reason text,
    status_detail text,
    start_time_ms integer not null,
    end_time_ms integer,
    num_workers integer not null,
    primary key (run_id, ordinal)
) strict, without rowid;

create table workers (
    run_id text not null,
    ordinal integer not null,
    world_rank integer not null,
    actor_id text not null,
    local_rank integer not null,
    node_rank integer not null,
    node_id text not null,
    node_ip text not null,
    pid integer,
    gpu_ids text not null,
    status text not null,
    exit text,
    resources text not null,
    primary key (run_id, ordinal, world_rank)
) strict, without rowid;

create table events (
    id integer primary key,
    run_id text not null,
    time_ms integer not null,
    kind text not null,
    from_state text,
    to_state text,
    by_actor text not null,
    reason text,
    attempt integer,
    rank integer,
    evidence text
) strict;

create index events_of_run on events (run_id, id);

create table progress (
    run_id text not null primary key,
    progress text not null
) strict;
