//! Table `events`: the trail.

use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    Reader, StoreError, Writer,
    json_row::{array, json, word},
};
use crate::{
    base::{RunId, Timestamp},
    model::Event,
};

pub(super) async fn write(connection: &mut SqliteConnection, rows: &[Event]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into events (id, run_id, time_ms, kind, from_state, to_state, by_actor, reason, attempt, rank,
            evidence)
        select value->>'id', value->>'run_id', value->>'time_ms', value->>'kind', value->>'from', value->>'to',
            value->>'by', value->>'reason', value->>'attempt', value->>'rank', value->>'evidence'
        from json_each($1)",
    )
    .bind(array("events", rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

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

fn event(row: &SqliteRow) -> Result<Event, StoreError> {
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
