//! Placing a new attempt: what is reserved for it on which node, or why nothing can be.

use super::{
    demand::Demand,
    ledger::{Bundle, GPU, Ledger, Node, Resources, Use, count, whole, words},
};
use crate::base::RunId;

/// Why nothing could be reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// More than the nodes have, even if nobody else used them.
    Never(String),
    /// More than is free right now.
    NotNow(String),
}

impl Ledger {
    /// What could be reserved for a run that holds nothing: as many workers as it wants and can have without taking what
    /// others wait for. The head's own node is filled first, then the others in the order of their names. Reserves
    /// nothing yet.
    ///
    /// # Errors
    /// When fewer than its minimum fit, with what is missing.
    pub fn place(&self, run: &RunId, demand: &Demand) -> Result<Vec<Bundle>, Shortage> {
        let share = self.shares(Some((run, demand))).remove(run).unwrap_or_default();
        let each = &demand.resources_per_worker;
        let order = self.in_order();
        let mut bundles = Vec::new();
        for (at, n) in share.now {
            let Some(node) = order.get(at) else { continue };
            let mut gpus = node.free_gpus();
            let devices = each.get(GPU).map_or(0, |n| whole(*n));
            for _ in 0..n.min(node.room(each, Use::Reserved)) {
                bundles.push(Bundle {
                    world_rank: count(bundles.len()),
                    node_id: node.offer.node_id.clone(),
                    resources: each.clone(),
                    gpu_ids: gpus.by_ref().take(devices).map(str::to_owned).collect(),
                });
            }
        }
        if count(bundles.len()) >= demand.min_workers { Ok(bundles) } else { Err(shortage(&order, demand)) }
    }
}

