//! Looking at a database from outside, for `trainhead doctor`: through a connection that reads only, beside whoever
//! writes. Nothing is repaired.

use std::path::Path;

use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

use super::{
    StoreError,
    open::{known_version, options, version},
    records::records,
};
use crate::{
    base::{RunId, Timestamp},
    model::{RunRecord, view::Document},
};

/// Runs that are looked at in one snapshot: a long one would keep the WAL from being folded.
const AT_ONCE: i64 = 500;
/// Faults of the file that are named.
const FAULTS: usize = 20;

/// How thoroughly a database is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The structure of its pages.
    Quick,
    /// The same, and that each index says what its table says.
    Full,
}

/// Whether somebody may write the database meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Somebody may.
    Maybe,
    /// Nobody does, and nothing waits in its WAL: then it is read as it lies there, and SQLite makes no files beside it.
    None,
}

/// A database that is looked at.
#[derive(Debug)]
pub(crate) struct Examined {
    connection: SqliteConnection,
    /// Its version.
    pub(crate) version: i64,
    /// The newest version that this program knows.
    pub(crate) known: i64,
}

/// A run as it lies in the database.
#[derive(Debug)]
pub(crate) struct StoredRun {
    /// Its id as it is written.
    pub(crate) id: String,
    /// Its document as lists show it.
    pub(crate) doc: Document,
    /// The run itself, or why it cannot be read.
    pub(crate) record: Result<RunRecord, StoreError>,
}

impl Examined {
    /// Opens the database at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn open(path: &Path, writers: Writers) -> Result<Self, StoreError> {
        let options = options(path).read_only(true).immutable(writers == Writers::None);
        let mut connection = options.connect().await?;
        let version = version(&mut connection).await?;
        Ok(Self { connection, version, known: known_version() })
    }

    /// What is wrong with the file; nothing if it is sound.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn faults(&mut self, depth: Depth) -> Result<Vec<String>, StoreError> {
        let sql = match depth {
            Depth::Quick => "pragma quick_check(20)",
            Depth::Full => "pragma integrity_check(20)",
        };
        let mut found: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut self.connection).await?;
        found.retain(|line| line != "ok");
        found.truncate(FAULTS);
        Ok(found)
    }

    /// How many runs are live.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn live_runs(&mut self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("select count(*) from runs where run_status = 'STARTED'")
            .fetch_one(&mut self.connection)
            .await?)
    }

    /// When the newest event of the trail was.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn newest_event(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let ms: Option<i64> = sqlx::query_scalar("select max(time_ms) from events where id > $1")
            .bind(self.last_events().await?)
            .fetch_one(&mut self.connection)
            .await?;
        Ok(ms.map(Timestamp::from_ms))
    }

    /// Events after this one are among the last thousand: times have no index, and the others are older.
    async fn last_events(&mut self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("select coalesce(max(id), 0) - 1000 from events")
            .fetch_one(&mut self.connection)
            .await?)
    }

    /// A value that the head keeps for itself.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn head_value(&mut self, key: &str) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("select value from head where key = $1")
            .bind(key.to_owned())
            .fetch_optional(&mut self.connection)
            .await?)
    }

    /// The next runs in the order of their ids, after the one with id `after`; none at the end.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub(crate) async fn runs(&mut self, after: &str) -> Result<Vec<StoredRun>, StoreError> {
        let mut tx = self.connection.begin().await?;
        let rows = sqlx::query("select id, doc, workers_at from runs where id > $1 order by id limit $2")
            .bind(after.to_owned())
            .bind(AT_ONCE)
            .fetch_all(&mut *tx)
            .await?;
        let mut stored = Vec::with_capacity(rows.len());
        for row in &rows {
            let id: String = row.try_get("id")?;
            let workers_at = usize::try_from(row.try_get::<i64, _>("workers_at")?).unwrap_or(usize::MAX);
            stored.push((id, Document { json: row.try_get("doc")?, workers_at }));
        }
        let ids: Vec<RunId> = stored.iter().filter_map(|(id, _)| RunId::parse(id).ok()).collect();
        let mut found = records(&mut tx, &ids).await?.into_iter();
        tx.commit().await?;
        let unreadable = |what: &str| StoreError::Corrupt { table: "runs", what: what.to_owned() };
        let run = |(id, doc): (String, Document)| {
            // In one snapshot each id has its record, in this order.
            let record = match RunId::parse(&id) {
                Ok(_) => found.next().unwrap_or_else(|| Err(unreadable("it is not there"))),
                Err(e) => Err(unreadable(&format!("its id is none: {e}"))),
            };
            StoredRun { id, doc, record }
        };
        Ok(stored.into_iter().map(run).collect())
    }
}
