//! Table `events`: the trail.

use sqlx::{Row, sqlite::SqliteRow};

use super::{
    Reader, StoreError, Writer,
    json_row::{json, word},
};
use crate::{
    base::{RunId, Timestamp},
    model::Event,
};

pub(super) const WRITE: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert or rollback into events (id, run_id, time_ms, kind, from_state, to_state, by_actor, reason, attempt, rank,
            evidence)
        select v->>'id', v->>'run_id', v->>'time_ms', v->>'kind', v->>'from', v->>'to',
            v->>'by', v->>'reason', v->>'attempt', v->>'rank', v->>'evidence'
        from rows";

impl Writer {
    /// The id of the newest event; 0 if there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn last_event_id(&mut self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("select coalesce(max(id), 0) from events")
            .fetch_one(&mut self.connection)
            .await?)
    }
}

impl Reader {
    /// A page of a run's trail, oldest first, after the event `after`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn events(&self, run: &RunId, after: i64, limit: u32) -> Result<Vec<Event>, StoreError> {
        let rows = sqlx::query(
            "select id, run_id, time_ms, kind, from_state, to_state, by_actor, reason, attempt, rank, evidence
            from events
            where run_id = $1
                and id > $2
            order by id
            limit $3",
        )
        .bind(run.to_string())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(event).collect()
    }
}

pub(super) fn event(row: &SqliteRow) -> Result<Event, StoreError> {
    const T: &str = "events";
    Ok(Event {
        id: row.try_get("id")?,
        run_id: word(T, row, "run_id")?,
        time_ms: Timestamp::from_ms(row.try_get("time_ms")?),
        kind: word(T, row, "kind")?,
        from: row.try_get("from_state")?,
        to: row.try_get("to_state")?,
        by: word(T, row, "by_actor")?,
        reason: row.try_get("reason")?,
        attempt: row.try_get("attempt")?,
        rank: row.try_get("rank")?,
        evidence: json(T, row, "evidence")?,
    })
}
