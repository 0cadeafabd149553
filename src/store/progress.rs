//! Table `progress`: how far each run was when it was last written down.

use std::collections::HashMap;

use serde::Serialize;

use super::{
    Reader, StoreError, Writer,
    json_row::{array, json, word},
};
use crate::{base::RunId, model::progress::Progress};

#[derive(Serialize)]
pub(super) struct ProgressRow<'a> {
    pub(super) run_id: &'a RunId,
    pub(super) progress: &'a Progress,
}

pub(super) const WRITE: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into progress (run_id, progress)
        select v->>'run_id', v->>'progress'
        from rows
        where true
        on conflict (run_id) do update set progress = excluded.progress";

impl Writer {
    /// The progress of a run; nothing if it has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn progress(&mut self, run: &RunId) -> Result<Progress, StoreError> {
        let row = sqlx::query("select progress from progress where run_id = $1")
            .bind(run.to_string())
            .fetch_optional(&mut self.connection)
            .await?;
        row.map_or_else(|| Ok(Progress::default()), |row| json("progress", &row, "progress"))
    }
}

impl Reader {
    /// The progress of these runs, as far as they have any.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn progress(&self, runs: &[RunId]) -> Result<HashMap<RunId, Progress>, StoreError> {
        let rows = sqlx::query(
            "select run_id, progress from progress where run_id in (select value from json_each($1))",
        )
        .bind(array("progress", runs)?)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| Ok((word("progress", row, "run_id")?, json("progress", row, "progress")?)))
            .collect()
    }
}
