//! Runs with all that belongs to them, read from four tables in one snapshot: one, or many at once.

use std::collections::HashMap;

use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{Reader, StoreError, Writer, attempts, json_row::array, runs};
use crate::{base::RunId, model::RunRecord};

impl Reader {
    /// These runs with all that belongs to them, in this order, in one snapshot. A run that is gone is left out; one that
    /// cannot be read is an error in its place and spoils no other.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub(crate) async fn records(
        &self,
        ids: &[RunId],
    ) -> Result<Vec<Result<RunRecord, StoreError>>, StoreError> {
        let mut tx = self.pool.begin().await?;
        let found = records(&mut tx, ids).await?;
        tx.commit().await?;
        Ok(found)
    }

    /// One run with all that belongs to it, in one snapshot.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn record(&self, id: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.records(std::slice::from_ref(id)).await?.pop().transpose()
    }
}

impl Writer {
    /// One run with all that belongs to it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn record(&mut self, id: &RunId) -> Result<Option<RunRecord>, StoreError> {
        records(&mut self.connection, std::slice::from_ref(id)).await?.pop().transpose()
    }
}

/// Records through any connection: a query a table, whatever the number of runs.
async fn records(
    connection: &mut SqliteConnection,
    ids: &[RunId],
) -> Result<Vec<Result<RunRecord, StoreError>>, StoreError> {
    let ids_json = array("runs", ids)?;
    let mut read = async |columns: &str, table: &str, key: &str, order: &str| {
        let sql = sqlx::AssertSqlSafe(format!(
            "select {columns}
            from {table}
            where {key} in (select value from json_each($1))
            order by {order}"
        ));
        let rows = sqlx::query(sql).bind(ids_json.clone()).fetch_all(&mut *connection).await?;
        of_each_run(rows, key)
    };
    let mut rows = read(runs::COLUMNS, "runs", "id", "id").await?;
    let mut actors = read(runs::ACTOR_COLUMNS, "actors", "run_id", "run_id, epoch").await?;
    let mut placed = read(attempts::COLUMNS, "attempts", "run_id", "run_id, ordinal").await?;
    let mut workers =
        read(attempts::WORKER_COLUMNS, "workers", "run_id", "run_id, ordinal, world_rank").await?;
    let record = |id: &RunId| {
        let row = rows.remove(id.as_str())?.pop()?;
        let of = |rows: &mut HashMap<String, Vec<SqliteRow>>| rows.remove(id.as_str()).unwrap_or_default();
        let (actors, placed, workers) = (of(&mut actors), of(&mut placed), of(&mut workers));
        let assembled = assemble(&row, &actors, &placed, &workers);
        Some(assembled.map_err(|e| StoreError::Record(id.clone(), Box::new(e))))
    };
    Ok(ids.iter().filter_map(record).collect())
}

fn assemble(
    row: &SqliteRow,
    actors: &[SqliteRow],
    placed: &[SqliteRow],
    workers: &[SqliteRow],
) -> Result<RunRecord, StoreError> {
    Ok(RunRecord {
        run: runs::run(row)?,
        controller: runs::controller(actors)?,
        attempts: attempts::of_run(placed, workers)?,
    })
}

/// The rows of each run, in their order.
fn of_each_run(rows: Vec<SqliteRow>, key: &str) -> Result<HashMap<String, Vec<SqliteRow>>, StoreError> {
    let mut of_each: HashMap<String, Vec<SqliteRow>> = HashMap::new();
    for row in rows {
        of_each.entry(row.try_get(key)?).or_default().push(row);
    }
    Ok(of_each)
}
