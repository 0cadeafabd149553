-- Metrics as columns. A stream is what one rank of one attempt reports. An acknowledged batch is a row of `metric_tail`, whole
-- and in order of receipt; a while later its points are sealed into `metric_chunks`, by key, and the row goes. The forms of
-- the blobs are in `src/store/codec`. What stands in `metric_points` is moved here by the first start of a head that knows
-- these tables.

create table metric_streams (
    id integer primary key,
    run_id text not null,
    attempt integer not null,
    rank integer not null,
    -- The newest batch whose points are in chunks.
    sealed_through integer not null default 0,
    -- What is known of each series that is in chunks.
    summaries blob not null default x'',
    unique (run_id, attempt, rank)
) strict;

-- Ids never come back, so that they are positions to read on from.
create table metric_tail (
    id integer primary key autoincrement,
    stream_id integer not null,
    points blob not null
) strict;

create index metric_tail_by_stream on metric_tail (stream_id);

-- The chunks of a series do not overlap.
create table metric_chunks (
    id integer primary key,
    key_id integer not null,
    stream_id integer not null,
    first_step integer not null,
    last_step integer not null,
    digest blob not null,
    rollup blob not null,
    points blob not null
) strict;

create unique index metric_chunks_by_series on metric_chunks (key_id, stream_id, last_step, first_step);
