//! Deleting runs for good: every row of every table that belongs to them, and giving back the space that they took.

use super::{StoreError, Writer};

/// Deletes the rows of the runs whose ids are the JSON array `$1`; a statement a table, runs last.
pub(super) const STATEMENTS: [&str; 11] = [
    "delete from metric_chunks
    where key_id in (select id from metric_keys where run_id in (select value from json_each($1)))",
    "delete from metric_streams where run_id in (select value from json_each($1))",
    "delete from metric_keys where run_id in (select value from json_each($1))",
    "delete from metric_writers where run_id in (select value from json_each($1))",
    "delete from progress where run_id in (select value from json_each($1))",
    "delete from events where run_id in (select value from json_each($1))",
    "delete from checkpoints where run_id in (select value from json_each($1))",
    "delete from workers where run_id in (select value from json_each($1))",
    "delete from attempts where run_id in (select value from json_each($1))",
    "delete from actors where run_id in (select value from json_each($1))",
    "delete from runs where id in (select value from json_each($1))",
];

impl Writer {
    /// Gives at most so many free pages back to the file system; how many pages are free after that. A database that was
    /// made without incremental vacuum keeps its pages and fills them again.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) async fn give_back(&mut self, pages: u32) -> Result<u64, StoreError> {
        if self.free_pages().await? == 0 {
            return Ok(0);
        }
        // The pragma takes no parameters; a number cannot hold anything else.
        let sql = sqlx::AssertSqlSafe(format!("pragma incremental_vacuum({pages})"));
        sqlx::query(sql).execute(&mut self.connection).await?;
        self.free_pages().await
    }

    /// How many pages of the file hold nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn free_pages(&mut self) -> Result<u64, StoreError> {
        let free: i64 = sqlx::query_scalar("pragma freelist_count").fetch_one(&mut self.connection).await?;
        Ok(u64::try_from(free).unwrap_or(0))
    }
}
