//! Tables `metric_*`: keys, streams (what one rank of one attempt reports), the tail of batches that are not sealed yet,
//! sealed chunks, and which batches of which writer are in. Here what is written; `view` reads.

pub(crate) mod upgrade;
pub(crate) mod view;

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;
use sqlx::Row;

use super::{
    StoreError, Writer,
    json_row::{json, small, word},
};
use crate::{
    base::{ActorId, RunId},
    model::seqs::SeqSet,
};

/// A key that a run has not had before. Ids are given by the StateActor.
#[derive(Debug, Serialize)]
pub(super) struct KeyRow<'a> {
    pub(super) id: i64,
    pub(super) run_id: &'a RunId,
    pub(super) key: &'a str,
}

/// A stream that a run has not had before.
#[derive(Debug, Serialize)]
pub(crate) struct StreamRow<'a> {
    pub(crate) id: i64,
    pub(crate) run_id: &'a RunId,
    pub(crate) attempt: u32,
    pub(crate) rank: u32,
}

/// Which batches of a writer are in.
#[derive(Debug, Serialize)]
pub(crate) struct WriterRow<'a> {
    pub(crate) run_id: &'a RunId,
    pub(crate) writer: &'a ActorId,
    pub(crate) stored: &'a SeqSet,
}

/// A chunk to be written.
#[derive(Debug)]
pub(crate) struct ChunkRow {
    pub(crate) key_id: i64,
    pub(crate) first_step: i64,
    pub(crate) last_step: i64,
    pub(crate) digest: Vec<u8>,
    pub(crate) rollup: Vec<u8>,
    pub(crate) points: Vec<u8>,
}

/// What sealing makes of a stream's tail: chunks in place of batches, and of chunks that were written anew.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    pub(crate) stream_id: i64,
    /// Batches up to here are in the chunks.
    pub(crate) through: i64,
    /// These batches, which go.
    pub(crate) batches: Vec<i64>,
    pub(crate) summaries: Vec<u8>,
    pub(crate) chunks: Vec<ChunkRow>,
    /// Ids of chunks that these replace.
    pub(crate) replaced: Vec<i64>,
}

pub(super) const WRITE_KEYS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into metric_keys (id, run_id, key)
        select v->>'id', v->>'run_id', v->>'key'
        from rows";

pub(super) const WRITE_STREAMS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into metric_streams (id, run_id, attempt, rank)
        select v->>'id', v->>'run_id', v->>'attempt', v->>'rank'
        from rows";

pub(super) const WRITE_TAIL: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert or rollback into metric_tail (id, stream_id, points)
        select v->>0, v->>1, substr($long, v->>'$[2][0]', v->>'$[2][1]')
        from rows";

pub(super) const WRITE_WRITERS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into metric_writers (run_id, writer, stored)
        select v->>'run_id', v->>'writer', v->>'stored'
        from rows
        where true
        on conflict (run_id, writer) do update set stored = excluded.stored";

pub(super) const WRITE_SEALS: [&str; 2] = [
    "with rows (v) as materialized (select value from jsonb_each($1))
    update metric_streams
    set sealed_through = v->>1, summaries = substr($long, v->>'$[2][0]', v->>'$[2][1]')
    from rows
    where id = v->>0",
    "with rows (v) as materialized (select value from jsonb_each($1))
    delete from metric_tail where id in (select b.value from rows cross join json_each(v->'$[3]') b)",
];

pub(super) const REMOVE_TAIL: &str = "delete from metric_tail where id in (select value from json_each($1))";

pub(super) const REMOVE_CHUNKS: &str =
    "delete from metric_chunks where id in (select value from json_each($1))";

pub(super) const WRITE_CHUNKS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert or rollback into metric_chunks (key_id, stream_id, first_step, last_step, digest, rollup, points)
        select v->>0, v->>1, v->>2, v->>3,
            substr($long, v->>'$[4][0][0]', v->>'$[4][0][1]'),
            substr($long, v->>'$[4][1][0]', v->>'$[4][1][1]'),
            substr($long, v->>'$[4][2][0]', v->>'$[4][2][1]')
        from rows";

/// The highest ids in use; 0 where there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastIds {
    pub(crate) key: i64,
    pub(crate) stream: i64,
    pub(crate) batch: i64,
}

impl LastIds {
    /// The ids after these.
    pub(crate) fn next(self) -> Self {
        Self { key: self.key + 1, stream: self.stream + 1, batch: self.batch + 1 }
    }
}

/// A stream as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) id: i64,
    pub(crate) attempt: u32,
    pub(crate) rank: u32,
    pub(crate) sealed_through: i64,
}

impl Writer {
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn last_metric_ids(&mut self) -> Result<LastIds, StoreError> {
        let row = sqlx::query(
            "select (select coalesce(max(id), 0) from metric_keys) as key,
                (select coalesce(max(id), 0) from metric_streams) as stream,
                coalesce((select seq from sqlite_sequence where name = 'metric_tail'), 0) as batch",
        )
        .fetch_one(&mut self.connection)
        .await?;
        Ok(LastIds { key: row.try_get("key")?, stream: row.try_get("stream")?, batch: row.try_get("batch")? })
    }

    /// The metric keys of a run with their ids.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn metric_keys(&mut self, run: &RunId) -> Result<HashMap<Arc<str>, i64>, StoreError> {
        view::keys(&mut self.connection, run)
            .await
            .map(|keys| keys.into_iter().map(|(id, key)| (key, id)).collect())
    }

    /// The streams of a run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn metric_streams(&mut self, run: &RunId) -> Result<Vec<Stream>, StoreError> {
        view::streams(&mut self.connection, run).await
    }

    /// These batches that are not sealed yet, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn metric_tail(&mut self, batches: &[i64]) -> Result<Vec<view::TailRow>, StoreError> {
        view::tail(&mut self.connection, batches).await
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

    /// The ids of all batches that are not sealed yet, by run. Looks at every one of them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn unsealed_batches(&mut self) -> Result<HashMap<RunId, Vec<i64>>, StoreError> {
        let rows = sqlx::query(
            "select s.run_id, t.batches
            from (select stream_id, json_group_array(id) as batches from metric_tail group by stream_id) t
            join metric_streams s on s.id = t.stream_id",
        )
        .fetch_all(&mut self.connection)
        .await?;
        let mut of_runs: HashMap<RunId, Vec<i64>> = HashMap::new();
        for row in &rows {
            let batches: Vec<i64> = json("metric_tail", row, "batches")?;
            of_runs.entry(word("metric_streams", row, "run_id")?).or_default().extend(batches);
        }
        Ok(of_runs)
    }
}

fn stream(row: &sqlx::sqlite::SqliteRow) -> Result<Stream, StoreError> {
    const T: &str = "metric_streams";
    Ok(Stream {
        id: row.try_get("id")?,
        attempt: small(T, row, "attempt")?,
        rank: small(T, row, "rank")?,
        sealed_through: row.try_get("sealed_through")?,
    })
}
