//! Deleting runs for good: every row of every table that belongs to them.

/// Deletes the rows of the runs whose ids are the JSON array `$1`; a statement a table, runs last.
pub(super) const STATEMENTS: [&str; 9] = [
    "delete from metric_points
    where key_id in (select id from metric_keys where run_id in (select value from json_each($1)))",
    "delete from metric_keys where run_id in (select value from json_each($1))",
    "delete from metric_writers where run_id in (select value from json_each($1))",
    "delete from progress where run_id in (select value from json_each($1))",
    "delete from events where run_id in (select value from json_each($1))",
    "delete from workers where run_id in (select value from json_each($1))",
    "delete from attempts where run_id in (select value from json_each($1))",
    "delete from actors where run_id in (select value from json_each($1))",
    "delete from runs where id in (select value from json_each($1))",
];