fn shortage(order: &[&Node], demand: &Demand) -> Shortage {
    let Demand { min_workers: min, max_workers: max, resources_per_worker: each, node_ids } = demand;
    let allowed: Vec<&Node> =
        order.iter().copied().filter(|node| demand.allows(&node.offer.node_id)).collect();
    let room = |used: Use| allowed.iter().fold(0u32, |sum, node| sum.saturating_add(node.room(each, used)));
    let has = |of: fn(&Node) -> Resources| {
        let known = allowed.iter().map(|node| format!("{} {}", node.offer.node_id, words(&of(node))));
        let unknown = node_ids
            .iter()
            .filter(|id| allowed.iter().all(|node| node.offer.node_id != **id))
            .map(|id| format!("{id} is not known"));
        known.chain(unknown).collect::<Vec<_>>().join("; ")
    };
    let size = if min == max { min.to_string() } else { format!("at least {min} of {max}") };
    let asked = match (*min, *max) {
        (1, 1) => format!("1 worker with {}", words(each)),
        _ => format!("{size} workers with {} each", words(each)),
    };
    if room(Use::None) < *min {
        let nodes = if node_ids.is_empty() { "all known nodes" } else { "the nodes asked for" };
        return Shortage::Never(format!("{asked} is more than {nodes} have ({})", has(Node::capacity)));
    }
    let queue = if room(Use::Reserved) < *min { "" } else { ", which others wait for" };
    Shortage::NotNow(format!("{asked} does not fit now; free: {}{queue}", has(Node::free)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ledger::tests::{demand, each, id, offer, place};

    #[test]
    fn the_own_node_is_filled_first_then_the_others_in_the_order_of_their_numbers() {
        let mut ledger = Ledger::of(offer("zeta", 2.0, 0));
        for name in ["node10", "node2"] {
            ledger.know(&offer(name, 1.0, 0));
        }
        let bundles = place(&ledger, 4, &each(1.0, 0.0)).unwrap();
        let nodes: Vec<&str> = bundles.iter().map(|b| b.node_id.as_str()).collect();
        assert_eq!(nodes, ["zeta", "zeta", "node2", "node10"]);
        assert_eq!(bundles.iter().map(|b| b.world_rank).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn what_can_never_fit_is_told_from_what_does_not_fit_now() {
        let mut ledger = Ledger::of(offer("a", 4.0, 2));
        let first = place(&ledger, 1, &each(1.0, 1.0)).unwrap();
        assert_eq!(first[0].gpu_ids, ["0"]);
        ledger.set(&id(1), &first);
        assert_eq!(place(&ledger, 1, &each(1.0, 1.0)).unwrap()[0].gpu_ids, ["1"]);
        assert!(
            matches!(place(&ledger, 2, &each(1.0, 1.0)), Err(Shortage::NotNow(why)) if why.contains("3 CPU, 1 GPU"))
        );
        assert!(matches!(place(&ledger, 3, &each(1.0, 1.0)), Err(Shortage::Never(_))));
        assert!(matches!(
            place(&ledger, 1, &Resources::from([("licence".into(), 1.0)])),
            Err(Shortage::Never(_))
        ));
        ledger.set(&id(1), &[]);
        assert!(place(&ledger, 2, &each(1.0, 1.0)).is_ok());
    }

    #[test]
    fn a_device_that_was_given_on_while_its_run_was_away_has_two_users_and_is_free_after_both() {
        let mut ledger = Ledger::of(offer("a", 4.0, 1));
        let bundles = place(&ledger, 1, &each(1.0, 1.0)).unwrap();
        ledger.set(&id(1), &bundles);
        ledger.set(&id(2), &bundles);
        ledger.set(&id(1), &[]);
        assert!(place(&ledger, 1, &each(0.0, 1.0)).is_err());
        ledger.set(&id(2), &[]);
        assert!(place(&ledger, 1, &each(0.0, 1.0)).is_ok());
    }

    #[test]
    fn as_many_workers_as_fit_between_least_and_most_on_the_nodes_asked_for() {
        let mut ledger = Ledger::of(offer("own", 4.0, 0));
        ledger.know(&offer("b10", 2.0, 2));
        ledger.know(&offer("b2", 1.0, 2));
        let on = |min, max, each: &Resources, nodes: &[&str]| Demand {
            node_ids: nodes.iter().map(|&n| n.to_owned()).collect(),
            ..demand(min, max, each)
        };
        let placed = |ledger: &Ledger, demand: &Demand| {
            let bundles = ledger.place(&id(9), demand)?;
            let places = bundles.iter().map(|b| format!("{}{}", b.node_id, b.gpu_ids.concat()));
            Ok::<_, Shortage>(places.collect::<Vec<_>>().join(" "))
        };
        let cases = [
            (on(1, 9, &each(1.0, 0.0), &[]), "own own own own b2 b10 b10"),
            (on(2, 3, &each(1.0, 1.0), &["b10", "b2"]), "b20 b100 b101"),
            (on(1, 9, &each(1.0, 1.0), &["own", "b10"]), "b100 b101"),
            (on(1, 2, &each(0.5, 1.0), &["b2", "unknown"]), "b20 b21"),
        ];
        for (demand, places) in cases {
            assert_eq!(placed(&ledger, &demand).unwrap(), places, "{demand:?}");
        }
        let never = placed(&ledger, &on(4, 5, &each(1.0, 1.0), &["b2", "b10", "c"])).unwrap_err();
        let why = "at least 4 of 5 workers with 1 CPU, 1 GPU each is more than the nodes asked for have \
            (b2 1 CPU, 2 GPU; b10 2 CPU, 2 GPU; c is not known)";
        assert_eq!(never, Shortage::Never(why.into()));
        ledger.set(&id(1), &place(&ledger, 5, &each(1.0, 0.0)).unwrap());
        let not_now = placed(&ledger, &on(1, 1, &each(1.0, 0.0), &["own", "b2"])).unwrap_err();
        let why = "1 worker with 1 CPU, 0 GPU does not fit now; free: own 0 CPU; b2 0 CPU, 2 GPU";
        assert_eq!(not_now, Shortage::NotNow(why.into()));
    }

    #[test]
    fn who_began_to_wait_before_comes_first() {
        let mut ledger = Ledger::of(offer("own", 4.0, 0));
        let one = each(1.0, 0.0);
        ledger.set(&id(1), &place(&ledger, 2, &one).unwrap());
        ledger.want(&id(2), Some(demand(2, 4, &one)));
        let why = "1 worker with 1 CPU, 0 GPU does not fit now; free: own 2 CPU, which others wait for";
        assert_eq!(place(&ledger, 1, &one), Err(Shortage::NotNow(why.into())));
        assert_eq!(ledger.place(&id(2), &demand(2, 4, &one)).unwrap().len(), 2);
        ledger.want(&id(2), None);
        assert!(place(&ledger, 1, &one).is_ok());
        ledger.want(&id(2), Some(demand(3, 4, &one)));
        assert!(place(&ledger, 1, &one).is_ok(), "what does not fit whole holds nothing back");
    }
}
