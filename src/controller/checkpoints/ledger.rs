//! The ledger of a run's checkpoints: which are known, which wait for ranks, and when one is complete. Plain: no I/O, and
//! no clock but the times that are handed in.
//!
//! A checkpoint gets its number with its first shard; numbers count over the whole run and none is used twice, also not
//! that of a checkpoint that came to nothing. A shard belongs to an attempt and a step, so that two attempts never mix.

mod known;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    base::limits,
    controller::words,
    model::{Checkpoint, metrics::MetricValue},
};

/// All that is known of a run's checkpoints.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    known: BTreeMap<u64, Checkpoint>,
    /// The number of the next one.
    next: u64,
    /// Those that people want kept, also ones that are not known yet.
    pinned: BTreeSet<u64>,
    attempt: Option<Attempt>,
    open: BTreeMap<u64, Open>,
}

/// The attempt that lives, or was the last one to.
#[derive(Debug)]
struct Attempt {
    ordinal: u32,
    world_size: u32,
    /// The greatest step that each rank has reported.
    at: BTreeMap<u32, u64>,
    /// Ranks that ended well.
    done: BTreeSet<u32>,
    /// Steps of which nothing more is taken, and why.
    closed: BTreeMap<u64, String>,
    over: bool,
}

/// A checkpoint that is not whole yet.
#[derive(Debug)]
struct Open {
    attempt: u32,
    step: u64,
    /// The ranks that make it up; all of the group if nobody said.
    ranks: Option<BTreeSet<u32>>,
    /// Those of which nothing was heard yet.
    missing: BTreeSet<u32>,
    shards: BTreeMap<u32, HandedIn>,
    since: Duration,
    /// For whom it waits, as it was last said.
    said: Option<(BTreeSet<u32>, String)>,
    timed_out: bool,
    committing: bool,
}

#[derive(Debug)]
struct HandedIn {
    moved: bool,
    metrics: Vec<(String, f64)>,
}

/// A checkpoint all of whose shards are there: what its manifest says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ready {
    pub(super) number: u64,
    pub(super) attempt: u32,
    pub(super) step: u64,
    pub(super) ranks: Vec<u32>,
    pub(super) metrics: BTreeMap<String, MetricValue>,
}

/// A shard as the ledger needs to know it.
#[derive(Clone, Debug)]
pub(super) struct Handed<'a> {
    pub(super) attempt: u32,
    pub(super) rank: u32,
    pub(super) step: u64,
    pub(super) ranks: Option<&'a BTreeSet<u32>>,
    pub(super) metrics: Vec<(String, f64)>,
}

impl Ledger {
    /// A new attempt: what is not complete of the one before will not be. Tells the numbers of those.
    pub(super) fn begin(&mut self, ordinal: u32, world_size: u32) -> Vec<u64> {
        let given_up = self.close_last();
        self.attempt = Some(Attempt {
            ordinal,
            world_size,
            at: BTreeMap::new(),
            done: BTreeSet::new(),
            closed: BTreeMap::new(),
            over: false,
        });
        given_up
    }

    /// Takes a shard and tells the number of its checkpoint.
    ///
    /// # Errors
    /// A sentence for the rank, when this shard has no place in any.
    pub(super) fn hand_in(&mut self, handed: Handed<'_>, now: Duration) -> Result<u64, String> {
        let Handed { attempt: ordinal, rank, step, ranks, metrics } = handed;
        let attempt = self.attempt.as_ref().filter(|a| a.ordinal == ordinal && !a.over);
        let Some(attempt) = attempt else {
            return Err(format!("rank {rank} hands a shard of attempt {ordinal}, which takes none"));
        };
        if rank >= attempt.world_size {
            return Err(format!("the group has {} ranks, there is no rank {rank}", attempt.world_size));
        }
        if let Some(why) = attempt.closed.get(&step) {
            return Err(format!("rank {rank} hands a shard of step {step}, {why}"));
        }
        check_ranks(rank, ranks, attempt.world_size)?;
        let found = self.open.iter_mut().find(|(_, o)| o.attempt == ordinal && o.step == step);
        let number = if let Some((number, open)) = found {
            open.agree(rank, ranks, attempt)?;
            *number
        } else {
            let number = self.next;
            self.next += 1;
            let open = Open {
                attempt: ordinal,
                step,
                ranks: ranks.cloned(),
                missing: attempt.missing(ranks, step),
                shards: BTreeMap::new(),
                since: now,
                said: None,
                timed_out: false,
                committing: false,
            };
            self.open.insert(number, open);
            number
        };
        if let Some(open) = self.open.get_mut(&number) {
            open.missing.remove(&rank);
            open.shards.insert(rank, HandedIn { moved: false, metrics });
        }
        self.heard(ordinal, rank, step, false);
        Ok(number)
    }

