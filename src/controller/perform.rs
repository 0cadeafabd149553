//! What the controller does of what its machine decided. Nothing here waits.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::info;

use super::{
    callbacks::Hook,
    group::{GroupSpec, WorkerGroup},
    policy::{Permanent, Why, drain},
    run::TrainController,
    stacks,
    steps::{Effect, Input},
};
use crate::{model::ledger::Bundle, state::DataDir};

impl<G: WorkerGroup> TrainController<G> {
    /// Does what was decided, up to a start that callbacks have to hear of before.
    pub(super) fn perform(&mut self) {
        while let Some(effect) = self.effects.pop_front() {
            match effect {
                Effect::Start { .. } if self.waits.gate.is_some() => {
                    // Still being called.
                    self.effects.push_front(effect);
                    return self.unless_told_to_end();
                }
                Effect::Start { attempt, num_workers, .. } if self.ready.is_none() => {
                    // What it goes on from is looked for first.
                    if self.waits.resume.is_none() {
                        self.waits.resume = Some(self.desk.begin_attempt(attempt, num_workers));
                    }
                    self.effects.push_front(effect);
                    return self.unless_told_to_end();
                }
                Effect::Start { attempt, restart_count, num_workers, reservation } => {
                    let spec = self.begin_group(attempt, restart_count, num_workers, reservation);
                    self.group.start(spec);
                    self.callbacks.call(Hook::GroupStart(attempt));
                }
                Effect::Announce(attempt, placed) => {
                    self.waits.gate = self.callbacks.gate(Hook::BeforeGroupStart(attempt, placed));
                }
                Effect::Say(verb) => self.outbox.say(verb),
                Effect::Ask(begin) => {
                    self.waits.begin = Some(begin);
                    self.waits.choice = self.callbacks.choose();
                    if self.waits.choice.is_none() {
                        self.ask(None);
                    }
                }
                Effect::Withdraw => {
                    self.waits.asked = None;
                    self.waits.choice = None;
                    self.waits.begin = None;
                }
                Effect::Demand(demand) => self.outbox.set_demand(demand),
                Effect::Entered(from, to, detail) => {
                    info!(run.id = %self.run_id, "the controller goes from {from} to {to}");
                    self.callbacks.call(Hook::StateUpdate(from, to, detail));
                }
                Effect::Failed(failure) => self.callbacks.call(Hook::Failure(failure)),
                Effect::Resizing(from, to) => self.callbacks.call(Hook::Resize(from, to)),
                Effect::Drain(why) => self.drain(why),
                Effect::Shutdown { grace } => self.shut_down(grace.unwrap_or(self.options.grace)),
                Effect::Abort => {
                    let attempt = self.machine.attempt();
                    self.callbacks.call(Hook::BeforeAbort(attempt));
                    self.group.abort();
                    self.callbacks.call(Hook::Abort(attempt));
                }
                Effect::WriteStacks(ranks) => {
                    let ranks = ranks.into_iter().map(|(rank, pid)| (pid, self.log(rank))).collect();
                    self.waits.stacks = Some(stacks::write(ranks, &self.tasks));
                }
                Effect::Pause(pause) => self.waits.pause = Some(Instant::now() + pause),
                Effect::Settle(settle) => self.waits.settle = Some(Instant::now() + settle),
                Effect::Done(how) => self.outcome = Some(how),
            }
        }
    }

    /// Asks the head for the attempt, on these nodes if callbacks have chosen any.
    pub(super) fn ask(&mut self, nodes: Option<Vec<String>>) {
        if let Some(mut begin) = self.waits.begin.take() {
            begin.node_ids = nodes.unwrap_or(begin.node_ids);
            self.waits.asked = Some(self.outbox.begin(begin));
        }
    }

    /// A group that is to be ended before it was started is not started.
    fn unless_told_to_end(&mut self) {
        let ends =
            |effect: &Effect| matches!(effect, Effect::Shutdown { .. } | Effect::Drain(_) | Effect::Abort);
        if self.effects.iter().any(ends) {
            self.waits.gate = None;
            self.waits.resume = None;
            self.ready = None;
            self.effects.retain(|effect| !ends(effect) && !matches!(effect, Effect::Start { .. }));
            let message = "stopped before the workers were started".to_owned();
            self.step(Input::StartFailed { message, permanent: Permanent::No });
        }
    }

    fn begin_group(
        &mut self,
        attempt: u32,
        restart_count: u32,
        num_workers: u32,
        reservation: Vec<Bundle>,
    ) -> GroupSpec {
        let from = self.ready.take().and_then(|resume| resume.from);
        self.session.begin_attempt(attempt, restart_count, num_workers, from);
        self.waits.drained = None;
        GroupSpec {
            run: self.run_id.clone(),
            attempt,
            restart_count,
            max_restarts: self.options.failures.max_failures,
            num_workers,
            reservation,
            grace: self.options.grace,
            session: Arc::clone(&self.session),
        }
    }

    fn drain(&mut self, why: Why) {
        let heeded = self.session.all_heed(&self.machine.alive());
        let (after, grace) = drain(why, self.options.grace, heeded);
        self.session.give_notice(why, after + grace);
        if after.is_zero() {
            self.shut_down(grace);
        } else {
            self.waits.drained = Some((Instant::now() + after, grace));
        }
    }

    pub(super) fn shut_down(&mut self, grace: Duration) {
        self.waits.drained = None;
        self.session.request_stop();
        self.callbacks.call(Hook::BeforeShutdown(self.machine.attempt()));
        self.group.shutdown(self.options.stop_signal, grace);
    }

    fn log(&self, rank: u32) -> PathBuf {
        self.options.data_dir.root().join(DataDir::log(&self.run_id, self.machine.attempt(), rank))
    }
}
