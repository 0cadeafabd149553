//! Queries: what is shown is what is stored, reconciled first.

use std::{io::Write, sync::Arc};

use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    StateError, StateHandle,
    data_dir::DataDir,
    list::member,
    live::{LiveFacts, evidence},
    shown::ShownRun,
};
use crate::{
    base::{RunId, Timestamp, host::WorkerStats},
    model::{
        Event, Refusal, RunRecord,
        progress::Progress,
        run::Controller,
        view::{Evidence, Standing, StatsOf},
    },
};

/// Of a run what changes by the clock alone.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunEvidence {
    /// What is known of its controller and its progress, and how.
    pub evidence: Evidence,
    /// What the workers on the head's host use right now, by rank; only if `include` has `stats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<RankStats>, required = false)]
    pub stats: Option<Vec<RankStats>>,
    /// The server's time of this answer.
    pub server_time_ms: Timestamp,
}

/// What one worker of the newest attempt uses right now.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RankStats {
    /// Its rank.
    pub world_rank: u32,
    /// What that is.
    #[serde(flatten)]
    pub stats: WorkerStats,
}

/// Room for what changes by itself of a run.
const MOVING: usize = 1024;

impl StateHandle {
    /// One run in full, as JSON.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn run(&self, id: &RunId) -> Result<Bytes, StateError> {
        self.reconcile_to_read().await?;
        let shown = self.shown(id).await?;
        self.finish(id, &shown)
    }

    /// What changes of a run by the clock alone; with `stats` also what its workers on the head's host use right now.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn run_evidence(&self, id: &RunId, with_stats: bool) -> Result<RunEvidence, StateError> {
        self.reconcile_to_read().await?;
        let shown = self.shown(id).await?;
        let (controller, stored) = match &shown.live {
            Some((controller, progress)) => (controller.clone(), progress.clone()),
            None => {
                let controller = self.record(id).await?.controller;
                let progress = self.shared.reader.progress(std::slice::from_ref(id)).await?.remove(id);
                (controller, progress)
            }
        };
        let stats = if with_stats { Some(self.stats_by_rank(id).await?) } else { None };
        let live = self.shared.live.get(id).filter(|_| shown.live.is_some());
        let evidence = evidence(&controller, live.as_ref(), stored.as_ref(), self.shared.clock.as_ref());
        Ok(RunEvidence { evidence, stats, server_time_ms: self.now() })
    }

    async fn stats_by_rank(&self, id: &RunId) -> Result<Vec<RankStats>, StateError> {
        if !self.is_live(id)? {
            return Ok(Vec::new());
        }
        let record = self.record(id).await?;
        let stats = self.stats(std::slice::from_ref(&record)).await?.remove(id).unwrap_or_default();
        Ok(stats.into_iter().map(|((_, world_rank), stats)| RankStats { world_rank, stats }).collect())
    }

    /// The run as it lies ready but for what changes by itself.
    async fn shown(&self, id: &RunId) -> Result<Arc<ShownRun>, StateError> {
        let shared = &self.shared;
        let (known, commits) = shared.shown.get(id);
        if let Some(shown) = known {
            return Ok(shown);
        }
        let shown = Arc::new(self.show(&self.record(id).await?, &StatsOf::new()).await?);
        shared.shown.keep(id, &shown, commits);
        Ok(shown)
    }

    /// One run in full, with what its workers on the head's host use right now, as JSON.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn run_with_stats(&self, id: &RunId) -> Result<Bytes, StateError> {
        self.reconcile_to_read().await?;
        if !self.is_live(id)? {
            // Nothing of it uses anything, so that it is shown as it lies ready.
            return self.run(id).await;
        }
        let record = self.record(id).await?;
        let stats = self.stats(std::slice::from_ref(&record)).await?.remove(id).unwrap_or_default();
        let shown = self.show(&record, &stats).await?;
        self.finish(id, &shown)
    }

    /// Adds what changes by itself.
    fn finish(&self, id: &RunId, shown: &ShownRun) -> Result<Bytes, StateError> {
        let mut out = Vec::with_capacity(shown.json.len() + MOVING);
        out.extend_from_slice(&shown.json);
        if let Some((controller, progress)) = &shown.live {
            let live = self.shared.live.get(id);
            self.moving(controller, live.as_ref(), progress.as_ref(), &mut out)?;
        }
        // Writing to a vector cannot fail.
        let _ = write!(out, ",\"server_time_ms\":{}}}", self.now().as_ms());
        Ok(out.into())
    }

    async fn record(&self, id: &RunId) -> Result<RunRecord, StateError> {
        let record = self.shared.reader.record(id).await?;
        Ok(record.ok_or_else(|| Refusal::RunNotFound(id.clone()))?)
    }

    async fn show(&self, record: &RunRecord, stats: &StatsOf) -> Result<ShownRun, StateError> {
        let detail = Standing {
            run: record.view(stats),
            epoch: record.controller.epoch,
            stop: record.run.stop.as_ref(),
            attempts: record.attempt_views(stats),
        };
        let mut json = serde_json::to_vec(&detail).map_err(|e| StateError::Unavailable(e.to_string()))?;
        json.pop();
        let id = &record.run.id;
        let progress = self.shared.reader.progress(std::slice::from_ref(id)).await?.remove(id);
        if !record.run.phase.is_terminal() {
            return Ok(ShownRun { json, live: Some((record.controller.clone(), progress)) });
        }
        self.moving(&record.controller, None, progress.as_ref(), &mut json)?;
        Ok(ShownRun { json, live: None })
    }

    /// Writes the members that change by themselves while a run lives, but for the time.
    fn moving(
        &self,
        controller: &Controller,
        live: Option<&LiveFacts>,
        stored: Option<&Progress>,
        json: &mut Vec<u8>,
    ) -> Result<(), StateError> {
        let progress = live.map(|l| &l.progress).or(stored);
        member(json, "evidence", &evidence(controller, live, stored, self.shared.clock.as_ref()))?;
        member(json, "last_metrics", &progress.map(Progress::last_metrics).unwrap_or_default())
    }

    /// A page of a run's trail after the event `after`, oldest first.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn events(&self, id: &RunId, after: i64, limit: u32) -> Result<Vec<Event>, StateError> {
        self.reconcile_to_read().await?;
        self.known(id)?;
        Ok(self.shared.reader.events(id, after, limit).await?)
    }

    /// Ordinals of attempts, all or this one, and how many workers each has: that is where logs may be.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn attempt_sizes(&self, id: &RunId, only: Option<u32>) -> Result<Vec<(u32, u32)>, StateError> {
        self.known(id)?;
        let reader = &self.shared.reader;
        let Some(ordinal) = only else { return Ok(reader.sizes(id).await?) };
        let size = reader.num_workers(id, ordinal).await?;
        Ok(size.map(|size| (ordinal, size)).into_iter().collect())
    }

    /// Whether the run lives.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn is_live(&self, id: &RunId) -> Result<bool, StateError> {
        let index = self.shared.index.read();
        let entry = index.get(id).ok_or_else(|| Refusal::RunNotFound(id.clone()))?;
        Ok(entry.is_live())
    }

    /// Where its files lie.
    #[must_use]
    pub fn data_dir(&self) -> &DataDir {
        &self.shared.data_dir
    }

    pub(super) fn known(&self, id: &RunId) -> Result<(), StateError> {
        self.is_live(id).map(drop)
    }
}
