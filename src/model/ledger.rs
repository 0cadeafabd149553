//! The resource ledger: what nodes have for workers, and which attempt has reserved what of it. A reservation belongs
//! to a live attempt and is derived from it, so that nothing can stay reserved when an attempt has ended, whatever ended
//! it. Knows nothing of processes: whether workers keep to what was reserved for them is between them and their node.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use super::demand::Demand;
use super::{demand::Claims, names::check_name};
use crate::base::{Invalid, RunId, limits};

/// The resource of whole devices that are handed out by id.
pub const GPU: &str = "GPU";
/// The resource of processor slots.
pub const CPU: &str = "CPU";

/// Amounts by resource, `{"CPU": 1.5, "GPU": 1, "licence": 1}`. Exact to a thousandth.
pub type Resources = BTreeMap<String, f64>;

/// What a node has for workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeOffer {
    /// Identity, the host's name as a rule.
    #[schema(max_length = 256)]
    pub node_id: String,
    /// Address.
    #[schema(max_length = 256)]
    pub node_ip: String,
    /// CPU slots and named resources; GPUs are counted from `gpu_ids`.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub resources: Resources,
    /// Its GPUs, by the ids that workers see (`CUDA_VISIBLE_DEVICES`).
    #[serde(default)]
    #[schema(max_items = 1024)]
    pub gpu_ids: Vec<String>,
}

impl NodeOffer {
    /// Checks every rule of an offer; `field` is its place in the request.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self, field: &str) -> Result<(), Invalid> {
        check_name(&format!("{field}.node_id"), &self.node_id)?;
        check_name(&format!("{field}.node_ip"), &self.node_ip)?;
        check_resources(&format!("{field}.resources"), &self.resources)?;
        if self.resources.contains_key(GPU) {
            return Err(Invalid::rule(
                format!("{field}.resources.GPU"),
                "GPUs are named in gpu_ids, not counted here",
            ));
        }
        if self.gpu_ids.len() > limits::NODE_GPUS {
            return Err(Invalid::over(format!("{field}.gpu_ids"), limits::NODE_GPUS, "devices"));
        }
        for (i, gpu) in self.gpu_ids.iter().enumerate() {
            check_name(&format!("{field}.gpu_ids[{i}]"), gpu)?;
            if self.gpu_ids.iter().take(i).any(|other| other == gpu) {
                return Err(Invalid::rule(format!("{field}.gpu_ids[{i}]"), "each device stands once"));
            }
        }
        Ok(())
    }
}

/// Checks amounts of resources.
///
/// # Errors
/// At most 100 of them, each from 0 to a million; GPUs are whole.
pub fn check_resources(field: &str, resources: &Resources) -> Result<(), Invalid> {
    if resources.len() > limits::RESOURCES {
        return Err(Invalid::over(field, limits::RESOURCES, "resources"));
    }
    for (name, amount) in resources {
        check_name(field, name)?;
        if !(0.0..=1e6).contains(amount) {
            return Err(Invalid::rule(format!("{field}.{name}"), "an amount is 0 to 1,000,000"));
        }
        if name == GPU && amount.fract() != 0.0 {
            return Err(Invalid::rule(format!("{field}.GPU"), "GPUs are handed out whole"));
        }
    }
    Ok(())
}

/// What is reserved for one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bundle {
    /// Rank of the worker.
    pub world_rank: u32,
    /// Where.
    pub node_id: String,
    /// How much.
    #[schema(value_type = Object)]
    pub resources: Resources,
    /// Which GPUs.
    pub gpu_ids: Vec<String>,
}

/// A node as it stands in the ledger.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// What it has; nothing if it is known by its workers only.
    pub offer: NodeOffer,
    /// Thousandths reserved of each resource.
    reserved: BTreeMap<String, i64>,
    /// How many reservations name each GPU; more than one only if a run came back after its GPU was given on.
    gpus: BTreeMap<String, u32>,
}

/// All nodes, and who has reserved what.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    nodes: BTreeMap<String, Node>,
    reservations: HashMap<RunId, Vec<Bundle>>,
    /// The head's own node, which is filled first.
    own: Option<String>,
    /// What runs would like to have.
    pub(super) claims: Claims,
}

impl Ledger {
    /// A ledger with the head's own node.
    #[must_use]
    pub fn of(own: NodeOffer) -> Self {
        let mut ledger = Self { own: Some(own.node_id.clone()), ..Self::default() };
        ledger.nodes.insert(own.node_id.clone(), Node { offer: own, ..Node::default() });
        ledger
    }

    /// The nodes, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Whether this is the head's own node.
    #[must_use]
    pub fn is_own(&self, node_id: &str) -> bool {
        self.own.as_deref() == Some(node_id)
    }

