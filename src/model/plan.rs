//! Who can have how many workers: the whole ledger and all that runs want, in; a share for each of them, out. A pure
//! function, so that asking again answers the same.
//!
//! In this order: what is held without a wish stays; a run that has workers keeps its minimum; one that is between two
//! attempts, and then those that wait, in the order in which they came, get theirs if it fits whole. For that, runs that
//! have more than their minimum give back what is needed, the youngest first. What is left goes to those that have
//! workers, up to their maximum, and then to those that wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    demand::Claim,
    ledger::{Bundle, Demand, Ledger, Node, Resources, count, thousandths},
};
use crate::base::RunId;

/// What a run can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// How many of the workers that it has it may keep.
    pub(super) kept: u32,
    /// New workers that can start right now: the place of the node in the order, and how many there.
    pub(super) now: BTreeMap<usize, u32>,
    /// New workers in all; more than `now` if others must give something back before.
    pub(super) planned: BTreeMap<usize, u32>,
    /// How many would start now of a minimum that does not fit.
    short: u32,
}

impl Share {
    /// How many workers the run can have now.
    pub(super) fn fits(&self) -> u32 {
        let new = self.now.values().fold(0u32, |sum, n| sum.saturating_add(*n));
        self.kept.saturating_add(new).max(self.short)
    }
}

impl Ledger {
    /// How many workers each run that wants any can have now.
    #[must_use]
    pub fn plan(&self) -> HashMap<RunId, u32> {
        self.shares(None).into_iter().map(|(run, share)| (run, share.fits())).collect()
    }

    /// The share of each run that wants workers; of one of them, `asker`, with what it asks for just now.
    pub(super) fn shares(&self, asker: Option<(&RunId, &Demand)>) -> HashMap<RunId, Share> {
        let parties = self.planned(asker).parties;
        parties.into_iter().map(|party| (party.run.clone(), party.share)).collect()
    }

    fn planned<'a>(&'a self, asker: Option<(&'a RunId, &'a Demand)>) -> Plan<'a> {
        let asks = |run: &RunId| asker.filter(|(asker, _)| *asker == run).map(|(_, demand)| demand);
        let mut table = Table::of(&self.in_order());
        let mut parties: Vec<Party<'_>> = self
            .claims
            .iter()
            .map(|(run, claim)| self.party(run, asks(run).unwrap_or(&claim.demand), Some(claim), &table))
            .collect();
        if let Some((run, demand)) = asker.filter(|(run, _)| self.claims.get(run).is_none()) {
            parties.push(self.party(run, demand, None, &table));
        }
        parties.sort_by_key(|party| party.since);
        table.order_for(&parties);
        let mut plan = Plan { table, parties };
        plan.make();
        plan
    }

    fn party<'a>(
        &'a self,
        run: &'a RunId,
        demand: &'a Demand,
        claim: Option<&Claim>,
        table: &Table<'_>,
    ) -> Party<'a> {
        let held = self.held(run);
        Party {
            run,
            demand,
            allowed: table.allowed(demand),
            held,
            had: claim.map_or(0, |claim| claim.had),
            since: claim.map_or(u64::MAX, |claim| claim.since),
            given: HashSet::new(),
            share: Share { kept: count(held.len()), ..Share::default() },
        }
    }
}

/// A run at the table.
struct Party<'a> {
    run: &'a RunId,
    demand: &'a Demand,
    /// The spots where its workers may be.
    allowed: BTreeSet<usize>,
    since: u64,
    held: &'a [Bundle],
    had: u32,
    /// Which of `held` it gives back.
    given: HashSet<usize>,
    share: Share,
}

impl Party<'_> {
    fn waits(&self) -> bool {
        self.held.is_empty() && self.had == 0
    }

    fn size(&self) -> u32 {
        let new = self.share.planned.values().fold(0u32, |sum, n| sum.saturating_add(*n));
        self.share.kept.saturating_add(new)
    }

    /// Whether it may grow: one that must give something back has to move first.
    fn grows(&self) -> bool {
        self.given.is_empty() && self.size() >= self.demand.min_workers
    }
}

