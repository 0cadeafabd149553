-- Webhooks: the trail is their queue, and each has a place in it. What could not be delivered in time is counted, and the
-- newest of it kept. A webhook's name is a hash of its address, which may hold a secret.

create table webhooks (
    name text not null primary key,
    last_event_id integer not null,
    dead_letters integer not null
) strict;

create table dead_letters (
    webhook text not null,
    event_id integer not null,
    time_ms integer not null,
    why text not null,
    primary key (webhook, event_id)
) strict, without rowid;
