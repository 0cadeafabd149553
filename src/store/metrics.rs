//! Tables `metric_*`: the seam behind which the storage of metrics can change. Written: keys, points, and which batches
//! of which writer are in. Read: summaries, one series, and what a writer has delivered.

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;
use sqlx::Row;

use super::{
    Reader, StoreError, Writer,
    json_row::{json, small, word},
};
use crate::{
    base::{ActorId, RunId, Timestamp},
    model::{
        downsample::Sample,
        metrics::{MetricSummary, MetricValue},
        seqs::SeqSet,
    },
};

/// A key that a run has not had before. Ids are given by the StateActor.
#[derive(Debug, Serialize)]
pub(super) struct KeyRow<'a> {
    pub(super) id: i64,
    pub(super) run_id: &'a RunId,
    pub(super) key: &'a str,
}

/// A point: key id, rank, step, attempt, time, value for SQL, exact bits.
#[derive(Debug, Serialize)]
pub(crate) struct PointRow(i64, u32, i64, u32, i64, Option<SqlReal>, i64);

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum SqlReal {
    Finite(f64),
    /// JSON has no infinity; SQLite reads this text as one.
    Infinite(&'static str),
}

/// Which batches of a writer are in.
#[derive(Debug, Serialize)]
pub(crate) struct WriterRow<'a> {
    pub(crate) run_id: &'a RunId,
    pub(crate) writer: &'a ActorId,
    pub(crate) stored: &'a SeqSet,
}

impl PointRow {
    pub(crate) fn new(key_id: i64, rank: u32, step: i64, attempt: u32, time: Timestamp, value: f64) -> Self {
        let real = match value {
            x if x.is_nan() => None,
            x if x.is_finite() => Some(SqlReal::Finite(x)),
            x => Some(SqlReal::Infinite(if x > 0.0 { "9e999" } else { "-9e999" })),
        };
        // The same 64 bits read as a signed integer, which is what SQLite has.
        let bits = i64::from_ne_bytes(value.to_bits().to_ne_bytes());
        Self(key_id, rank, step, attempt, time.as_ms(), real, bits)
    }
}

fn value_of(bits: i64) -> MetricValue {
    MetricValue(f64::from_bits(u64::from_ne_bytes(bits.to_ne_bytes())))
}

pub(super) const WRITE_KEYS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into metric_keys (id, run_id, key)
        select v->>'id', v->>'run_id', v->>'key'
        from rows";

/// Within one attempt the same (key, rank, step) again: the last received wins, without a look at the history.
pub(super) const WRITE_POINTS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into metric_points (key_id, rank, step, attempt, time_ms, value, bits)
        select v->>0, v->>1, v->>2, v->>3, v->>4, cast(v->>5 as real), v->>6
        from rows
        where true
        on conflict (key_id, rank, step, attempt) do update set
            time_ms = excluded.time_ms,
            value = excluded.value,
            bits = excluded.bits";

pub(super) const WRITE_WRITERS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into metric_writers (run_id, writer, stored)
        select v->>'run_id', v->>'writer', v->>'stored'
        from rows
        where true
        on conflict (run_id, writer) do update set stored = excluded.stored";

impl Writer {
    /// The highest key id in use; 0 if there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn last_metric_key_id(&mut self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("select coalesce(max(id), 0) from metric_keys")
            .fetch_one(&mut self.connection)
            .await?)
    }

    /// The metric keys of a run with their ids.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn metric_keys(&mut self, run: &RunId) -> Result<HashMap<Arc<str>, i64>, StoreError> {
        let rows = sqlx::query("select id, key from metric_keys where run_id = $1")
            .bind(run.to_string())
            .fetch_all(&mut self.connection)
            .await?;
        rows.iter()
            .map(|row| {
                let key: String = row.try_get("key")?;
                Ok((key.into(), row.try_get("id")?))
            })
            .collect()
    }

    /// Which batches of which writers of a run are in.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn metric_writers(
        &mut self,
        run: &RunId,
    ) -> Result<HashMap<ActorId, SeqSet>, StoreError> {
        let rows = sqlx::query("select writer, stored from metric_writers where run_id = $1")
            .bind(run.to_string())
            .fetch_all(&mut self.connection)
            .await?;
        const T: &str = "metric_writers";
        rows.iter().map(|row| Ok((word(T, row, "writer")?, json(T, row, "stored")?))).collect()
    }
}

/// Which part of a series is asked for.
#[derive(Clone, Debug)]
pub(crate) struct SeriesQuery {
    pub(crate) run: RunId,
    pub(crate) key: String,
    /// One rank, or all.
    pub(crate) rank: Option<u32>,
    /// One attempt, or all.
    pub(crate) attempt: Option<u32>,
    pub(crate) from_step: i64,
    pub(crate) to_step: i64,
}

impl Reader {
    /// What is known of each key of a run, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn metric_summaries(&self, run: &RunId) -> Result<Vec<MetricSummary>, StoreError> {
        let rows = sqlx::query(
            "with totals as (
                select k.id, k.key, count(*) as points, min(p.step) as first_step, max(p.step) as last_step,
                    min(p.value) as least, max(p.value) as greatest, sum(p.value is null) as nans,
                    min(p.rank) as rank
                from metric_keys k
                join metric_points p on p.key_id = k.id
                where k.run_id = $1
                group by k.id
            )
            select t.key, t.points, t.first_step, t.last_step, t.least, t.greatest, t.nans, l.bits, l.time_ms
            from totals t
            join metric_points l on (l.key_id, l.rank, l.step, l.attempt) = (
                select q.key_id, q.rank, q.step, q.attempt
                from metric_points q
                where q.key_id = t.id
                    and q.rank = t.rank
                order by q.attempt desc, q.step desc
                limit 1
            )
            order by t.key",
        )
        .bind(run.to_string())
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(MetricSummary {
                    key: row.try_get("key")?,
                    count: row.try_get("points")?,
                    first_step: row.try_get("first_step")?,
                    last_step: row.try_get("last_step")?,
                    last: value_of(row.try_get("bits")?),
                    min: row.try_get::<Option<f64>, _>("least")?.map(MetricValue),
                    max: row.try_get::<Option<f64>, _>("greatest")?.map(MetricValue),
                    nan_count: row.try_get("nans")?,
                    last_time_ms: Timestamp::from_ms(row.try_get("time_ms")?),
                })
            })
            .collect()
    }

    /// The points of one key with their rank, by rank and step; where several attempts reached a step, the newest
    /// attempt's stands first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn series(&self, query: &SeriesQuery) -> Result<Vec<(u32, Sample)>, StoreError> {
        let SeriesQuery { run, key, rank, attempt, from_step, to_step } = query;
        let rows = sqlx::query(
            "select rank, step, time_ms, bits, attempt
            from metric_points
            where key_id = (select id from metric_keys where run_id = $1 and key = $2)
                and rank between $3 and $4
                and step between $5 and $6
                and ($7 is null or attempt = $7)
            order by rank, step, attempt desc",
        )
        .bind(run.to_string())
        .bind(key.clone())
        .bind(i64::from(rank.unwrap_or(0)))
        .bind(i64::from(rank.unwrap_or(u32::MAX)))
        .bind(*from_step)
        .bind(*to_step)
        .bind(attempt.map(i64::from))
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok((
                    small("metric_points", row, "rank")?,
                    Sample {
                        step: row.try_get("step")?,
                        time_ms: row.try_get("time_ms")?,
                        value: value_of(row.try_get("bits")?),
                        attempt: small("metric_points", row, "attempt")?,
                    },
                ))
            })
            .collect()
    }
}
