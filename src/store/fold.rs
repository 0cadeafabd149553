//! Folding the log of SQLite into its database, beside the one who writes: a commit that comes just then does not wait.

use std::path::Path;

use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

use super::{StoreError, Writer, open::options};

/// A connection that folds.
#[derive(Debug)]
pub(crate) struct Folder(SqliteConnection);

impl Folder {
    /// # Errors
    /// When the database cannot be opened.
    pub(crate) async fn connect(path: &Path) -> Result<Self, StoreError> {
        Ok(Self(options(path).connect().await?))
    }

    /// Pages that stand in the log only. Does nothing.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(crate) async fn waiting(&mut self) -> Result<i64, StoreError> {
        checkpoint(&mut self.0, "pragma wal_checkpoint(noop)").await
    }

    /// Folds what stands in the log now. Pages that came meanwhile are left, and those that somebody reads just then; their
    /// number.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) async fn fold(&mut self) -> Result<i64, StoreError> {
        checkpoint(&mut self.0, "pragma wal_checkpoint(passive)").await
    }

    /// # Errors
    /// When the disk fails.
    pub(crate) async fn close(self) -> Result<(), StoreError> {
        Ok(self.0.close().await?)
    }
}

impl Writer {
    /// Folds what is left, so that the next commit begins the log anew; how many pages could not be.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) async fn fold(&mut self) -> Result<i64, StoreError> {
        checkpoint(&mut self.connection, "pragma wal_checkpoint(passive)").await
    }
}

async fn checkpoint(connection: &mut SqliteConnection, pragma: &'static str) -> Result<i64, StoreError> {
    let row = sqlx::query(pragma).fetch_one(connection).await?;
    let (in_log, folded): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
    Ok(in_log - folded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::open;

    #[tokio::test]
    async fn the_log_is_folded_beside_a_writer_and_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let (mut writer, reader) = open(&path).await.unwrap();
        let mut folder = Folder::connect(&path).await.unwrap();
        assert_eq!(folder.fold().await.unwrap(), 0);
        for i in 0..50 {
            writer.set_head_value("a", i.to_string()).await.unwrap();
        }
        assert!(folder.waiting().await.unwrap() >= 50);
        assert_eq!(folder.fold().await.unwrap(), 0);
        assert_eq!(folder.waiting().await.unwrap(), 0);
        writer.set_head_value("a", "after".to_owned()).await.unwrap();
        let begun_anew = folder.waiting().await.unwrap();
        assert!((1..50).contains(&begun_anew), "{begun_anew} pages");

        // What somebody still reads stays in the log, and nobody waits for him.
        let mut snapshot = reader.snapshot().await.unwrap();
        snapshot.streams(&crate::base::RunId::parse("none").unwrap()).await.unwrap();
        writer.set_head_value("a", "unseen".to_owned()).await.unwrap();
        assert!(writer.fold().await.unwrap() > 0);
        drop(snapshot);
        folder.close().await.unwrap();
        writer.close().await.unwrap();
    }
}