/// What the nodes have left, in the order in which they are filled.
struct Table<'a> {
    spots: Vec<Spot>,
    /// The spots in the order in which they are filled here: first those that the fewest of the waiting could use.
    order: Vec<usize>,
    by_id: HashMap<&'a str, usize>,
}

/// One node: thousandths of what it has, what the plan leaves of it, and what of that nobody holds now.
struct Spot {
    has: BTreeMap<String, i64>,
    left: BTreeMap<String, i64>,
    free: BTreeMap<String, i64>,
}

impl<'a> Table<'a> {
    fn of(nodes: &[&'a Node]) -> Self {
        let by_id = nodes.iter().enumerate().map(|(i, node)| (&*node.offer.node_id, i)).collect();
        let spots = nodes.iter().map(|node| Spot::of(node)).collect();
        Self { spots, order: (0..nodes.len()).collect(), by_id }
    }

    /// The spots where a demand may be met.
    fn allowed(&self, demand: &Demand) -> BTreeSet<usize> {
        if demand.node_ids.is_empty() {
            return (0..self.spots.len()).collect();
        }
        demand.node_ids.iter().filter_map(|id| self.by_id.get(&**id).copied()).collect()
    }

    /// Who can go anywhere leaves the spots to those that cannot.
    fn order_for(&mut self, parties: &[Party<'_>]) {
        let mut wanted = vec![0u32; self.spots.len()];
        for party in parties.iter().filter(|party| party.held.is_empty()) {
            let each = &party.demand.resources_per_worker;
            for &at in &party.allowed {
                if let (Some(spot), Some(wanted)) = (self.spots.get(at), wanted.get_mut(at)) {
                    *wanted += u32::from(room(&spot.has, &spot.has, each) > 0);
                }
            }
        }
        self.order.sort_by_key(|&at| wanted.get(at).copied());
    }

    fn spot_of(&mut self, node_id: &str) -> Option<&mut Spot> {
        let at = *self.by_id.get(node_id)?;
        self.spots.get_mut(at)
    }
}

impl Spot {
    fn of(node: &Node) -> Self {
        let exact = |amounts: Resources| -> BTreeMap<String, i64> {
            amounts.into_iter().map(|(name, amount)| (name, thousandths(amount))).collect()
        };
        let has = exact(node.capacity());
        let mut left = has.clone();
        change(&mut left, &node.reserved(), -1);
        Self { has, free: left.clone(), left }
    }

    fn room(&self, each: &Resources) -> u32 {
        room(&self.has, &self.left, each)
    }
}

/// How many workers fit into `left`.
fn room(has: &BTreeMap<String, i64>, left: &BTreeMap<String, i64>, each: &Resources) -> u32 {
    let fit = |(name, amount): (&String, &f64)| {
        let left = left.get(name).copied().unwrap_or(0).max(0);
        left.checked_div(thousandths(*amount)).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
    };
    // Of nothing there is enough wherever there is something at all.
    each.iter().filter_map(fit).min().unwrap_or(if has.is_empty() { 0 } else { u32::MAX })
}

fn change(left: &mut BTreeMap<String, i64>, amounts: &Resources, times: i64) {
    for (name, amount) in amounts {
        *left.entry(name.clone()).or_default() += times.saturating_mul(thousandths(*amount));
    }
}

struct Plan<'a> {
    table: Table<'a>,
    parties: Vec<Party<'a>>,
}

impl Plan<'_> {
    fn make(&mut self) {
        let all = 0..self.parties.len();
        let those = |plan: &Self, which: fn(&Party<'_>) -> bool| -> Vec<usize> {
            all.clone().filter(|i| plan.parties.get(*i).is_some_and(which)).collect()
        };
        for i in those(self, |party| !party.held.is_empty()) {
            self.cut_to_maximum(i);
        }
        let between = those(self, |party| party.held.is_empty() && party.had > 0);
        let waiting = those(self, |party| party.waits());
        for &i in between.iter().chain(&waiting) {
            self.meet_minimum(i);
        }
        for &i in &between {
            self.extend(i, |party| party.had.min(party.demand.max_workers));
        }
        for i in those(self, |party| !party.waits()) {
            self.extend(i, |party| party.demand.max_workers);
        }
        for i in waiting {
            self.extend(i, |party| party.demand.max_workers);
        }
    }

