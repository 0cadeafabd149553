//! Table `checkpoints`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::{Row, sqlite::SqliteRow};

use super::{
    Reader, StoreError,
    json_row::{json, small},
};
use crate::{
    base::RunId,
    model::{Checkpoint, CheckpointState, RecordCheckpoint, RunRecord, Trail},
};

#[derive(Serialize)]
pub(super) struct CheckpointRow<'a> {
    run_id: &'a RunId,
    number: u64,
    /// None for one that is forgotten.
    state: Option<CheckpointState>,
    pinned: bool,
    record: Option<&'a RecordCheckpoint>,
}

pub(super) fn rows<'a>(record: &'a RunRecord, trail: &'a Trail) -> impl Iterator<Item = CheckpointRow<'a>> {
    trail.checkpoints.iter().map(|number| {
        let known = record.checkpoints.get(number);
        CheckpointRow {
            run_id: &record.run.id,
            number: *number,
            state: known.map(|c| c.record.state),
            pinned: known.is_some_and(|c| c.pinned),
            record: known.map(|c| &c.record),
        }
    })
}

pub(super) const FORGET: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        delete from checkpoints
        where (run_id, number) in (select v->>'run_id', v->>'number' from rows where v->>'state' is null)";

pub(super) const WRITE: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into checkpoints (run_id, number, state, pinned, record)
        select v->>'run_id', v->>'number', v->>'state', v->>'pinned', v->>'record'
        from rows
        where v->>'state' is not null
        on conflict (run_id, number) do update set
            state = excluded.state,
            pinned = excluded.pinned,
            record = excluded.record";

/// The columns that make a [`Checkpoint`], and say whose it is.
pub(super) const COLUMNS: &str = "run_id, number, pinned, record";

pub(super) fn of_run(rows: &[SqliteRow]) -> Result<BTreeMap<u64, Checkpoint>, StoreError> {
    const T: &str = "checkpoints";
    let checkpoint = |row: &SqliteRow| {
        let number = small(T, row, "number")?;
        let pinned = row.try_get("pinned")?;
        Ok((number, Checkpoint { number, record: json(T, row, "record")?, pinned }))
    };
    rows.iter().map(checkpoint).collect()
}

impl Reader {
    /// The settings and the checkpoints of a run, in one snapshot; none if there is no such run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn checkpoints(
        &self,
        run: &RunId,
    ) -> Result<Option<(Map<String, Value>, BTreeMap<u64, Checkpoint>)>, StoreError> {
        let mut tx = self.pool.begin().await?;
        let row = sqlx::query("select settings from runs where id = $1")
            .bind(run.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let sql = sqlx::AssertSqlSafe(format!(
            "select {COLUMNS}
            from checkpoints
            where run_id = $1
            order by number"
        ));
        let rows = sqlx::query(sql).bind(run.as_str()).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some((json("runs", &row, "settings")?, of_run(&rows)?)))
    }
}