    /// All that is reserved, and for which run.
    pub fn reserved(&self) -> impl Iterator<Item = (&RunId, &Bundle)> {
        self.reservations.iter().flat_map(|(run, bundles)| bundles.iter().map(move |b| (run, b)))
    }

    /// Takes note of a node. What the head knows of its own node by itself stands. Returns whether anything is new.
    pub fn know(&mut self, offer: &NodeOffer) -> bool {
        let full = self.nodes.len() >= limits::NODES;
        let known = match self.nodes.get_mut(&offer.node_id) {
            Some(_) if self.own.as_deref() == Some(&*offer.node_id) => false,
            Some(node) if node.offer == *offer => false,
            Some(node) => {
                node.offer = offer.clone();
                true
            }
            None if full => false,
            None => {
                let node = Node { offer: offer.clone(), ..Node::default() };
                self.nodes.insert(offer.node_id.clone(), node);
                true
            }
        };
        if known {
            self.claims.replan();
        }
        known
    }

    /// Takes note of a node that a worker was seen on, of which nothing else is known.
    pub fn seen(&mut self, node_id: &str, node_ip: &str) -> Option<NodeOffer> {
        if self.nodes.contains_key(node_id) {
            return None;
        }
        let offer =
            NodeOffer { node_id: node_id.to_owned(), node_ip: node_ip.to_owned(), ..NodeOffer::default() };
        self.know(&offer).then_some(offer)
    }

    /// Whether a run has reserved anything.
    #[must_use]
    pub fn holds(&self, run: &RunId) -> bool {
        self.reservations.contains_key(run)
    }

    /// What a run has reserved.
    pub(super) fn held(&self, run: &RunId) -> &[Bundle] {
        self.reservations.get(run).map(Vec::as_slice).unwrap_or_default()
    }

    /// The nodes in the order in which they are filled.
    pub(super) fn in_order(&self) -> Vec<&Node> {
        let mut order: Vec<&Node> = self.nodes.values().collect();
        order.sort_by_cached_key(|node| (!self.is_own(&node.offer.node_id), by_number(&node.offer.node_id)));
        order
    }

    /// What a run has reserved from now on: that of its live attempt, or nothing.
    pub fn set(&mut self, run: &RunId, bundles: &[Bundle]) {
        if self.held(run) == bundles {
            return;
        }
        self.claims.replan();
        self.claims.let_go(run, count(self.held(run).len()));
        let old = if bundles.is_empty() {
            self.reservations.remove(run)
        } else {
            self.reservations.insert(run.clone(), bundles.to_vec())
        };
        for bundle in old.iter().flatten() {
            self.change(bundle, -1);
        }
        for bundle in bundles {
            self.change(bundle, 1);
        }
    }

    fn change(&mut self, bundle: &Bundle, sign: i64) {
        let node = self.nodes.entry(bundle.node_id.clone()).or_insert_with(|| Node {
            offer: NodeOffer { node_id: bundle.node_id.clone(), ..NodeOffer::default() },
            ..Node::default()
        });
        for (name, amount) in &bundle.resources {
            let reserved = node.reserved.entry(name.clone()).or_default();
            *reserved += sign * thousandths(*amount);
            if *reserved == 0 {
                node.reserved.remove(name);
            }
        }
        for gpu in &bundle.gpu_ids {
            let users = node.gpus.entry(gpu.clone()).or_default();
            *users = users.saturating_add_signed(if sign > 0 { 1 } else { -1 });
            if *users == 0 {
                node.gpus.remove(gpu);
            }
        }
    }
}

/// What to count as used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    None,
    Reserved,
}

impl Node {
    /// All that the node has.
    #[must_use]
    pub fn capacity(&self) -> Resources {
        let mut all = self.offer.resources.clone();
        let gpus = count(self.offer.gpu_ids.len());
        if gpus > 0 {
            all.insert(GPU.to_owned(), f64::from(gpus));
        }
        all
    }

    /// What is reserved of it.
    #[must_use]
    pub fn reserved(&self) -> Resources {
        self.reserved.iter().map(|(name, amount)| (name.clone(), units(*amount))).collect()
    }

    /// What is free of it; never below zero.
    #[must_use]
    pub fn free(&self) -> Resources {
        self.capacity().into_iter().map(|(name, has)| (name.clone(), units(self.left(&name, has)))).collect()
    }

    /// Its GPUs that nobody has reserved.
    pub(super) fn free_gpus(&self) -> impl Iterator<Item = &str> {
        self.offer.gpu_ids.iter().filter(|gpu| !self.gpus.contains_key(*gpu)).map(String::as_str)
    }

