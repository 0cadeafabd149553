//! Table `nodes`: nodes that workers were placed on or could be, with what they have. And who is on them now.

use serde::Serialize;
use sqlx::Row;

use super::{
    Reader, StoreError, Writer,
    json_row::{json, small, word},
};
use crate::{
    base::{RunId, Timestamp},
    model::ledger::NodeOffer,
};

#[derive(Serialize)]
pub(super) struct NodeRow<'a> {
    pub(super) node_id: &'a str,
    pub(super) offer: &'a NodeOffer,
    pub(super) first_seen_ms: Timestamp,
}

pub(super) const WRITE: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into nodes (node_id, offer, first_seen_ms)
        select v->>'node_id', v->>'offer', v->>'first_seen_ms'
        from rows
        where true
        on conflict (node_id) do update set offer = excluded.offer";

/// A worker that lives, with where it is.
#[derive(Clone, Debug)]
pub(crate) struct PlacedWorker {
    pub(crate) run_id: RunId,
    pub(crate) attempt: u32,
    pub(crate) world_rank: u32,
    pub(crate) node_id: String,
    pub(crate) pid: Option<u32>,
    pub(crate) gpu_ids: Vec<String>,
}

impl Writer {
    /// All nodes that were ever seen.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn nodes(&mut self) -> Result<Vec<NodeOffer>, StoreError> {
        let rows =
            sqlx::query("select offer from nodes order by node_id").fetch_all(&mut self.connection).await?;
        rows.iter().map(|row| json("nodes", row, "offer")).collect()
    }
}

impl Reader {
    /// Workers that live, by node; at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn placed_workers(&self, limit: u32) -> Result<Vec<PlacedWorker>, StoreError> {
        const T: &str = "workers";
        let rows = sqlx::query(
            "select run_id, ordinal, world_rank, node_id, pid, gpu_ids
            from workers
            where status = 'ALIVE'
            order by node_id, run_id, world_rank
            limit $1",
        )
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(PlacedWorker {
                    run_id: word(T, row, "run_id")?,
                    attempt: small(T, row, "ordinal")?,
                    world_rank: small(T, row, "world_rank")?,
                    node_id: row.try_get("node_id")?,
                    pid: row.try_get("pid")?,
                    gpu_ids: json(T, row, "gpu_ids")?,
                })
            })
            .collect()
    }
}