    /// A rank reported a step without a shard. Tells whether one may be complete by that.
    pub(super) fn passed(&mut self, ordinal: u32, rank: u32, step: u64) -> bool {
        self.heard(ordinal, rank, step, true);
        !self.open.is_empty()
    }

    fn heard(&mut self, ordinal: u32, rank: u32, step: u64, passes: bool) {
        let Some(attempt) = self.attempt.as_mut().filter(|a| a.ordinal == ordinal && !a.over) else { return };
        let at = attempt.at.entry(rank).or_insert(step);
        *at = step.max(*at);
        for open in self.open.values_mut().filter(|o| o.attempt == ordinal) {
            if open.step < step || (passes && open.step == step) {
                open.missing.remove(&rank);
            }
        }
    }

    /// A rank ended well: nothing more comes of it.
    pub(super) fn done(&mut self, ordinal: u32, rank: u32) {
        let Some(attempt) = self.attempt.as_mut().filter(|a| a.ordinal == ordinal && !a.over) else { return };
        attempt.done.insert(rank);
        for open in self.open.values_mut().filter(|o| o.attempt == ordinal) {
            open.missing.remove(&rank);
        }
    }

    /// The files of a rank are there.
    pub(super) fn moved(&mut self, number: u64, rank: u32) {
        if let Some(shard) = self.open.get_mut(&number).and_then(|open| open.shards.get_mut(&rank)) {
            shard.moved = true;
        }
    }

    /// A checkpoint will not be, and why. Tells whether that is news.
    pub(super) fn failed(&mut self, number: u64, why: &str) -> bool {
        let Some(open) = self.open.remove(&number) else { return false };
        if let Some(attempt) = self.attempt.as_mut().filter(|a| a.ordinal == open.attempt) {
            attempt.closed.insert(open.step, format!("whose checkpoint failed: {why}"));
        }
        true
    }

    /// Those that are complete and not told yet. They take no more shards.
    pub(super) fn ready(&mut self) -> Vec<Ready> {
        let mut ready = Vec::new();
        for (number, open) in &mut self.open {
            if open.committing || !open.missing.is_empty() || !open.shards.values().all(|s| s.moved) {
                continue;
            }
            open.committing = true;
            if let Some(attempt) = self.attempt.as_mut().filter(|a| a.ordinal == open.attempt) {
                attempt.closed.insert(open.step, "whose checkpoint is committed already".to_owned());
            }
            ready.push(Ready {
                number: *number,
                attempt: open.attempt,
                step: open.step,
                ranks: open.shards.keys().copied().collect(),
                metrics: open.metrics(),
            });
        }
        ready
    }

    /// An attempt takes nothing more: those that miss a rank are given up. Tells their numbers.
    pub(super) fn close(&mut self, ordinal: u32) -> Vec<u64> {
        if self.attempt.as_ref().is_some_and(|a| a.ordinal == ordinal) {
            self.close_last()
        } else {
            Vec::new()
        }
    }

    /// Whatever attempt there was takes nothing more. Tells the numbers of those that are given up.
    pub(super) fn close_last(&mut self) -> Vec<u64> {
        if let Some(attempt) = &mut self.attempt {
            attempt.over = true;
        }
        let given_up: Vec<u64> =
            self.open.iter().filter(|(_, o)| !o.missing.is_empty()).map(|(number, _)| *number).collect();
        self.open.retain(|_, open| open.missing.is_empty());
        given_up
    }

    /// Nothing is waited for any more: all that is not being committed is given up. Tells the numbers.
    pub(super) fn give_up(&mut self) -> Vec<u64> {
        let given_up: Vec<u64> =
            self.open.iter().filter(|(_, o)| !o.committing).map(|(number, _)| *number).collect();
        self.open.retain(|_, open| open.committing);
        given_up
    }

    /// Those that are not whole yet.
    pub(super) fn open_numbers(&self) -> BTreeSet<u64> {
        self.open.keys().copied().collect()
    }

