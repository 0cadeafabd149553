//! Reading metrics: all that one answer needs is read from one snapshot, so that a chunk that is written anew meanwhile is
//! seen as it was or as it is.

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;
use sqlx::{Row, Sqlite, SqliteConnection, Transaction};

use super::{Stream, stream};
use crate::{
    base::RunId,
    model::track::Digest,
    store::{
        Reader, StoreError,
        codec::summaries::{Sealed, decode, decode_digest},
        json_row::array,
    },
};

/// A batch that is not sealed yet.
#[derive(Debug)]
pub(crate) struct TailRow {
    pub(crate) id: i64,
    pub(crate) stream_id: i64,
    pub(crate) points: Vec<u8>,
}

/// A chunk without its points.
#[derive(Clone, Debug)]
pub(crate) struct ChunkHead {
    pub(crate) id: i64,
    pub(crate) key_id: i64,
    pub(crate) stream_id: i64,
    pub(crate) digest: Digest,
    pub(crate) rollup: Vec<u8>,
}

/// A chunk that may be written anew.
#[derive(Debug)]
pub(crate) struct OldChunk {
    pub(crate) id: i64,
    pub(crate) key_id: i64,
    pub(crate) points: Vec<u8>,
}

/// Which chunks of a series: those with a step between two, ends included.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ChunkRange(pub(crate) i64, pub(crate) i64, pub(crate) i64);

/// The store as it was at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot(Transaction<'static, Sqlite>);

impl Reader {
    /// # Errors
    /// When no connection is free in time.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot(self.pool.begin().await?))
    }
}

impl Snapshot {
    /// The streams of a run.
    ///
    /// # Errors
    /// As all of these: when the store cannot be read.
    pub(crate) async fn streams(&mut self, run: &RunId) -> Result<Vec<Stream>, StoreError> {
        streams(&mut self.0, run).await
    }

    /// The keys of a run with their ids, by name.
    pub(crate) async fn keys(&mut self, run: &RunId) -> Result<Vec<(i64, Arc<str>)>, StoreError> {
        keys(&mut self.0, run).await
    }

    /// The ids of these keys of a run, as far as it has them.
    pub(crate) async fn key_ids(
        &mut self,
        run: &RunId,
        keys: &[String],
    ) -> Result<HashMap<String, i64>, StoreError> {
        let rows = sqlx::query(
            "select id, key from metric_keys
            where run_id = $1 and key in (select value from json_each($2))",
        )
        .bind(run.to_string())
        .bind(array("metric_keys", keys)?)
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(|row| Ok((row.try_get("key")?, row.try_get("id")?))).collect()
    }

    /// What is sealed of the streams of a run.
    pub(crate) async fn summaries(&mut self, run: &RunId) -> Result<Vec<(Stream, Vec<Sealed>)>, StoreError> {
        let rows = sqlx::query(
            "select id, attempt, rank, sealed_through, summaries from metric_streams
            where run_id = $1
            order by attempt, rank",
        )
        .bind(run.to_string())
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(|row| Ok((stream(row)?, sealed(row.try_get("summaries")?)?))).collect()
    }

    /// What is sealed of one stream; nothing if there is no such stream.
    pub(crate) async fn summary(
        &mut self,
        stream_id: i64,
    ) -> Result<Option<(Stream, Vec<Sealed>)>, StoreError> {
        let row = sqlx::query(
            "select id, attempt, rank, sealed_through, summaries from metric_streams where id = $1",
        )
        .bind(stream_id)
        .fetch_optional(&mut *self.0)
        .await?;
        row.map(|row| Ok((stream(&row)?, sealed(row.try_get("summaries")?)?))).transpose()
    }

    /// Those of these batches that are not sealed yet, oldest first.
    pub(crate) async fn tail(&mut self, batches: &[i64]) -> Result<Vec<TailRow>, StoreError> {
        tail(&mut self.0, batches).await
    }

