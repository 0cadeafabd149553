//! What rank 0 said last, for the progress display.

use std::time::Duration;

use crate::{
    base::{Timestamp, number},
    model::metrics::MetricValue,
};

/// The rate is taken over at least this long.
const RATE_WINDOW: Duration = Duration::from_secs(2);
/// Most values that the display keeps.
const SHOWN_VALUES: usize = 16;

/// What the progress display shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastReport {
    /// Last step of rank 0.
    pub step: Option<u64>,
    /// Steps a second, over the last reports.
    pub rate: Option<f64>,
    /// Last values of rank 0.
    pub metrics: Vec<(String, MetricValue)>,
    since: Option<(Timestamp, u64)>,
}

impl LastReport {
    pub(super) fn note(&mut self, step: u64, now: Timestamp, metrics: &[(String, f64)]) {
        match self.since {
            Some((at, from)) if step >= from => {
                let passed = now.since(at);
                if passed >= RATE_WINDOW {
                    let steps = number::float(i64::try_from(step - from).unwrap_or(i64::MAX));
                    self.rate = Some(steps / passed.as_secs_f64());
                    self.since = Some((now, step));
                }
            }
            _ => self.since = Some((now, step)),
        }
        self.step = Some(step);
        for (key, value) in metrics {
            let room = self.metrics.len() < SHOWN_VALUES;
            match self.metrics.iter_mut().find(|(known, _)| known == key) {
                Some((_, last)) => *last = MetricValue(*value),
                None if room => self.metrics.push((key.clone(), MetricValue(*value))),
                None => {}
            }
        }
    }
}