    /// The attempts that they belong to.
    pub(super) fn open_attempts(&self) -> BTreeSet<u32> {
        self.open.values().map(|open| open.attempt).collect()
    }

    /// What is to be said of ranks that are waited for: the oldest that has waited for longer than `warn`, and those that
    /// have just waited for longer than `limit`.
    pub(super) fn waits(
        &mut self,
        now: Duration,
        warn: Duration,
        limit: Option<Duration>,
    ) -> (Option<String>, Vec<String>) {
        let mut sentence = None;
        let mut timed_out = Vec::new();
        for open in self.open.values_mut().filter(|open| !open.missing.is_empty()) {
            let waited = now.saturating_sub(open.since);
            if waited >= warn {
                if open.said.as_ref().is_none_or(|(missing, _)| *missing != open.missing) {
                    open.said = Some((open.missing.clone(), open.sentence(waited)));
                }
                sentence = sentence.or_else(|| open.said.as_ref().map(|(_, words)| words.clone()));
            }
            if limit.is_some_and(|limit| waited >= limit) && !open.timed_out {
                open.timed_out = true;
                timed_out.push(open.sentence(waited));
            }
        }
        (sentence, timed_out)
    }
}

impl Attempt {
    /// Those of the ranks of which nothing was heard at or after this step.
    fn missing(&self, ranks: Option<&BTreeSet<u32>>, step: u64) -> BTreeSet<u32> {
        let waits = |rank: &u32| !self.done.contains(rank) && self.at.get(rank).is_none_or(|at| *at < step);
        match ranks {
            Some(ranks) => ranks.iter().copied().filter(waits).collect(),
            None => (0..self.world_size).filter(waits).collect(),
        }
    }
}

impl Open {
    /// Checks that a rank's shard belongs to this one, and takes over what it says of the ranks that make it up.
    fn agree(&mut self, rank: u32, ranks: Option<&BTreeSet<u32>>, attempt: &Attempt) -> Result<(), String> {
        let step = self.step;
        if self.shards.contains_key(&rank) {
            return Err(format!("rank {rank} has handed its shard of step {step} already"));
        }
        let known = self.ranks.as_ref().or(ranks);
        let outside = |r: &u32| known.is_some_and(|known| !known.contains(r));
        let differs = matches!((&self.ranks, ranks), (Some(known), Some(said)) if known != said);
        if differs || outside(&rank) || self.shards.keys().any(outside) {
            return Err(format!(
                "rank {rank} and {} do not agree on which ranks make up the checkpoint of step {step}",
                words::ranks(&self.shards.keys().copied().collect::<Vec<_>>())
            ));
        }
        if self.ranks.is_none() && ranks.is_some() {
            self.ranks = ranks.cloned();
            let still = attempt.missing(ranks, step);
            self.missing.retain(|r| still.contains(r));
        }
        Ok(())
    }

    /// What was reported with it. Where ranks differ the lowest one's counts.
    fn metrics(&self) -> BTreeMap<String, MetricValue> {
        let mut metrics = BTreeMap::new();
        for (key, value) in self.shards.values().flat_map(|shard| &shard.metrics) {
            if metrics.len() < limits::CHECKPOINT_METRICS {
                metrics.entry(key.clone()).or_insert(MetricValue(*value));
            }
        }
        metrics
    }

    fn sentence(&self, waited: Duration) -> String {
        let missing: Vec<u32> = self.missing.iter().copied().collect();
        let handed: Vec<u32> = self.shards.keys().copied().collect();
        let they = if missing.len() == 1 { "it has" } else { "they have" };
        format!(
            "the checkpoint of step {} waits for {} for {} s; if {they} no part in it, say \
             report(..., checkpoint_ranks={handed:?})",
            self.step,
            words::ranks(&missing),
            waited.as_secs()
        )
    }
}

fn check_ranks(rank: u32, ranks: Option<&BTreeSet<u32>>, world_size: u32) -> Result<(), String> {
    let Some(ranks) = ranks else { return Ok(()) };
    if let Some(other) = ranks.iter().find(|r| **r >= world_size) {
        return Err(format!("the group has {world_size} ranks, there is no rank {other}"));
    }
    if !ranks.contains(&rank) {
        return Err(format!("rank {rank} hands a shard of a checkpoint that it says it has no part in"));
    }
    Ok(())
}
