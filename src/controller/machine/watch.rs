//! What is watched of a group that runs: ranks that end early, ranks that say nothing.

use std::{collections::BTreeMap, time::Duration};

use super::{Cause, Machine, State};
use crate::{
    base::Timestamp,
    controller::{steps::Effect, words},
    model::EndReason,
};

/// Ranks that ended well so long before others are worth a word.
const EARLY: Duration = Duration::from_secs(60);

impl Machine {
    /// Time passes; `silence` is how long each rank has not reported.
    pub(super) fn tick(&mut self, silence: &BTreeMap<u32, Duration>, now: Timestamp, into: &mut Vec<Effect>) {
        let Some(attempt) = self.attempt.as_mut().filter(|a| a.cause.is_none()) else { return };
        if self.state != State::Running {
            return;
        }
        let health = self.rules.health;
        if let Some(since) = attempt.early_since {
            let passed = now.since(since);
            if health.early_exit_timeout.is_some_and(|limit| passed >= limit) {
                let message = attempt.early_words(since);
                let rank = attempt.done().first().copied();
                let cause = attempt.failure(rank, EndReason::WorkerFailed, message, &self.rules.host, now);
                self.fail(cause, into);
                into.push(Effect::Shutdown { grace: None });
                return;
            }
            if passed >= EARLY && !std::mem::replace(&mut attempt.early_said, true) {
                let words = attempt.early_words(since);
                self.say_state(Some(words), into);
                return;
            }
        }
        if let Some(limit) = health.hang_timeout {
            self.look_for_hangs(limit, silence, now, into);
        }
    }

    fn look_for_hangs(
        &mut self,
        limit: Duration,
        silence: &BTreeMap<u32, Duration>,
        now: Timestamp,
        into: &mut Vec<Effect>,
    ) {
        let Some(attempt) = &self.attempt else { return };
        let silent = |rank: &u32| silence.get(rank).is_some_and(|quiet| *quiet >= limit);
        let hung: Vec<u32> = attempt.alive().into_iter().filter(silent).collect();
        if hung.is_empty() {
            return;
        }
        let message =
            format!("{} reported nothing for {} s (--hang-timeout)", words::ranks(&hung), limit.as_secs());
        let rank = hung.first().copied();
        let cause = attempt.failure(rank, EndReason::Hung, message, &self.rules.host, now);
        let pids = hung.iter().filter_map(|rank| Some((*rank, *attempt.pids.get(rank)?))).collect();
        self.fail(cause, into);
        // Where they stand is asked before they are ended.
        into.push(Effect::WriteStacks(pids));
    }

    /// The group that is being started goes on from a checkpoint. It is said as long as nothing else is to be.
    pub(super) fn resumes(&mut self, words: String, into: &mut Vec<Effect>) {
        if self.state == State::Scheduling {
            self.say_state(Some(words.clone()), into);
            self.resumes = Some(words);
        }
    }

    /// What there is to say of checkpoints while the group runs.
    pub(super) fn of_checkpoints(&mut self, words: Option<String>, into: &mut Vec<Effect>) {
        if self.state == State::Running && self.attempt.as_ref().is_some_and(|a| a.cause.is_none()) {
            self.say_state(words, into);
        }
    }

    pub(super) fn checkpoint_timed_out(&mut self, words: String, now: Timestamp, into: &mut Vec<Effect>) {
        let Some(attempt) = self.attempt.as_ref().filter(|a| a.cause.is_none()) else { return };
        if self.state == State::Running {
            let cause = attempt.failure(None, EndReason::Hung, words, &self.rules.host, now);
            self.fail(cause, into);
            into.push(Effect::Shutdown { grace: None });
        }
    }

    pub(super) fn stacks_written(&mut self, tail: Vec<String>, into: &mut Vec<Effect>) {
        let Some(cause) = self.attempt.as_mut().and_then(|a| a.cause.as_mut()) else { return };
        if let Cause::Failed { failure, .. } = cause {
            failure.log_tail = tail;
        }
        into.push(Effect::Shutdown { grace: None });
    }
}
