//! At the first start with chunks: what an earlier version kept as a row a point becomes chunks. A run at a time, each in
//! one transaction, so that a start that is broken off goes on where it was.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tracing::info;

use super::seal::Seal;
use crate::{
    base::number,
    model::track::Track,
    state::{StateError, blocking::blocking},
    store::{Batch, Writer, metrics::StreamRow},
};

pub(in crate::state) async fn upgrade(writer: &mut Writer) -> Result<(), StateError> {
    let runs = writer.runs_with_old_points().await?;
    if runs.is_empty() {
        return Ok(());
    }
    info!("an earlier version wrote the metrics of {} runs: they are being compressed", runs.len());
    let mut told = Instant::now();
    let mut next = writer.last_metric_ids().await?.stream + 1;
    for (done, run) in runs.iter().enumerate() {
        if told.elapsed() > Duration::from_secs(2) {
            info!("the metrics of {done} of {} runs are compressed", runs.len());
            told = Instant::now();
        }
        let mut streams: BTreeMap<(u32, u32), BTreeMap<i64, Track>> = BTreeMap::new();
        for series in writer.old_series(run).await? {
            streams.entry((series.attempt, series.rank)).or_default().insert(series.key_id, series.track);
        }
        let ids = next..;
        next += number::count(streams.len());
        let run = run.clone();
        let batch = blocking(move || {
            let mut batch = Batch::default();
            for (id, ((attempt, rank), tracks)) in ids.zip(streams) {
                batch.metric_stream(&StreamRow { id, run_id: &run, attempt, rank });
                let seal = Seal::of_tracks(id, 0, tracks, Vec::new(), true);
                batch.seal(&seal.finish(Vec::new(), Vec::new())?);
            }
            batch.upgraded(&run);
            Ok::<_, StateError>(batch)
        });
        writer.commit(batch.await??).await?;
    }
    Ok(())
}