    /// A run that has more than it has use for gives that back.
    fn cut_to_maximum(&mut self, i: usize) {
        let Some(party) = self.parties.get(i) else { return };
        let max = usize::try_from(party.demand.max_workers).unwrap_or(usize::MAX);
        for bundle in (max..party.held.len()).rev() {
            self.give_back(i, bundle);
        }
    }

    /// The minimum of a run that has no workers, if it fits whole.
    fn meet_minimum(&mut self, i: usize) {
        let Some(party) = self.parties.get(i) else { return };
        let (demand, min) = (party.demand, party.demand.min_workers);
        let allowed = party.allowed.clone();
        let spots = allowed.iter().filter_map(|at| self.table.spots.get(*at));
        let mut room = spots.map(|s| s.room(&demand.resources_per_worker)).fold(0, u32::saturating_add);
        let short = room;
        let mut given = Vec::new();
        for other in (0..self.parties.len()).rev() {
            for bundle in self.spare(other) {
                if room >= min || !self.has_spare(other) {
                    break;
                }
                if let Some(gained) = self.try_out((other, bundle), demand, &allowed, Self::give_back) {
                    room = room.saturating_add(gained);
                    given.push((other, bundle));
                }
            }
        }
        // What does not help stays where it is, the oldest first.
        for (other, bundle) in given.into_iter().rev() {
            let met = room >= min;
            let lost = self.try_out((other, bundle), demand, &allowed, Self::keep).unwrap_or(0);
            if met && room.saturating_sub(lost) < min {
                self.give_back(other, bundle);
            } else {
                room = room.saturating_sub(lost);
            }
        }
        if room >= min {
            self.extend_to(i, min);
        } else if let Some(party) = self.parties.get_mut(i) {
            party.share.short = short.min(min.saturating_sub(1));
        }
    }

    /// The workers that a run could give back, the last one first.
    fn spare(&self, i: usize) -> Vec<usize> {
        let Some(party) = self.parties.get(i) else { return Vec::new() };
        (0..party.held.len()).rev().filter(|bundle| !party.given.contains(bundle)).collect()
    }

    fn has_spare(&self, i: usize) -> bool {
        self.parties.get(i).is_some_and(|party| party.share.kept > party.demand.min_workers)
    }

    /// By how much the room for a demand changes with one worker; none if that one is where the demand may not be met.
    fn try_out(
        &mut self,
        (i, bundle): (usize, usize),
        demand: &Demand,
        allowed: &BTreeSet<usize>,
        act: fn(&mut Self, usize, usize),
    ) -> Option<u32> {
        let node_id = &self.parties.get(i)?.held.get(bundle)?.node_id;
        let at = self.table.by_id.get(node_id.as_str()).copied().filter(|at| allowed.contains(at))?;
        let before = self.table.spots.get(at)?.room(&demand.resources_per_worker);
        act(self, i, bundle);
        let after = self.table.spots.get(at)?.room(&demand.resources_per_worker);
        Some(before.abs_diff(after))
    }

    fn give_back(&mut self, i: usize, bundle: usize) {
        self.move_bundle(i, bundle, 1);
        let Some(party) = self.parties.get_mut(i) else { return };
        party.given.insert(bundle);
        party.share.kept = party.share.kept.saturating_sub(1);
    }

    fn keep(&mut self, i: usize, bundle: usize) {
        self.move_bundle(i, bundle, -1);
        let Some(party) = self.parties.get_mut(i) else { return };
        party.given.remove(&bundle);
        party.share.kept = party.share.kept.saturating_add(1);
    }

