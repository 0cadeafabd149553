//! Runs with all that belongs to them, read from five tables in one snapshot: one, or many at once.

use std::collections::HashMap;

use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{Reader, StoreError, Writer, attempts, checkpoints, json_row::array, runs};
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
pub(super) async fn records(
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
    let mut kept = read(checkpoints::COLUMNS, "checkpoints", "run_id", "run_id, number").await?;
    let record = |id: &RunId| {
        let row = rows.remove(id.as_str())?.pop()?;
        let of = |rows: &mut HashMap<String, Vec<SqliteRow>>| rows.remove(id.as_str()).unwrap_or_default();
        let (actors, placed, workers) = (of(&mut actors), of(&mut placed), of(&mut workers));
        let assembled = assemble(&row, &actors, &placed, &workers, &of(&mut kept));
        Some(assembled.map_err(|e| StoreError::Record(id.clone(), Box::new(e))))
    };
    Ok(ids.iter().filter_map(record).collect())
}

fn assemble(
    row: &SqliteRow,
    actors: &[SqliteRow],
    placed: &[SqliteRow],
    workers: &[SqliteRow],
    kept: &[SqliteRow],
) -> Result<RunRecord, StoreError> {
    Ok(RunRecord {
        run: runs::run(row)?,
        controller: runs::controller(actors)?,
        attempts: attempts::of_run(placed, workers)?,
        checkpoints: checkpoints::of_run(kept)?,
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

#[cfg(test)]
impl Writer {
    /// Does to a database what this program never does.
    pub(crate) async fn spoil(&mut self, sql: &'static str) {
        sqlx::query(sql).execute(&mut self.connection).await.unwrap();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        base::{ActorId, AttemptId, Timestamp, secret::SigningKey},
        model::{
            Trail,
            commands::RegisterRun,
            verbs::{AttemptRunning, BeginAttempt},
        },
        store::{Batch, open},
    };

    /// A run with two attempts of two workers.
    fn run(id: &RunId) -> (RunRecord, Trail) {
        let (now, mut trail) = (Timestamp::from_ms(1_800_000_000_000), Trail::default());
        let token = SigningKey::generate().unwrap().token(&["t"]).hash();
        let body = RegisterRun::by(ActorId::parse("c").unwrap());
        let mut record = RunRecord::register(id.clone(), body, String::new(), token, now, &mut trail);
        for attempt in ["a0", "a1"] {
            let attempt_id = AttemptId::parse(attempt).unwrap();
            let begin = BeginAttempt::unreserved(attempt_id.clone(), 2, None);
            record.begin_attempt(begin, Vec::new(), now, &mut trail).unwrap();
            let worker = |rank: u32| {
                json!({"actor_id": format!("{attempt}-{rank}"), "world_rank": rank, "node_id": "h", "node_ip": "i",
                    "resources": {"CPU": 1.0}})
            };
            let workers = json!({"workers": [worker(0), worker(1)]});
            let running: AttemptRunning = serde_json::from_value(workers).unwrap();
            record.attempt_running(&attempt_id, running, now, &mut trail).unwrap();
            if attempt == "a0" {
                let end = json!({"status": "ABORTED", "end_reason": "resized"});
                record
                    .end_attempt(&attempt_id, serde_json::from_value(end).unwrap(), now, &mut trail)
                    .unwrap();
            }
        }
        (record, trail)
    }

    #[tokio::test]
    async fn many_records_are_the_same_as_each_alone_and_a_bad_one_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) = open(&dir.path().join("db")).await.unwrap();
        let ids: Vec<RunId> = (0..9).map(|i| RunId::parse(&format!("r{i}")).unwrap()).collect();
        let mut batch = Batch::default();
        let written: Vec<RunRecord> = ids
            .iter()
            .map(|id| {
                let (record, trail) = run(id);
                batch.record(&record, &record.document(), &trail);
                record
            })
            .collect();
        writer.commit(batch).await.unwrap();
        let backwards: Vec<RunId> = ids.iter().rev().cloned().collect();
        let read: Vec<RunRecord> =
            reader.records(&backwards).await.unwrap().into_iter().map(Result::unwrap).collect();
        assert!(read.iter().eq(written.iter().rev()), "in the order that was asked for");

        for bad in [
            "update runs set phase = 'NONSENSE' where id = 'r1'",
            "update runs set settings = '[' where id = 'r2'",
            "update actors set token_hash = '' where run_id = 'r3'",
            "delete from actors where run_id = 'r4'",
            "update attempts set num_workers = -1 where run_id = 'r5'",
            "update workers set ordinal = 7 where run_id = 'r6' and ordinal = 1",
            "update workers set gpu_ids = cast(x'fffe' as text) where run_id = 'r7'",
            "delete from runs where id = 'r8'",
        ] {
            writer.spoil(bad).await;
        }
        let read = reader.records(&ids).await.unwrap();
        assert_eq!(read.len(), 8, "a run that is gone is left out");
        assert_eq!(*read[0].as_ref().unwrap(), written[0]);
        for (id, record) in ids.iter().zip(&read).skip(1) {
            let e = record.as_ref().unwrap_err();
            assert_eq!(e.to_string(), format!("run {id} cannot be read"));
            assert!(reader.record(id).await.is_err() && writer.record(id).await.is_err());
        }
        assert_eq!(reader.record(&ids[8]).await.unwrap(), None);
        assert_eq!(reader.records(&[]).await.unwrap().len(), 0);
    }
}
