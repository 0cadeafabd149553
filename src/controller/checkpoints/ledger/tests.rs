//! Interleavings of ranks and attempts, and what is said while one waits.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{
    base::Timestamp,
    model::{CheckpointState, RecordCheckpoint},
};

fn handed(attempt: u32, rank: u32, step: u64) -> Handed<'static> {
    Handed { attempt, rank, step, ranks: None, metrics: vec![("loss".into(), f64::from(rank))] }
}

fn record(ready: &Ready) -> RecordCheckpoint {
    RecordCheckpoint {
        state: CheckpointState::Committed,
        status_detail: None,
        step: ready.step,
        attempt: ready.attempt,
        uri: format!("/c/{}", ready.number),
        ranks: ready.ranks.clone(),
        num_files: 1,
        size_bytes: 1,
        metrics: ready.metrics.clone(),
        committed_at_ms: Timestamp::from_ms(1_800_000_000_000),
    }
}

const NOW: Duration = Duration::from_secs(100);

#[test]
fn one_is_complete_when_each_rank_handed_its_shard_or_went_on_or_ended_well() {
    let mut ledger = Ledger::default();
    ledger.begin(0, 4);
    let number = ledger.hand_in(handed(0, 0, 10), NOW).unwrap();
    ledger.moved(number, 0);
    ledger.passed(0, 1, 9);
    ledger.passed(0, 1, 10);
    ledger.passed(0, 2, 11);
    assert_eq!(ledger.ready(), []);
    ledger.done(0, 3);
    let ready = ledger.ready();
    assert_eq!(ready.len(), 1);
    assert_eq!((ready[0].step, ready[0].ranks.clone()), (10, vec![0]));
    assert_eq!(ledger.ready(), [], "told once");
    let late = ledger.hand_in(handed(0, 1, 10), NOW).unwrap_err();
    assert_eq!(late, "rank 1 hands a shard of step 10, whose checkpoint is committed already");
    ledger.committed(number, record(&ready[0]));
    assert_eq!(ledger.newest(), Some(super::super::Newest { number, step: 10 }));
}

#[test]
fn ranks_that_are_named_are_waited_for_alone() {
    let mut ledger = Ledger::default();
    ledger.begin(0, 4);
    let ranks = BTreeSet::from([0, 2]);
    let number = ledger.hand_in(handed(0, 0, 1), NOW).unwrap();
    let named = Handed { ranks: Some(&ranks), ..handed(0, 2, 1) };
    assert_eq!(ledger.hand_in(named.clone(), NOW), Ok(number), "what a later rank says counts");
    assert_eq!(ledger.hand_in(named, NOW).unwrap_err(), "rank 2 has handed its shard of step 1 already");
    assert!(ledger.hand_in(handed(0, 1, 1), NOW).unwrap_err().contains("do not agree"));
    assert_eq!(ledger.ready(), [], "no bytes are there yet");
    ledger.moved(number, 0);
    ledger.moved(number, 2);
    assert_eq!(ledger.ready()[0].ranks, [0, 2]);
    let outside = Handed { ranks: Some(&ranks), ..handed(0, 1, 2) };
    assert!(ledger.hand_in(outside, NOW).unwrap_err().contains("no part in"));
    let none_such = BTreeSet::from([0, 9]);
    let none_such = Handed { ranks: Some(&none_such), ..handed(0, 0, 2) };
    assert_eq!(ledger.hand_in(none_such, NOW).unwrap_err(), "the group has 4 ranks, there is no rank 9");
}

#[test]
fn who_is_waited_for_is_said_by_name_and_said_anew_when_it_changes() {
    let (warn, limit) = (Duration::from_secs(60), Some(Duration::from_secs(90)));
    let after = |s| NOW + Duration::from_secs(s);
    let mut ledger = Ledger::default();
    ledger.begin(0, 4);
    ledger.hand_in(handed(0, 0, 10), NOW).unwrap();
    ledger.hand_in(handed(0, 2, 10), NOW).unwrap();
    assert_eq!(ledger.waits(after(59), warn, limit), (None, vec![]));
    let said = "the checkpoint of step 10 waits for ranks 1, 3 for 60 s; if they have no part in it, say \
                report(..., checkpoint_ranks=[0, 2])";
    assert_eq!(ledger.waits(after(60), warn, limit), (Some(said.to_owned()), vec![]));
    assert_eq!(ledger.waits(after(70), warn, limit), (Some(said.to_owned()), vec![]), "the same words");
    ledger.passed(0, 1, 10);
    let (sentence, timed_out) = ledger.waits(after(90), warn, limit);
    assert!(sentence.unwrap().contains("waits for rank 3 for 90 s; if it has no part"));
    assert_eq!(timed_out.len(), 1);
    assert_eq!(ledger.waits(after(99), warn, limit).1, Vec::<String>::new(), "once");
    ledger.passed(0, 3, 10);
    assert_eq!(ledger.waits(after(100), warn, limit), (None, vec![]));
}

#[test]
fn a_failed_move_makes_the_checkpoint_fail_and_a_new_attempt_takes_the_step_again() {
    let mut ledger = Ledger::default();
    ledger.begin(0, 1);
    let number = ledger.hand_in(handed(0, 0, 10), NOW).unwrap();
    assert!(ledger.failed(number, "the disk is full"));
    let again = ledger.hand_in(handed(0, 0, 10), NOW).unwrap_err();
    assert_eq!(again, "rank 0 hands a shard of step 10, whose checkpoint failed: the disk is full");
    ledger.begin(1, 1);
    assert!(ledger.hand_in(handed(0, 0, 11), NOW).unwrap_err().contains("attempt 0, which takes none"));
    assert!(ledger.hand_in(handed(1, 0, 10), NOW).unwrap() > number);
}

