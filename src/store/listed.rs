//! What the list's index keeps of each run, and the ready-made documents of those that have ended.

use std::collections::{BTreeMap, HashMap};

use futures_util::StreamExt;
use serde::Serialize;
use sqlx::{Row, sqlite::SqliteRow};
use tokio::sync::mpsc;
use tracing::error;

use super::{
    Reader, StoreError, Writer,
    json_row::{Rows, array, json, small, word},
    records::records,
};
use crate::{
    base::{RunId, Tasks, Timestamp, error::chain, number},
    model::{
        RunRecord, RunStatus, Tally,
        progress::{LastReported, Progress},
        retention::EndedRun,
        settings::Settings,
        view::Document,
    },
};

/// In how many parts all runs are read at once.
const PARTS: i64 = 3;
/// Runs that are handed over together.
const AT_ONCE: usize = 256;

/// What the list's index keeps of a run.
#[derive(Debug)]
pub(crate) struct ListedRun {
    pub(crate) id: RunId,
    pub(crate) start_time: Timestamp,
    pub(crate) duration_ms: Option<i64>,
    pub(crate) status: RunStatus,
    pub(crate) name: String,
    pub(crate) job_id: Option<String>,
    pub(crate) experiment: Option<String>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) trashed: bool,
    pub(crate) tally: Tally,
    /// What it reported last, once it has ended; none if that is as it was.
    pub(crate) last: Option<LastReported>,
}

impl ListedRun {
    pub(crate) fn of(record: &RunRecord, last: Option<LastReported>) -> Self {
        let run = &record.run;
        Self {
            id: run.id.clone(),
            start_time: run.start_time,
            duration_ms: run.duration().map(number::millis),
            status: run.status(),
            name: run.name.clone(),
            job_id: run.job_id.clone(),
            experiment: run.experiment.clone(),
            tags: run.tags.clone(),
            trashed: run.trashed_at.is_some(),
            tally: record.tally(),
            last,
        }
    }

    /// What a search looks through: name, id, job id and tags, in lower case, a line each.
    pub(crate) fn texts(&self) -> String {
        let mut text =
            format!("{}\n{}\n{}\n", self.name, self.id, self.job_id.as_deref().unwrap_or_default());
        for (key, value) in &self.tags {
            // A line break ends a text, so that nothing is found across two.
            let value = value.replace('\n', " ");
            for part in [key, ":", &value, "\n"] {
                text.push_str(part);
            }
        }
        text.to_lowercase()
    }
}

/// A document to be put in place of an older one.
#[derive(Serialize)]
struct DocumentRow<'a> {
    id: &'a RunId,
    doc: &'a str,
    workers_at: usize,
}

impl Writer {
    /// Makes the documents of all runs that have ended anew.
    ///
    /// # Errors
    /// When the store cannot be read or written; what was done until then is of use all the same.
    pub(crate) async fn renew_documents(
        &mut self,
        mut progress: impl FnMut(usize),
    ) -> Result<(), StoreError> {
        const AT_ONCE: i64 = 500;
        let (mut after, mut done) = (String::new(), 0);
        loop {
            let ids: Vec<String> = sqlx::query_scalar(
                "select id
                    from runs
                    where id > $1
                        and run_status <> 'STARTED'
                    order by id
                    limit $2",
            )
            .bind(after.clone())
            .bind(AT_ONCE)
            .fetch_all(&mut self.connection)
            .await?;
            let Some(last) = ids.last() else { return Ok(()) };
            after.clone_from(last);
            let parsed = |id: &String| id.parse().ok();
            let ids: Vec<RunId> = ids.iter().filter_map(parsed).collect();
            let mut rows = Rows::of("runs");
            for record in records(&mut self.connection, &ids).await? {
                match record {
                    Ok(record) => {
                        let Document { json, workers_at } = record.document();
                        rows.push(&DocumentRow { id: &record.run.id, doc: &json, workers_at });
                    }
                    // One bad run must not keep all others from being shown; 'trainhead doctor' names it.
                    Err(e) => error!("a run cannot be read and is not listed: {}", chain(&e)),
                }
            }
            rows.write(
                &mut self.connection,
                "with rows (v) as materialized (select value from jsonb_each($1))
                update runs
                set doc = r.v->>'doc',
                    workers_at = r.v->>'workers_at'
                from rows r
                where runs.id = r.v->>'id'",
            )
            .await?;
            done += ids.len();
            progress(done);
        }
    }
}