    /// How many workers fit.
    pub(super) fn room(&self, each: &Resources, used: Use) -> u32 {
        let capacity = self.capacity();
        let fit = |(name, amount): (&String, &f64)| {
            let need = thousandths(*amount);
            let has = capacity.get(name).copied().unwrap_or(0.0);
            let left = match used {
                Use::None => thousandths(has),
                Use::Reserved if name == GPU => thousandths(f64::from(count(self.free_gpus().count()))),
                Use::Reserved => self.left(name, has),
            };
            left.checked_div(need).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
        };
        let least = each.iter().filter_map(fit).min();
        // Nothing that is asked for in a positive amount fits everywhere; but a node must have something at all.
        least.unwrap_or(if capacity.is_empty() { 0 } else { u32::MAX })
    }

    pub(super) fn left(&self, name: &str, has: f64) -> i64 {
        (thousandths(has) - self.reserved.get(name).copied().unwrap_or(0)).max(0)
    }
}

/// Names with numbers in the order of the numbers: `node2` before `node10`.
fn by_number(name: &str) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, u64)> = vec![(String::new(), 0)];
    let mut digits = false;
    for c in name.chars() {
        if digits && !c.is_ascii_digit() {
            parts.push((String::new(), 0));
        }
        digits = c.is_ascii_digit();
        if let Some((text, number)) = parts.last_mut() {
            match c.to_digit(10) {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
                None => text.push(c),
            }
        }
    }
    parts
}

pub(super) fn words(resources: &Resources) -> String {
    if resources.is_empty() {
        return "nothing".to_owned();
    }
    resources.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
}

pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "checked to be 0 to a million")]
pub(super) fn thousandths(amount: f64) -> i64 {
    (amount * 1000.0).round() as i64
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "far below 2^53")]
fn units(thousandths: i64) -> f64 {
    thousandths as f64 / 1000.0
}

pub(super) fn whole(amount: f64) -> usize {
    usize::try_from(thousandths(amount) / 1000).unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::placement::Shortage;

    pub(in crate::model) fn offer(id: &str, cpus: f64, gpus: usize) -> NodeOffer {
        NodeOffer {
            node_id: id.into(),
            node_ip: "127.0.0.1".into(),
            resources: Resources::from([(CPU.into(), cpus)]),
            gpu_ids: (0..gpus).map(|g| g.to_string()).collect(),
        }
    }

    pub(in crate::model) fn each(cpus: f64, gpus: f64) -> Resources {
        Resources::from([(CPU.into(), cpus), (GPU.into(), gpus)])
    }

    pub(in crate::model) fn id(i: usize) -> RunId {
        RunId::parse(&format!("r{i}")).unwrap()
    }

    pub(in crate::model) fn demand(min_workers: u32, max_workers: u32, each: &Resources) -> Demand {
        Demand { min_workers, max_workers, resources_per_worker: each.clone(), node_ids: Vec::new() }
    }

    pub(in crate::model) fn place(
        ledger: &Ledger,
        workers: u32,
        each: &Resources,
    ) -> Result<Vec<Bundle>, Shortage> {
        ledger.place(&RunId::generate(), &demand(workers, workers, each))
    }

    #[test]
    fn bad_amounts_are_refused_by_name() {
        for (name, amount) in [(GPU, 0.5), (CPU, -1.0), (CPU, f64::NAN), (CPU, 2e6)] {
            let resources = Resources::from([(name.to_owned(), amount)]);
            assert_eq!(check_resources("each", &resources).unwrap_err().field, format!("each.{name}"));
        }
        let twice = NodeOffer { gpu_ids: vec!["0".into(), "0".into()], ..offer("a", 1.0, 0) };
        assert_eq!(twice.check("nodes[0]").unwrap_err().field, "nodes[0].gpu_ids[1]");
    }

    proptest! {
        /// Whatever is reserved and freed, nobody gets more than there is, and in the end all is free again.
        #[test]
        fn nothing_is_given_twice_and_nothing_stays(
            steps in prop::collection::vec((0..6usize, 0..4u32, 0..30u32, 0..3u32), 0..60),
        ) {
            let mut ledger = Ledger::of(offer("own", 8.0, 4));
            ledger.know(&offer("other", 3.5, 1));
            for (run, workers, tenths, gpus) in steps {
                ledger.set(&id(run), &[]);
                if let Ok(bundles) = place(&ledger, workers, &each(f64::from(tenths) / 10.0, f64::from(gpus))) {
                    ledger.set(&id(run), &bundles);
                }
                for node in ledger.nodes() {
                    for (name, has) in node.capacity() {
                        let used = node.reserved().get(&name).copied().unwrap_or(0.0);
                        prop_assert!(used <= has + 1e-9, "{name}: {used} of {has}");
                    }
                    prop_assert!(node.gpus.values().all(|users| *users == 1));
                }
            }
            for run in 0..6 {
                ledger.set(&id(run), &[]);
            }
            for node in ledger.nodes() {
                prop_assert_eq!(node.free(), node.capacity());
            }
        }
    }
}
