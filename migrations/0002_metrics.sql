-- Metrics, a row a point. The narrow seam of `store/metrics.rs` hides this; a later migration replaces it by sealed
-- chunks. `bits` is the exact value, `value` the same for SQL's own arithmetic (null for NaN).

create table metric_keys (
    id integer primary key,
    run_id text not null,
    key text not null,
    unique (run_id, key)
) strict;

create table metric_points (
    key_id integer not null,
    rank integer not null,
    step integer not null,
    attempt integer not null,
    time_ms integer not null,
    value real,
    bits integer not null,
    primary key (key_id, rank, step, attempt)
) strict, without rowid;

create table metric_writers (
    run_id text not null,
    writer text not null,
    stored text not null,
    primary key (run_id, writer)
) strict, without rowid;