    fn move_bundle(&mut self, i: usize, bundle: usize, times: i64) {
        let Some(bundle) = self.parties.get(i).and_then(|party| party.held.get(bundle)) else { return };
        if let Some(spot) = self.table.spot_of(&bundle.node_id) {
            change(&mut spot.left, &bundle.resources, times);
        }
    }

    fn extend(&mut self, i: usize, to: fn(&Party<'_>) -> u32) {
        let Some(party) = self.parties.get(i).filter(|party| party.grows()) else { return };
        let to = to(party);
        self.extend_to(i, to);
    }

    /// As many new workers as fit, up to a size.
    fn extend_to(&mut self, i: usize, size: u32) {
        let Some(party) = self.parties.get_mut(i) else { return };
        let each = &party.demand.resources_per_worker;
        for &at in self.table.order.iter().filter(|at| party.allowed.contains(*at)) {
            let Some(spot) = self.table.spots.get_mut(at) else { continue };
            let planned = spot.room(each).min(size.saturating_sub(party.size()));
            let now = room(&spot.has, &spot.free, each).min(planned);
            change(&mut spot.left, each, -i64::from(planned));
            change(&mut spot.free, each, -i64::from(now));
            for (share, n) in [(&mut party.share.planned, planned), (&mut party.share.now, now)] {
                if n > 0 {
                    *share.entry(at).or_default() += n;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ledger::{
        CPU,
        tests::{demand, each, id, offer},
    };

    /// Begins an attempt of what the run wants; how many workers it got.
    fn begin(ledger: &mut Ledger, run: usize) -> u32 {
        let demand = ledger.claims.get(&id(run)).unwrap().demand.clone();
        let bundles = ledger.place(&id(run), &demand).unwrap();
        ledger.set(&id(run), &bundles);
        count(bundles.len())
    }

    fn end(ledger: &mut Ledger, run: usize) {
        ledger.set(&id(run), &[]);
    }

    fn slots(n: f64) -> Ledger {
        Ledger::of(offer("own", n, 0))
    }

    fn want(ledger: &mut Ledger, run: usize, min: u32, max: u32) -> u32 {
        ledger.want(&id(run), Some(demand(min, max, &each(1.0, 0.0))));
        ledger.fits(&id(run)).unwrap()
    }

    fn all(ledger: &Ledger) -> Vec<u32> {
        let plan: BTreeMap<RunId, u32> = ledger.plan().into_iter().collect();
        plan.into_values().collect()
    }

    #[test]
    fn shares_by_the_table() {
        /// Least, most, and how many it has.
        type Run = (u32, u32, u32);
        let cases: &[(&str, f64, &[Run], &[u32])] = &[
            ("alone it gets all that it has use for", 8.0, &[(1, 4, 0)], &[4]),
            ("too small", 2.0, &[(3, 4, 0)], &[2]),
            ("what is free is growth", 8.0, &[(1, 6, 2)], &[6]),
            ("who waits gets its minimum from one that grew", 4.0, &[(1, 4, 4), (2, 2, 0)], &[2, 0]),
            ("and no more than is needed", 4.0, &[(1, 4, 3), (2, 4, 0)], &[2, 1]),
            ("nobody falls below its minimum", 4.0, &[(3, 4, 4), (2, 2, 0)], &[4, 0]),
            ("the youngest gives first", 6.0, &[(1, 3, 3), (1, 3, 3), (2, 2, 0)], &[3, 1, 0]),
            ("and then the older ones", 6.0, &[(1, 3, 3), (1, 3, 3), (3, 3, 0)], &[2, 1, 0]),
            ("what is free is taken before", 6.0, &[(1, 4, 4), (2, 2, 0)], &[4, 2]),
            ("a large one is passed over", 4.0, &[(1, 3, 3), (5, 5, 0), (1, 1, 0)], &[3, 1, 1]),
            ("those that wait come in their order", 3.0, &[(2, 2, 0), (2, 2, 0), (1, 1, 0)], &[2, 1, 1]),
            ("growth comes before the extras of those that wait", 5.0, &[(1, 3, 2), (1, 4, 0)], &[3, 2]),
            ("more than it has use for is given back", 4.0, &[(1, 2, 4)], &[2]),
        ];
        for (what, has, runs, shares) in cases {
            let mut ledger = slots(*has);
            for (i, &(min, max, held)) in runs.iter().enumerate() {
                ledger.want(&id(i), Some(demand(min, max, &each(1.0, 0.0))));
                let bundle = |rank| Bundle {
                    world_rank: rank,
                    node_id: "own".into(),
                    resources: each(1.0, 0.0),
                    gpu_ids: Vec::new(),
                };
                ledger.set(&id(i), &(0..held).map(bundle).collect::<Vec<_>>());
            }
            assert_eq!(all(&ledger), *shares, "{what}");
            assert_eq!(all(&ledger), *shares, "{what}, asked again");
        }
    }

    #[test]
    fn who_shrank_for_another_does_not_grow_back_before_that_one_started_or_went_away() {
        for went_away in [false, true] {
            let mut ledger = slots(4.0);
            want(&mut ledger, 0, 1, 4);
            assert_eq!(begin(&mut ledger, 0), 4);
            assert_eq!(want(&mut ledger, 1, 2, 4), 0);
            assert_eq!(all(&ledger), [2, 0]);
            end(&mut ledger, 0);
            assert_eq!(all(&ledger), [2, 2], "between its attempts it has its place still");
            assert_eq!(begin(&mut ledger, 0), 2);
            assert_eq!(all(&ledger), [2, 2]);
            if went_away {
                ledger.want(&id(1), None);
                assert_eq!(all(&ledger), [4]);
            } else {
                assert_eq!(begin(&mut ledger, 1), 2);
                assert_eq!(all(&ledger), [2, 2]);
                end(&mut ledger, 1);
                ledger.want(&id(1), None);
                assert_eq!(all(&ledger), [4]);
            }
        }
    }

    #[test]
    fn a_run_that_restarts_finds_its_place_again() {
        let mut ledger = slots(6.0);
        for run in [0, 1] {
            want(&mut ledger, run, 1, 3);
            assert_eq!(begin(&mut ledger, run), 3);
        }
        want(&mut ledger, 0, 1, 6);
        end(&mut ledger, 1);
        assert_eq!(all(&ledger), [3, 3], "the other one does not grow into it");
        assert_eq!(begin(&mut ledger, 1), 3);
    }

    #[test]
    fn who_can_go_anywhere_makes_room_for_one_that_cannot() {
        let mut ledger = slots(2.0);
        ledger.know(&offer("other", 2.0, 2));
        want(&mut ledger, 0, 2, 4);
        assert_eq!(begin(&mut ledger, 0), 4);
        let gpus = Demand { node_ids: vec!["other".into()], ..demand(2, 2, &each(1.0, 1.0)) };
        ledger.want(&id(1), Some(gpus));
        assert_eq!(all(&ledger), [2, 0]);
        end(&mut ledger, 0);
        assert_eq!(begin(&mut ledger, 0), 2);
        assert!(ledger.held(&id(0)).iter().all(|b| b.node_id == "own"));
        assert_eq!(begin(&mut ledger, 1), 2);
    }

    #[test]
    fn one_that_has_to_move_is_told_so() {
        let mut ledger = slots(1.0);
        ledger.know(&offer("b", 1.0, 0));
        want(&mut ledger, 0, 1, 2);
        assert_eq!(begin(&mut ledger, 0), 2);
        ledger.know(&offer("c", 1.0, 0));
        let on_own = Demand { node_ids: vec!["own".into()], ..demand(1, 1, &each(1.0, 0.0)) };
        ledger.want(&id(1), Some(on_own));
        assert_eq!(all(&ledger), [1, 0], "c would do as well, but it sits on the node of the other one");
        end(&mut ledger, 0);
        assert_eq!(begin(&mut ledger, 0), 2);
        assert_eq!(begin(&mut ledger, 1), 1);
        assert_eq!(all(&ledger), [2, 1]);
    }

    #[test]
    fn one_who_wants_nothing_keeps_all_that_it_has() {
        let mut ledger = slots(4.0);
        want(&mut ledger, 0, 1, 3);
        begin(&mut ledger, 0);
        ledger.want(&id(0), None);
        assert_eq!(want(&mut ledger, 1, 2, 2), 1);
        assert_eq!(ledger.fits(&id(0)), None);
    }

    const RUNS: usize = 6;

    #[derive(Clone, Debug)]
    enum Op {
        Want(usize, u32, u32),
        Leave(usize),
        End(usize),
        Obey(usize),
        Newcomer(u32),
    }

    fn ops() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0..RUNS, 1..4u32, 0..4u32).prop_map(|(run, min, more)| Op::Want(run, min, min + more)),
            1 => (0..RUNS).prop_map(Op::Leave),
            1 => (0..RUNS).prop_map(Op::End),
            4 => (0..RUNS).prop_map(Op::Obey),
            1 => (1..3u32).prop_map(Op::Newcomer),
        ]
    }

    /// What the workers of a run need is the same as long as it lives.
    fn wants(run: usize, min: u32, max: u32) -> Demand {
        let (each, nodes) = match run % 4 {
            0 => (each(1.0, 0.0), vec![]),
            1 => (each(0.5, 1.0), vec![]),
            2 => (each(2.0, 0.0), vec![]),
            _ => (each(1.0, 0.0), vec!["b".to_owned()]),
        };
        Demand { node_ids: nodes, ..demand(min, max, &each) }
    }

    /// The run does what its share says, as its controller would; whether that was anything.
    fn obey(ledger: &mut Ledger, run: usize) -> bool {
        let (Some(fits), held) = (ledger.fits(&id(run)), count(ledger.held(&id(run)).len())) else {
            return false;
        };
        let min = ledger.claims.get(&id(run)).unwrap().demand.min_workers;
        if held > 0 && fits != held {
            end(ledger, run);
        } else if held == 0 && fits >= min {
            assert_eq!(begin(ledger, run), fits);
        } else {
            return false;
        }
        true
    }

    fn check(ledger: &Ledger) -> Result<(), TestCaseError> {
        let plan = ledger.planned(None);
        for spot in &plan.table.spots {
            prop_assert!(spot.left.values().chain(spot.free.values()).all(|left| *left >= 0));
        }
        for party in &plan.parties {
            let (held, min) = (count(party.held.len()), party.demand.min_workers);
            prop_assert!(party.share.fits() >= min.min(held), "below its minimum");
            prop_assert!(party.share.fits() <= party.demand.max_workers);
            let given = count(party.given.len());
            prop_assert!(party.share.kept + given == held);
        }
        prop_assert_eq!(ledger.plan(), ledger.plan());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Never is more planned than there is, never is a run told to fall below its minimum, and if all do as they are
        /// told there is soon nothing left to do.
        #[test]
        fn plans_can_be_kept_and_come_to_rest(sequence in prop::collection::vec(ops(), 1..50)) {
            let mut ledger = Ledger::of(offer("own", 5.0, 2));
            ledger.know(&offer("b", 3.5, 2));
            ledger.seen("seen", "127.0.0.1");
            for op in sequence {
                match op {
                    Op::Want(run, min, max) => ledger.want(&id(run), Some(wants(run, min, max))),
                    Op::Leave(run) => {
                        end(&mut ledger, run);
                        ledger.want(&id(run), None);
                    }
                    Op::End(run) => end(&mut ledger, run),
                    Op::Obey(run) => {
                        obey(&mut ledger, run);
                    }
                    Op::Newcomer(n) => {
                        let one = Resources::from([(CPU.to_owned(), 1.0)]);
                        if let Ok(bundles) = ledger.place(&id(9), &demand(n, n, &one)) {
                            ledger.set(&id(9), &bundles);
                        }
                    }
                }
                check(&ledger)?;
            }
            let mut rounds = 0;
            while (0..RUNS).filter(|run| obey(&mut ledger, *run)).count() > 0 {
                check(&ledger)?;
                rounds += 1;
                prop_assert!(rounds < 30, "it does not come to rest");
            }
        }
    }
}