    /// Id of a run's newest batch that is sealed; 0 if it has none.
    pub(crate) async fn newest_sealed(&mut self, run: &RunId) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar(
            "select coalesce(max(sealed_through), 0) from metric_streams where run_id = $1",
        )
        .bind(run.to_string())
        .fetch_one(&mut *self.0)
        .await?)
    }

    /// Of each of these keys and streams the lowest and the highest step in chunks.
    pub(crate) async fn extents(
        &mut self,
        keys: &[i64],
        streams: &[i64],
    ) -> Result<Vec<(i64, i64, i64, i64)>, StoreError> {
        let rows = sqlx::query(
            "select k.value as key_id, s.value as stream_id, min(c.first_step) as first_step,
                max(c.last_step) as last_step
            from json_each($1) k
            cross join json_each($2) s
            cross join metric_chunks c on c.key_id = k.value and c.stream_id = s.value
            group by k.value, s.value",
        )
        .bind(array("metric_chunks", keys)?)
        .bind(array("metric_chunks", streams)?)
        .fetch_all(&mut *self.0)
        .await?;
        let extent = |row: &sqlx::sqlite::SqliteRow| {
            Ok((
                row.try_get("key_id")?,
                row.try_get("stream_id")?,
                row.try_get("first_step")?,
                row.try_get("last_step")?,
            ))
        };
        rows.iter().map(extent).collect()
    }

    /// The chunks of these keys and streams with a step between two, without their points, by step.
    pub(crate) async fn heads(
        &mut self,
        keys: &[i64],
        streams: &[i64],
        (from, to): (i64, i64),
    ) -> Result<Vec<ChunkHead>, StoreError> {
        let rows = sqlx::query(
            "select c.id, c.key_id, c.stream_id, c.digest, c.rollup
            from json_each($1) k
            cross join json_each($2) s
            cross join metric_chunks c
                on c.key_id = k.value and c.stream_id = s.value and c.last_step >= $3 and c.first_step <= $4
            order by k.id, s.id, c.last_step",
        )
        .bind(array("metric_chunks", keys)?)
        .bind(array("metric_chunks", streams)?)
        .bind(from)
        .bind(to)
        .fetch_all(&mut *self.0)
        .await?;
        let head = |row: &sqlx::sqlite::SqliteRow| {
            Ok(ChunkHead {
                id: row.try_get(0)?,
                key_id: row.try_get(1)?,
                stream_id: row.try_get(2)?,
                digest: decode_digest(row.try_get(3)?)?,
                rollup: row.try_get(4)?,
            })
        };
        rows.iter().map(head).collect()
    }

    /// The points of these chunks.
    pub(crate) async fn points(&mut self, chunks: &[i64]) -> Result<HashMap<i64, Vec<u8>>, StoreError> {
        if chunks.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = sqlx::query(
            "select c.id, c.points from json_each($1) j cross join metric_chunks c on c.id = j.value",
        )
        .bind(array("metric_chunks", chunks)?)
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// The chunks of a stream that lie in these ranges: (key id, first, last step).
    pub(crate) async fn chunks(
        &mut self,
        stream_id: i64,
        ranges: &[ChunkRange],
    ) -> Result<Vec<OldChunk>, StoreError> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(
            "select c.id, c.key_id, c.points
            from json_each($1) r
            cross join metric_chunks c
                on c.key_id = r.value->>0 and c.stream_id = $2
                    and c.last_step >= r.value->>1 and c.first_step <= r.value->>2
            order by c.key_id, c.last_step",
        )
        .bind(array("metric_chunks", ranges)?)
        .bind(stream_id)
        .fetch_all(&mut *self.0)
        .await?;
        let chunk = |row: &sqlx::sqlite::SqliteRow| {
            Ok(OldChunk { id: row.try_get(0)?, key_id: row.try_get(1)?, points: row.try_get(2)? })
        };
        rows.iter().map(chunk).collect()
    }

    /// The digests of all chunks of these series of a stream, with their chunk's and their key's id.
    pub(crate) async fn digests(
        &mut self,
        stream_id: i64,
        keys: &[i64],
    ) -> Result<Vec<(i64, i64, Digest)>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(
            "select c.id, c.key_id, c.digest
            from json_each($1) k
            cross join metric_chunks c on c.key_id = k.value and c.stream_id = $2
            order by c.key_id, c.last_step",
        )
        .bind(array("metric_chunks", keys)?)
        .bind(stream_id)
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, decode_digest(row.try_get(2)?)?)))
            .collect()
    }
}

fn sealed(bytes: &[u8]) -> Result<Vec<Sealed>, StoreError> {
    if bytes.is_empty() { Ok(Vec::new()) } else { decode(bytes) }
}

pub(super) async fn streams(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<Stream>, StoreError> {
    let rows = sqlx::query(
        "select id, attempt, rank, sealed_through from metric_streams where run_id = $1 order by attempt, rank",
    )
    .bind(run.to_string())
    .fetch_all(connection)
    .await?;
    rows.iter().map(stream).collect()
}

pub(super) async fn keys(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(i64, Arc<str>)>, StoreError> {
    // One row, however many keys: rows cost more than what is in them.
    let json: String = sqlx::query_scalar(
        "select json_group_array(json_array(id, key))
        from (select id, key from metric_keys where run_id = $1 order by key)",
    )
    .bind(run.to_string())
    .fetch_one(connection)
    .await?;
    serde_json::from_str(&json).map_err(|e| StoreError::Corrupt { table: "metric_keys", what: e.to_string() })
}

pub(super) async fn tail(
    connection: &mut SqliteConnection,
    batches: &[i64],
) -> Result<Vec<TailRow>, StoreError> {
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(
        "select t.id, t.stream_id, t.points
        from json_each($1) b
        cross join metric_tail t on t.id = b.value
        order by t.id",
    )
    .bind(array("metric_tail", batches)?)
    .fetch_all(connection)
    .await?;
    let row = |row: &sqlx::sqlite::SqliteRow| {
        Ok(TailRow { id: row.try_get(0)?, stream_id: row.try_get(1)?, points: row.try_get(2)? })
    };
    rows.iter().map(row).collect()
}
