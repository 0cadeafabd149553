-- The ledger of checkpoints: what a controller committed, how it stands, and what people want kept. What is written about
-- one besides its state and its place is one document, which is only read as a whole.

create table checkpoints (
    run_id text not null,
    number integer not null,
    state text not null,
    pinned integer not null,
    record text not null,
    primary key (run_id, number)
) strict, without rowid;
