//! A head for tests: it remembers what it is told, and is away, refuses or loses its answers on demand.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    base::{RunId, Secret},
    model::{
        NumFailures,
        commands::{Heartbeat, HeartbeatAnswer, RegisterRun, Registration},
        ledger::Demand,
        metrics::{ReportBatch, Stored},
        verbs::{BeginAttempt, Begun, RunVerb},
    },
    state::{ClientError, StateClient},
};

/// No test waits longer.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Heard {
    Register(Box<RegisterRun>),
    Say(RunVerb),
    Begin(BeginAttempt),
    Report(ReportBatch),
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What was taken, each thing once, in order.
    pub(super) heard: Vec<Heard>,
    pub(super) demands: Vec<Option<Demand>>,
    pub(super) logs: BTreeMap<(u32, u32), Vec<u8>>,
    /// How often it was asked for something while it was away.
    pub(super) asked_in_vain: usize,
    pub(super) away: bool,
    /// One answer of so many is lost.
    pub(super) loses: Option<usize>,
    pub(super) refuses_registration: bool,
    pub(super) refuses_begin: bool,
    pub(super) knows_no_attempt: bool,
    answers: usize,
    batches: HashSet<(String, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct FakeHead {
    seen: Mutex<Seen>,
    changed: Notify,
}

impl FakeHead {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn set<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        change(&mut self.seen.lock())
    }

    /// Waits until it has seen something.
    pub(super) async fn wait_for(&self, what: &str, seen: impl Fn(&Seen) -> bool) {
        let waited = tokio::time::timeout(LIMIT, async {
            loop {
                let changed = self.changed.notified();
                if seen(&self.seen.lock()) {
                    return;
                }
                changed.await;
            }
        });
        assert!(waited.await.is_ok(), "no {what}");
    }

    fn answer<T>(&self, work: impl FnOnce(&mut Seen) -> Result<T, ClientError>) -> Result<T, ClientError> {
        let answer = {
            let mut seen = self.seen.lock();
            if seen.away {
                seen.asked_in_vain += 1;
                Err(ClientError::Unreachable("away".into()))
            } else {
                let answer = work(&mut seen);
                seen.answers += 1;
                let lost = seen.loses.is_some_and(|n| seen.answers.is_multiple_of(n));
                if lost { Err(ClientError::Unreachable("lost".into())) } else { answer }
            }
        };
        self.changed.notify_one();
        answer
    }
}

fn refused(slug: &str) -> ClientError {
    ClientError::Refused { slug: slug.to_owned(), detail: "no".to_owned() }
}

fn hear(seen: &mut Seen, heard: Heard) {
    if !seen.heard.contains(&heard) {
        seen.heard.push(heard);
    }
}

#[async_trait]
impl StateClient for FakeHead {
    async fn register(&self, body: RegisterRun) -> Result<Registration, ClientError> {
        self.answer(|seen| {
            if seen.refuses_registration {
                return Err(refused("run-ended"));
            }
            let run_id = body.id.clone().unwrap();
            hear(seen, Heard::Register(Box::new(body)));
            Ok(Registration {
                run_id,
                name: "named".into(),
                token: Secret::new("token".into()),
                epoch: 1,
                created: true,
                num_attempts: 3,
                num_failures: NumFailures { worker: 2, ..NumFailures::default() },
            })
        })
    }

    async fn say(&self, _: &RunId, _: &Secret, verb: RunVerb) -> Result<(), ClientError> {
        self.answer(|seen| {
            hear(seen, Heard::Say(verb));
            Ok(())
        })
    }

    async fn begin_attempt(&self, _: &RunId, _: &Secret, body: BeginAttempt) -> Result<Begun, ClientError> {
        self.answer(|seen| {
            if seen.refuses_begin {
                return Err(refused("no-resources"));
            }
            let num_workers = body.num_workers;
            hear(seen, Heard::Begin(body));
            Ok(Begun { num_workers, reservation: Vec::new() })
        })
    }

    async fn append_log(
        &self,
        _: &RunId,
        _: &Secret,
        whose: (u32, u32),
        offset: u64,
        bytes: Bytes,
    ) -> Result<u64, ClientError> {
        self.answer(|seen| {
            if seen.knows_no_attempt {
                seen.asked_in_vain += 1;
                return Err(refused("attempt-not-found"));
            }
            let log = seen.logs.entry(whose).or_default();
            let offset = usize::try_from(offset).unwrap();
            if offset > log.len() {
                return Err(refused("log-gap"));
            }
            log.extend(bytes.iter().skip(log.len() - offset));
            Ok(log.len().try_into().unwrap())
        })
    }

    async fn report(&self, _: &RunId, _: &Secret, batch: ReportBatch) -> Result<Stored, ClientError> {
        self.answer(|seen| {
            let known = !seen.batches.insert((batch.writer.to_string(), batch.seq));
            if !known {
                seen.heard.push(Heard::Report(batch));
            }
            Ok(Stored { points: 1, known })
        })
    }

    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatAnswer, ClientError> {
        self.answer(|seen| {
            let fits = beat.demand.as_ref().map(|demand| demand.max_workers - 1);
            seen.demands.push(beat.demand);
            Ok(HeartbeatAnswer {
                run_id: beat.run_id,
                epoch: Some(1),
                stop_requested: false,
                stop_reason: None,
                grace_period_ms: None,
                fits,
                pinned_checkpoints: Vec::new(),
                problem: None,
            })
        })
    }
}
