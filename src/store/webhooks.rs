//! Tables `webhooks` and `dead_letters`: each webhook's place in the trail, and what could not be delivered.

use serde::Serialize;
use sqlx::Row;

use super::{Reader, StoreError, events, json_row::array};
use crate::{
    base::Timestamp,
    model::{Event, EventKind},
};

/// A webhook's place in the trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WebhookRow {
    pub(crate) name: String,
    /// The last event that is done with; 0 before the first.
    pub(crate) last_event_id: i64,
    /// How many events were given up.
    pub(crate) dead_letters: i64,
}

/// An event that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DeadLetterRow {
    pub(crate) webhook: String,
    pub(crate) event_id: i64,
    pub(crate) time_ms: Timestamp,
    pub(crate) why: String,
}

pub(super) const WRITE: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into webhooks (name, last_event_id, dead_letters)
        select v->>'name', v->>'last_event_id', v->>'dead_letters'
        from rows
        where true
        on conflict (name) do update set
            last_event_id = excluded.last_event_id,
            dead_letters = excluded.dead_letters";

pub(super) const WRITE_DEAD_LETTERS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into dead_letters (webhook, event_id, time_ms, why)
        select v->>'webhook', v->>'event_id', v->>'time_ms', v->>'why'
        from rows
        where true
        on conflict (webhook, event_id) do update set
            time_ms = excluded.time_ms,
            why = excluded.why";

/// Of each webhook's dead letters the newest 1,000 are kept, of those whose letters `$1` holds.
pub(super) const TRIM_DEAD_LETTERS: &str = "delete from dead_letters
        where (webhook, event_id) in (
            select webhook, event_id
            from (
                select webhook, event_id, row_number() over (partition by webhook order by event_id desc) as place
                from dead_letters
                where webhook in (select value->>'webhook' from json_each($1))
            )
            where place > 1000
        )";

impl Reader {
    /// A webhook's place; none if it is new.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn webhook(&self, name: &str) -> Result<Option<WebhookRow>, StoreError> {
        let row = sqlx::query("select name, last_event_id, dead_letters from webhooks where name = $1")
            .bind(name.to_owned())
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| {
            Ok(WebhookRow {
                name: row.try_get("name")?,
                last_event_id: row.try_get("last_event_id")?,
                dead_letters: row.try_get("dead_letters")?,
            })
        })
        .transpose()
    }

    /// Events of all runs after `after` and up to `up_to`, of these kinds, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn events_of_kinds(
        &self,
        kinds: &[EventKind],
        after: i64,
        up_to: i64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let rows = sqlx::query(
            "select id, run_id, time_ms, kind, from_state, to_state, by_actor, reason, attempt, rank, evidence
            from events
            where id > $1
                and id <= $2
                and kind in (select value from json_each($3))
            order by id
            limit $4",
        )
        .bind(after)
        .bind(up_to)
        .bind(array("events", kinds)?)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(events::event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Batch, open};

    #[tokio::test]
    async fn of_each_webhooks_dead_letters_the_newest_thousand_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) = open(&dir.path().join("t.db")).await.unwrap();
        for (webhook, letters) in [("a", 0..700), ("b", 0..10), ("a", 700..1500)] {
            let mut batch = Batch::default();
            for event_id in letters.clone() {
                let (webhook, why) = (webhook.to_owned(), "refused".to_owned());
                let time_ms = Timestamp::from_ms(event_id);
                batch.dead_letter(&DeadLetterRow { webhook, event_id, time_ms, why });
            }
            for last_event_id in [letters.start, letters.end] {
                batch.webhook(&WebhookRow { name: webhook.into(), last_event_id, dead_letters: letters.end });
            }
            writer.commit(batch).await.unwrap();
        }
        let kept: Vec<(String, i64, i64, i64)> = sqlx::query_as(
            "select webhook, count(*), min(event_id), max(event_id)
            from dead_letters
            group by webhook
            order by webhook",
        )
        .fetch_all(&reader.pool)
        .await
        .unwrap();
        assert_eq!(kept, [("a".to_owned(), 1000, 500, 1499), ("b".to_owned(), 10, 0, 9)]);
        let place = reader.webhook("a").await.unwrap().unwrap();
        assert_eq!((place.last_event_id, place.dead_letters), (1500, 1500));
        assert_eq!(reader.webhook("c").await.unwrap(), None);
    }
}
