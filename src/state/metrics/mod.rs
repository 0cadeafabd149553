//! Metrics as they are read: summaries, series, and series of many runs.

use std::collections::{BTreeMap, VecDeque};

use super::{StateError, StateHandle};
use crate::{
    base::{Invalid, RunId, number},
    model::{
        Refusal,
        downsample::{Sample, min_max},
        series::{AttemptChoice, CompareRequest, Lost, Overview, Series, SeriesAnswer, SeriesRequest},
    },
    store::metrics::SeriesQuery,
};

/// Series of many runs, one run after another.
#[derive(Debug)]
pub struct Comparison {
    state: StateHandle,
    runs: VecDeque<RunId>,
    request: SeriesRequest,
}

impl Comparison {
    /// The series of the next run; nothing after the last.
    pub async fn next(&mut self) -> Option<Result<(RunId, Vec<Series>), StateError>> {
        let run = self.runs.pop_front()?;
        Some(self.state.series(&run, &self.request).await.map(|answer| (run, answer.series)))
    }
}

impl StateHandle {
    /// What is known of each metric of a run.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn metrics(&self, id: &RunId) -> Result<Overview, StateError> {
        self.known(id)?;
        let metrics = self.shared.reader.metric_summaries(id).await?;
        Ok(Overview { metrics, lost: Lost::default(), cursor: 0 })
    }

    /// Series of many runs on one grid.
    ///
    /// # Errors
    /// When one of the runs does not exist, or no key is asked for.
    pub async fn compare(&self, request: CompareRequest) -> Result<Comparison, StateError> {
        for run in &request.runs {
            self.known(run)?;
        }
        Ok(Comparison { state: self.clone(), runs: request.runs.into(), request: request.series })
    }

    /// Series of a run: range first, then sampling.
    ///
    /// # Errors
    /// When there is no such run, or no key is asked for.
    pub async fn series(&self, id: &RunId, request: &SeriesRequest) -> Result<SeriesAnswer, StateError> {
        self.known(id)?;
        if request.keys.is_empty() {
            return Err(Refusal::from(Invalid::rule("key", "name at least one key, ?key=…")).into());
        }
        let mut out = Vec::new();
        for key in &request.keys {
            let query = SeriesQuery {
                run: id.clone(),
                key: key.clone(),
                rank: request.rank,
                attempt: match request.attempt {
                    AttemptChoice::One(ordinal) => Some(ordinal),
                    AttemptChoice::Merged | AttemptChoice::All => None,
                },
                from_step: request.span.from_step,
                to_step: request.span.to_step,
            };
            let mut groups: BTreeMap<(u32, Option<u32>), Vec<Sample>> = BTreeMap::new();
            for (rank, sample) in self.shared.reader.series(&query).await? {
                let attempt = (request.attempt != AttemptChoice::Merged).then_some(sample.attempt);
                let samples = groups.entry((rank, attempt)).or_default();
                // Of equal steps the newest attempt's comes first, and is the one that counts.
                if samples.last().is_none_or(|last| last.step != sample.step) {
                    samples.push(sample);
                }
            }
            out.extend(groups.into_iter().map(|((rank, attempt), samples)| {
                let thin = min_max(&samples, request.max_points);
                Series {
                    key: key.clone(),
                    attempt: attempt.map_or_else(|| "merged".into(), Into::into),
                    rank,
                    count: number::size(samples.len()),
                    next_step: None,
                    step: thin.iter().map(|s| s.step).collect(),
                    time_ms: thin.iter().map(|s| s.time_ms).collect(),
                    value: thin.iter().map(|s| s.value).collect(),
                    attempt_at: thin.iter().map(|s| s.attempt).collect(),
                }
            }));
        }
        Ok(SeriesAnswer { series: out, cursor: 0, whole: true })
    }
}