#[derive(Clone, Debug)]
enum Op {
    Hand { rank: u32, step: u64, only: bool, stale: bool },
    Pass { rank: u32, step: u64 },
    Done { rank: u32 },
    Moved { nth: usize },
    Failed { nth: usize },
    Begin,
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..3u32, 0..6u64, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(rank, step, only, stale)| Op::Hand { rank, step, only, stale }),
        4 => (0..3u32, 0..6u64).prop_map(|(rank, step)| Op::Pass { rank, step }),
        1 => (0..3u32).prop_map(|rank| Op::Done { rank }),
        8 => any::<usize>().prop_map(|nth| Op::Moved { nth }),
        1 => any::<usize>().prop_map(|nth| Op::Failed { nth }),
        1 => Just(Op::Begin),
        1 => Just(Op::Close),
    ]
}

/// What is to be true of one that was handed in, kept apart from the ledger.
struct Seen {
    attempt: u32,
    step: u64,
    ranks: Option<BTreeSet<u32>>,
    shards: BTreeMap<u32, bool>,
}

proptest! {
    #[test]
    fn no_order_of_events_mixes_attempts_or_commits_too_early_or_loses_one(
        ops in prop::collection::vec(op(), 0..120)
    ) {
        let world: u32 = 3;
        let mut ledger = Ledger::default();
        let (mut attempt, mut over) = (0, false);
        ledger.begin(attempt, world);
        let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
        let mut committed = BTreeSet::new();
        let mut lost = BTreeSet::new();
        let mut heard: BTreeSet<(u32, u32, u64)> = BTreeSet::new();
        let mut done: BTreeSet<(u32, u32)> = BTreeSet::new();
        let accounted = |s: &Seen, heard: &BTreeSet<(u32, u32, u64)>, done: &BTreeSet<(u32, u32)>| {
            let expected = s.ranks.clone().unwrap_or_else(|| (0..world).collect());
            expected.iter().all(|rank| {
                s.shards.contains_key(rank)
                    || done.contains(&(s.attempt, *rank))
                    || heard.iter().any(|(a, r, at)| *a == s.attempt && r == rank && *at >= s.step)
            })
        };
        for op in ops {
            match op {
                Op::Hand { rank, step, only, stale } => {
                    let ranks = only.then(|| BTreeSet::from([rank]));
                    let of = if stale { attempt.wrapping_sub(1) } else { attempt };
                    let handed = Handed { ranks: ranks.as_ref(), ..handed(of, rank, step) };
                    if let Ok(number) = ledger.hand_in(handed, NOW) {
                        prop_assert!(!stale && !over);
                        prop_assert!(!committed.contains(&number) && !lost.contains(&number));
                        let entry = seen.entry(number).or_insert(Seen { attempt, step, ranks: None, shards: BTreeMap::new() });
                        prop_assert_eq!((entry.attempt, entry.step), (attempt, step));
                        if ranks.is_some() { entry.ranks = ranks; }
                        prop_assert!(entry.shards.insert(rank, false).is_none());
                        heard.insert((attempt, rank, step));
                    }
                }
                Op::Pass { rank, step } => {
                    ledger.passed(attempt, rank, step);
                    if !over { heard.insert((attempt, rank, step)); }
                }
                Op::Done { rank } => {
                    ledger.done(attempt, rank);
                    if !over { done.insert((attempt, rank)); }
                }
                Op::Moved { nth } => {
                    let waiting: Vec<(u64, u32)> = seen
                        .iter()
                        .flat_map(|(n, s)| s.shards.iter().filter(|(_, moved)| !**moved).map(|(r, _)| (*n, *r)))
                        .collect();
                    if !waiting.is_empty() {
                        let (number, rank) = waiting[nth % waiting.len()];
                        ledger.moved(number, rank);
                        *seen.get_mut(&number).unwrap().shards.get_mut(&rank).unwrap() = true;
                    }
                }
                Op::Failed { nth } => {
                    let open: Vec<u64> = ledger.open_numbers().into_iter().collect();
                    if !open.is_empty() {
                        let number = open[nth % open.len()];
                        prop_assert!(ledger.failed(number, "no"));
                        lost.insert(number);
                    }
                }
                Op::Begin => {
                    lost.extend(ledger.begin(attempt + 1, world));
                    (attempt, over) = (attempt + 1, false);
                }
                Op::Close => {
                    lost.extend(ledger.close(attempt));
                    over = true;
                }
            }
            for ready in ledger.ready() {
                let s = &seen[&ready.number];
                prop_assert_eq!((ready.attempt, ready.step), (s.attempt, s.step));
                prop_assert_eq!(&ready.ranks, &s.shards.keys().copied().collect::<Vec<_>>());
                prop_assert!(s.shards.values().all(|moved| *moved), "bytes are under way");
                prop_assert!(accounted(s, &heard, &done), "a rank is missing");
                prop_assert!(committed.insert(ready.number), "told twice");
                ledger.committed(ready.number, record(&ready));
            }
            for (number, s) in &seen {
                let whole = s.shards.values().all(|moved| *moved) && accounted(s, &heard, &done);
                let known = committed.contains(number) || lost.contains(number);
                prop_assert!(!whole || known, "{} is whole and nobody says so", number);
                if lost.contains(number) { prop_assert!(!committed.contains(number)); }
            }
        }
        let numbers: BTreeSet<u64> = ledger.all().iter().map(|c| c.number).collect();
        prop_assert_eq!(numbers, committed);
        prop_assert!(ledger.next_number() >= u64::try_from(seen.len()).unwrap());
    }
}
