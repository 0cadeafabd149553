//! Metrics that an earlier version wrote, a row a point.

use sqlx::Row;

use crate::{
    base::RunId,
    model::track::{Sample, Track},
    store::{
        StoreError, Writer,
        json_row::{small, word},
    },
};

/// Removes the points of the runs whose ids are the JSON array `$1`.
pub(in crate::store) const REMOVE_OLD_POINTS: &str = "delete from metric_points
    where key_id in (select id from metric_keys where run_id in (select value from json_each($1)))";

/// A series of an earlier version.
#[derive(Debug)]
pub(crate) struct OldSeries {
    pub(crate) attempt: u32,
    pub(crate) rank: u32,
    pub(crate) key_id: i64,
    pub(crate) track: Track,
}

impl Writer {
    /// Runs that have points in rows.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn runs_with_old_points(&mut self) -> Result<Vec<RunId>, StoreError> {
        let rows = sqlx::query(
            "select distinct run_id from metric_keys k
            where exists (select 1 from metric_points where key_id = k.id)",
        )
        .fetch_all(&mut self.connection)
        .await?;
        rows.iter().map(|row| word("metric_keys", row, "run_id")).collect()
    }

    /// The series of such a run, by attempt, rank and key.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn old_series(&mut self, run: &RunId) -> Result<Vec<OldSeries>, StoreError> {
        let rows = sqlx::query(
            "select p.attempt, p.rank, p.key_id, p.step, p.time_ms, p.bits
            from metric_keys k
            join metric_points p on p.key_id = k.id
            where k.run_id = $1
            order by p.attempt, p.rank, p.key_id, p.step",
        )
        .bind(run.to_string())
        .fetch_all(&mut self.connection)
        .await?;
        let mut out: Vec<OldSeries> = Vec::new();
        for row in &rows {
            const T: &str = "metric_points";
            let (attempt, rank) = (small(T, row, "attempt")?, small(T, row, "rank")?);
            let key_id: i64 = row.try_get("key_id")?;
            let bits: i64 = row.try_get("bits")?;
            let sample = Sample {
                step: row.try_get("step")?,
                time_ms: row.try_get("time_ms")?,
                value: f64::from_bits(bits.cast_unsigned()),
                attempt: 0,
            };
            match out.last_mut() {
                Some(s) if (s.attempt, s.rank, s.key_id) == (attempt, rank, key_id) => {
                    s.track.extend([sample]);
                }
                _ => {
                    let mut track = Track::default();
                    track.extend([sample]);
                    out.push(OldSeries { attempt, rank, key_id, track });
                }
            }
        }
        Ok(out)
    }
}
