//! What there is to say, one thing an item, and reports as batches.

use serde::{Deserialize, Serialize};

use crate::{
    base::{ActorId, number::size},
    controller::session::Taken,
    model::{
        metrics::{Columns, MetricValue, Report, ReportBatch},
        verbs::{BeginAttempt, RunVerb},
    },
};

/// Most reports of one message.
const REPORTS: usize = 2000;
/// Most bytes of one message, roughly: well below what a head takes.
const PART_BYTES: usize = 2 * 1024 * 1024;
/// What a verb weighs besides its workers.
const VERB_WEIGHT: usize = 1024;
/// What a worker, a node or a line of a log weighs in a verb.
const MEMBER_WEIGHT: usize = 256;

/// One thing to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Item {
    Say(RunVerb),
    /// The answer is for whoever holds the ticket.
    Begin {
        ticket: u64,
        body: BeginAttempt,
    },
    /// It has its number, so that whoever delivers it, and however often, it is stored once.
    Report(ReportBatch),
}

impl Item {
    /// Roughly how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Say(RunVerb::AttemptRunning(_, body)) => VERB_WEIGHT + body.workers.len() * MEMBER_WEIGHT,
            Self::Say(RunVerb::ChangeWorkers(_, body)) => VERB_WEIGHT + body.workers.len() * MEMBER_WEIGHT,
            Self::Say(RunVerb::End(body)) => {
                let failure = body.first_failure.as_ref();
                let lines = failure.map_or(0, |f| f.log_tail.iter().map(String::len).sum());
                VERB_WEIGHT + lines
            }
            Self::Say(RunVerb::RecordCheckpoint(_, body)) => {
                VERB_WEIGHT + body.metrics.keys().map(|key| key.len() + 32).sum::<usize>()
            }
            Self::Say(RunVerb::SetState(_) | RunVerb::EndAttempt(..)) => VERB_WEIGHT,
            Self::Say(RunVerb::BeginAttempt(body)) | Self::Begin { body, .. } => {
                VERB_WEIGHT + (body.nodes.len() + body.node_ids.len()) * MEMBER_WEIGHT
            }
            Self::Report(batch) => {
                let row = |report: &Report| {
                    32 + report.metrics.iter().map(|(key, _)| key.len() + 96).sum::<usize>()
                };
                let columns = batch.columns.as_ref().map_or(0, |columns| {
                    let values =
                        columns.metrics.iter().map(|(key, values)| key.len() + 96 + 8 * values.len());
                    16 * columns.step.len() + values.sum::<usize>()
                });
                128 + columns + batch.reports.iter().map(row).sum::<usize>()
            }
        }
    }

    /// How many points it carries.
    pub(super) fn points(&self) -> u64 {
        let Self::Report(batch) = self else { return 0 };
        let columns = batch.columns.iter().flat_map(|columns| columns.metrics.iter()).map(|(_, v)| v.len());
        let rows = batch.reports.iter().map(|report| report.metrics.len());
        size(columns.chain(rows).sum())
    }
}

/// What a rank reported, in messages of a bounded size.
pub(super) fn batches(writer: &ActorId, attempt: u32, rank: u32, reports: &[Taken]) -> Vec<ReportBatch> {
    let mut rest = reports;
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |report: &&Taken| {
            bytes += 32 + report.metrics.iter().map(|(key, _)| key.len() + 24).sum::<usize>();
            bytes <= PART_BYTES
        };
        let some = rest.iter().take(REPORTS).take_while(fits).count().max(1);
        let (part, others) = rest.split_at(some);
        batches.push(batch(writer, attempt, rank, part));
        rest = others;
    }
    batches
}

/// Reports as a message: as columns where all have the same keys, which is the quick form.
fn batch(writer: &ActorId, attempt: u32, rank: u32, reports: &[Taken]) -> ReportBatch {
    let mut batch =
        ReportBatch { writer: writer.clone(), seq: 0, attempt, rank, reports: Vec::new(), columns: None };
    let keys = |r: &Taken| r.metrics.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let first = reports.first().map(keys).unwrap_or_default();
    if reports.iter().all(|r| r.metrics.iter().map(|(key, _)| key).eq(first.iter())) {
        let column =
            |at: usize| reports.iter().filter_map(move |r| r.metrics.get(at)).map(|(_, x)| MetricValue(*x));
        batch.columns = Some(Columns {
            step: reports.iter().map(|r| r.step).collect(),
            time_ms: Some(reports.iter().map(|r| r.time).collect()),
            metrics: first.into_iter().enumerate().map(|(at, key)| (key, column(at).collect())).collect(),
        });
    } else {
        batch.reports = reports
            .iter()
            .map(|r| Report {
                step: Some(r.step),
                time_ms: Some(r.time),
                metrics: r.metrics.iter().map(|(key, x)| (key.as_str(), MetricValue(*x))).collect(),
            })
            .collect();
    }
    batch
}