impl Reader {
    /// Every run that has ended as the list's index keeps it, in no order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn listed_runs(&self, mut each: impl FnMut(ListedRun)) -> Result<(), StoreError> {
        let (first, last): (i64, i64) =
            sqlx::query_as("select coalesce(min(rowid), 0), coalesce(max(rowid), 0) from runs")
                .fetch_one(&self.pool)
                .await?;
        // Read in parts by as many threads: a start with many runs waits for little else.
        let size = (last - first) / PARTS + 1;
        let tasks = Tasks::new();
        let (sender, mut read) = mpsc::channel(8);
        let part = |from: i64| {
            let (reader, sender) = (self.clone(), sender.clone());
            tasks.spawn(async move { reader.listed_part(from, from + size, sender).await })
        };
        let parts: Vec<_> = (0..PARTS).map(|i| part(first + i * size)).collect();
        drop(sender);
        while let Some(runs) = read.recv().await {
            runs?.into_iter().for_each(&mut each);
        }
        for part in parts {
            part.await.map_err(|e| StoreError::Io(std::io::Error::other(e)))?;
        }
        Ok(())
    }

    /// Sends those with a row of these numbers, the last one excluded, or why they cannot be read.
    async fn listed_part(
        &self,
        from: i64,
        to: i64,
        sender: mpsc::Sender<Result<Vec<ListedRun>, StoreError>>,
    ) {
        let mut rows = sqlx::query(
            "select id, start_time_ms, end_time_ms, run_status, name, job_id, experiment, tags, trashed_at_ms,
                workers_at, num_attempts, num_failures, num_workers, progress
            from runs
            left join progress on run_id = id
            where runs.rowid >= $1
                and runs.rowid < $2
                and run_status <> 'STARTED'",
        )
        .bind(from)
        .bind(to)
        .fetch(&self.pool)
        .chunks(AT_ONCE);
        while let Some(rows) = rows.next().await {
            let rows: Result<Vec<SqliteRow>, sqlx::Error> = rows.into_iter().collect();
            let runs = rows.map(|rows| rows.iter().filter_map(readable).collect()).map_err(StoreError::from);
            let failed = runs.is_err();
            // Nobody waits for the rest if another part failed.
            if sender.send(runs).await.is_err() || failed {
                return;
            }
        }
    }

    /// Those of these runs that have ended, as lists show them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn documents(&self, runs: &[RunId]) -> Result<HashMap<RunId, Document>, StoreError> {
        const T: &str = "runs";
        let rows = sqlx::query(
            "select id, doc, workers_at
            from runs
            where id in (select value from json_each($1))
                and run_status <> 'STARTED'",
        )
        .bind(array(T, runs)?)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                let doc = Document { json: row.try_get("doc")?, workers_at: small(T, row, "workers_at")? };
                Ok((word(T, row, "id")?, doc))
            })
            .collect()
    }

    /// What runs are called.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn names(&self, runs: &[RunId]) -> Result<HashMap<RunId, String>, StoreError> {
        const T: &str = "runs";
        let rows = sqlx::query("select id, name from runs where id in (select value from json_each($1))")
            .bind(array(T, runs)?)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok((word(T, row, "id")?, row.try_get("name")?))).collect()
    }

    /// What runs were started with. One whose settings cannot be read has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn settings(&self, runs: &[RunId]) -> Result<HashMap<RunId, Settings>, StoreError> {
        const T: &str = "runs";
        let rows = sqlx::query("select id, settings from runs where id in (select value from json_each($1))")
            .bind(array(T, runs)?)
            .fetch_all(&self.pool)
            .await?;
        let mut all = HashMap::with_capacity(rows.len());
        for row in &rows {
            if let Ok(settings) = Settings::parse(row.try_get("settings")?) {
                all.insert(word(T, row, "id")?, settings);
            }
        }
        Ok(all)
    }

    /// All runs that have ended, as retention sees them, without their sizes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn ended_runs(&self) -> Result<Vec<EndedRun>, StoreError> {
        const T: &str = "runs";
        let rows = sqlx::query(
            "select id, end_time_ms, trashed_at_ms
            from runs
            where end_time_ms is not null",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(EndedRun {
                    id: word(T, row, "id")?,
                    ended_at: Timestamp::from_ms(row.try_get("end_time_ms")?),
                    trashed_at: row.try_get::<Option<i64>, _>("trashed_at_ms")?.map(Timestamp::from_ms),
                    size_bytes: 0,
                })
            })
            .collect()
    }
}

/// One bad row must not keep all other runs from being shown; 'trainhead doctor' names it.
fn readable(row: &SqliteRow) -> Option<ListedRun> {
    listed(row).inspect_err(|e| error!("a run cannot be read and is not listed: {}", chain(e))).ok()
}

fn listed(row: &SqliteRow) -> Result<ListedRun, StoreError> {
    const T: &str = "runs";
    let start_time = Timestamp::from_ms(row.try_get("start_time_ms")?);
    let end_time = row.try_get::<Option<i64>, _>("end_time_ms")?;
    let id: RunId = word(T, row, "id")?;
    if row.try_get::<i64, _>("workers_at")? == 0 {
        // What an earlier version made, of a record that could not be read since.
        return Err(StoreError::Corrupt { table: T, what: format!("the document of run {id}") });
    }
    let progress: Option<Progress> = json("progress", row, "progress")?;
    Ok(ListedRun {
        id,
        start_time,
        duration_ms: end_time.map(|end| end - start_time.as_ms()),
        status: word(T, row, "run_status")?,
        name: row.try_get("name")?,
        job_id: row.try_get("job_id")?,
        experiment: row.try_get("experiment")?,
        tags: json(T, row, "tags")?,
        trashed: row.try_get::<Option<i64>, _>("trashed_at_ms")?.is_some(),
        tally: Tally {
            attempts: small(T, row, "num_attempts")?,
            failures: small(T, row, "num_failures")?,
            workers: small(T, row, "num_workers")?,
        },
        last: progress.map(|progress| progress.last_reported()),
    })
}
