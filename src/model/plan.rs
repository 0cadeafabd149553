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
        let planned = Plan { table, parties }.made();
        planned.into_iter().map(|party| (party.run.clone(), party.share)).collect()
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

impl<'a> Plan<'a> {
    fn made(mut self) -> Vec<Party<'a>> {
        let all = 0..self.parties.len();
        let those = |plan: &Self, which: fn(&Party<'_>) -> bool| -> Vec<usize> {
            all.clone().filter(|i| plan.parties.get(*i).is_some_and(which)).collect()
        };
        for i in those(&self, |party| !party.held.is_empty()) {
            self.cut_to_maximum(i);
        }
        let between = those(&self, |party| party.held.is_empty() && party.had > 0);
        let waiting = those(&self, |party| party.waits());
        for &i in between.iter().chain(&waiting) {
            self.meet_minimum(i);
        }
        for &i in &between {
            self.extend(i, |party| party.had.min(party.demand.max_workers));
        }
        for i in those(&self, |party| !party.waits()) {
            self.extend(i, |party| party.demand.max_workers);
        }
        for i in waiting {
            self.extend(i, |party| party.demand.max_workers);
        }
        self.parties
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
