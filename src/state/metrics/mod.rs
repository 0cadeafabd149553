//! Metrics: how they are kept in memory (`window`, `windows`) and sealed (`sealer`, `seal`), and how they are read (`read`,
//! `pieces`, `overview`).

mod overview;
mod pieces;
mod read;
mod seal;
mod sealer;
mod upgrade;
mod window;
mod windows;

use std::collections::VecDeque;

pub(super) use read::window_of;
pub(super) use sealer::{SealRequest, Sealer};
pub(super) use upgrade::upgrade;
pub(super) use window::SealState;
pub(super) use windows::Windows;

use self::read::Reading;
use super::{StateError, StateHandle};
use crate::{
    base::{Invalid, RunId},
    model::{
        Refusal,
        buckets::Grid,
        series::{CompareRequest, Overview, Series, SeriesAnswer, SeriesRequest},
    },
};

/// Series of many runs on one grid, one run after another.
#[derive(Debug)]
pub struct Comparison {
    state: StateHandle,
    runs: VecDeque<RunId>,
    request: SeriesRequest,
    grid: Option<Grid>,
}

impl Comparison {
    /// The series of the next run; nothing after the last.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next(&mut self) -> Option<Result<(RunId, Vec<Series>), StateError>> {
        let run = self.runs.pop_front()?;
        let shared = &self.state.shared;
        let series =
            async { Reading::of(shared, &run, &self.request).await?.finish(&self.request, self.grid).await };
        Some(series.await.map(|series| (run, series)))
    }
}

impl StateHandle {
    /// What is known of each metric of a run.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn metrics(&self, id: &RunId) -> Result<Overview, StateError> {
        self.known(id)?;
        overview::overview(&self.shared, id).await
    }

    /// Series of many runs on one grid, so that their curves line up.
    ///
    /// # Errors
    /// When one of the runs does not exist, or no key is asked for.
    pub async fn compare(&self, request: CompareRequest) -> Result<Comparison, StateError> {
        let CompareRequest { runs, series: request } = request;
        check(&request)?;
        let mut whole: Option<(i64, i64)> = None;
        for run in &runs {
            self.known(run)?;
            let extent = Reading::of(&self.shared, run, &request).await?.extent(&request);
            whole = match (whole, extent) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (a, b) => a.or(b),
            };
        }
        let grid = whole.map(|(first, last)| Grid::over(first, last, request.buckets()));
        Ok(Comparison { state: self.clone(), runs: runs.into(), request, grid })
    }

    /// Series of a run: range first, then sampling. With `since`, only what came after it, if that is known and not more
    /// than is asked for.
    ///
    /// # Errors
    /// When there is no such run, or no key is asked for.
    pub async fn series(&self, id: &RunId, request: &SeriesRequest) -> Result<SeriesAnswer, StateError> {
        self.known(id)?;
        check(request)?;
        let news = match request.since {
            Some(since) => read::news(&self.shared, id, request, since).await?,
            None => None,
        };
        if let Some(answer) = news {
            return Ok(answer);
        }
        // Before the points are read: what comes meanwhile comes again.
        let cursor = read::cursor(&self.shared, id).await?;
        let series = Reading::of(&self.shared, id, request).await?.finish(request, None).await?;
        Ok(SeriesAnswer { series, cursor, whole: true })
    }
}

fn check(request: &SeriesRequest) -> Result<(), StateError> {
    if request.keys.is_empty() {
        return Err(Refusal::from(Invalid::rule("key", "name at least one key, ?key=…")).into());
    }
    Ok(())
}
