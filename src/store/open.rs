//! Opening the database: pragmas, migrations (after a copy of what there was), and the refusal of a database that a
//! later version wrote.

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    ConnectOptions, Connection, SqliteConnection, SqlitePool,
    migrate::{Migration, MigrationType, Migrator},
    sqlite::{
        SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
    },
};

use super::backup::copy_beside;
use crate::base::{RunId, number::size};

/// Pages of WAL at which a commit has to fold it into the database. Far beyond the length at which that is done beside the
/// commits (`state/folding.rs`): for a writer that is alone, or quicker than the disk.
const WAL_PAGES: &str = "32000";
const READERS: u32 = 4;

const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "runs", include_str!("../../migrations/0001_runs.sql")),
    (2, "metrics", include_str!("../../migrations/0002_metrics.sql")),
    (3, "people and nodes", include_str!("../../migrations/0003_people_and_nodes.sql")),
    (4, "webhooks", include_str!("../../migrations/0004_webhooks.sql")),
    (5, "attempts in full", include_str!("../../migrations/0005_attempts_in_full.sql")),
    (6, "checkpoints", include_str!("../../migrations/0006_checkpoints.sql")),
    (7, "metric chunks", include_str!("../../migrations/0007_metric_chunks.sql")),
    (8, "tail without index", include_str!("../../migrations/0008_tail_without_index.sql")),
    (9, "tallies", include_str!("../../migrations/0009_tallies.sql")),
];

/// What can go wrong in the store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// The database was written by a later version.
    #[error("the database is of version {found}, this program knows versions up to {known}")]
    Newer { found: i64, known: i64 },
    /// A stored value is not what this program writes.
    #[error("table {table} holds a value that cannot be read: {what}")]
    Corrupt { table: &'static str, what: String },
    /// Something of a run cannot be read.
    #[error("run {0} cannot be read")]
    Record(RunId, #[source] Box<StoreError>),
    /// A file cannot be read or written.
    #[error("a file cannot be read or written")]
    Io(#[source] io::Error),
    /// No copy could be made before a migration.
    #[error(
        "the database must be migrated, and the copy {path} of how it is now cannot be made; nothing was changed: \
         make room there and start again"
    )]
    Copy {
        path: PathBuf,
        #[source]
        source: Box<StoreError>,
    },
    /// A migration failed; nothing was changed.
    #[error("the database could not be migrated")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// SQLite or the disk below it failed.
    #[error("the database failed")]
    Sqlite(#[source] sqlx::Error),
}

impl From<sqlx::Error> for StoreError {
    fn from(e: sqlx::Error) -> Self {
        // SQLITE_FULL is 13; extended codes carry the primary one in their low byte.
        let code = e.as_database_error().and_then(|d| d.code()).and_then(|c| c.parse::<u32>().ok());
        if code.is_some_and(|c| c & 0xff == 13) { Self::Full } else { Self::Sqlite(e) }
    }
}

impl From<io::Error> for StoreError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(e),
        }
    }
}

/// The one writing connection.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) connection: SqliteConnection,
}

/// Connections that read and cannot write.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(super) pool: SqlitePool,
}

/// Opens the database at `path`, creating or migrating it. Before a migration a copy is put beside it.
///
/// # Errors
/// When it cannot be opened, is of a later version, or cannot be copied before a migration (then it is not touched).
pub(crate) async fn open(path: &Path) -> Result<(Writer, Reader), StoreError> {
    let options = options(path);
    if path.metadata().is_ok_and(|m| m.len() > 0) {
        let mut connection = options.clone().read_only(true).connect().await?;
        let found = version(&mut connection).await?;
        connection.close().await?;
        let known = known_version();
        if found > known {
            return Err(StoreError::Newer { found, known });
        }
        // Version 0 is a database whose making was broken off: there is nothing in it.
        if (1..known).contains(&found) {
            copy_beside(path, found).await?;
        }
    }
    let writing = options
        .clone()
        .create_if_missing(true)
        // Counts for new databases: what a purge frees can be given back. It says nothing to those that exist.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", WAL_PAGES)
        .pragma("journal_size_limit", "67108864");
    let mut connection = writing.connect().await?;
    // `run` would do the same for anything that lends a connection, which makes its future unusable in a task.
    Migrator::with_migrations(migrations()).run_direct(None, &mut connection, false).await?;
    let pool = SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(Duration::from_secs(10))
        .connect_with(options.read_only(true))
        .await?;
    Ok((Writer { connection }, Reader { pool }))
}

/// What all connections to the database at `path` have in common.
pub(super) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(Duration::from_secs(5))
        .row_buffer_size(512)
        .disable_statement_logging()
}

/// The newest version that this program knows.
pub(super) fn known_version() -> i64 {
    MIGRATIONS.last().map_or(0, |m| m.0)
}

fn migrations() -> Vec<Migration> {
    MIGRATIONS
        .iter()
        .map(|&(version, name, sql)| {
            let sql = sqlx::SqlSafeStr::into_sql_str(sql);
            Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, sql, false)
        })
        .collect()
}

/// The version of a database; 0 if nothing was made in it yet.
pub(super) async fn version(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let migrated: bool =
        sqlx::query_scalar("select count(*) > 0 from sqlite_schema where name = '_sqlx_migrations'")
            .fetch_one(&mut *connection)
            .await?;
    if !migrated {
        return Ok(0);
    }
    Ok(sqlx::query_scalar("select coalesce(max(version), 0) from _sqlx_migrations")
        .fetch_one(connection)
        .await?)
}

impl Writer {
    /// Folds the WAL into the database and closes: for an orderly end.
    ///
    /// # Errors
    /// When the disk fails; nothing acknowledged is lost then, it is still in the WAL.
    pub(crate) async fn close(mut self) -> Result<(), StoreError> {
        sqlx::query("pragma wal_checkpoint(truncate)").execute(&mut self.connection).await?;
        self.connection.close().await?;
        Ok(())
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

    /// Keeps a value for the head itself.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) async fn set_head_value(&mut self, key: &str, value: String) -> Result<(), StoreError> {
        sqlx::query(
            "insert into head (key, value) values ($1, $2) on conflict (key) do update set value = $2",
        )
        .bind(key.to_owned())
        .bind(value)
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }
}

impl Reader {
    /// Closes all connections.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Bytes of the database file, without its WAL.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn size_bytes(&self) -> Result<u64, StoreError> {
        let bytes: i64 =
            sqlx::query_scalar("select page_count * page_size from pragma_page_count(), pragma_page_size()")
                .fetch_one(&self.pool)
                .await?;
        Ok(size(usize::try_from(bytes).unwrap_or(0)))
    }
}
