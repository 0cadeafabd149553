//! What runs would like to have of the nodes. Kept in memory only, beside the ledger: controllers say it with each
//! heartbeat, so that after a restart of the head it is known again soon. What of it they can have is `plan`'s.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    ledger::{Ledger, Resources, check_resources},
    names::check_name,
};
use crate::base::{Invalid, RunId, limits, number};

/// What a run would like to have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// With fewer workers it does not run.
    #[schema(minimum = 1, maximum = 10_000)]
    pub min_workers: u32,
    /// It has no use for more.
    #[schema(minimum = 1, maximum = 10_000)]
    pub max_workers: u32,
    /// What each worker needs.
    #[schema(value_type = Object)]
    pub resources_per_worker: Resources,
    /// The only nodes that its workers may be placed on; any if it is empty.
    #[serde(default)]
    #[schema(max_items = 10_000)]
    pub node_ids: Vec<String>,
}

impl Demand {
    /// Checks every rule of a demand; `field` is its place in the request.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self, field: &str) -> Result<(), Invalid> {
        check_sizes(&format!("{field}.min_workers"), self.min_workers, self.max_workers)?;
        if number::size(limits::WORKERS) < u64::from(self.max_workers) {
            return Err(Invalid::over(format!("{field}.max_workers"), limits::WORKERS, "workers"));
        }
        check_resources(&format!("{field}.resources_per_worker"), &self.resources_per_worker)?;
        check_node_ids(&format!("{field}.node_ids"), &self.node_ids)
    }

    /// Whether workers may be placed on this node.
    pub(super) fn allows(&self, node_id: &str) -> bool {
        self.node_ids.is_empty() || self.node_ids.iter().any(|id| id == node_id)
    }
}

/// Checks the sizes between which a group may be; `field` names the smaller one.
///
/// # Errors
/// A group has at least one worker, and not more at least than at most.
pub(super) fn check_sizes(field: &str, min: u32, max: u32) -> Result<(), Invalid> {
    if min == 0 {
        return Err(Invalid::rule(field, "a group has at least one worker"));
    }
    if min > max {
        return Err(Invalid::rule(field, format!("at least {min} workers are more than at most {max}")));
    }
    Ok(())
}

/// Checks the names of nodes.
///
/// # Errors
/// At most 10,000, each a name.
pub(super) fn check_node_ids(field: &str, node_ids: &[String]) -> Result<(), Invalid> {
    if node_ids.len() > limits::NODES {
        return Err(Invalid::over(field, limits::NODES, "nodes"));
    }
    node_ids.iter().enumerate().try_for_each(|(i, id)| check_name(&format!("{field}[{i}]"), id))
}

/// What runs would like to have, and what was planned for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    of_runs: HashMap<RunId, Claim>,
    /// How many claims were ever made.
    made: u64,
    /// How many workers each run can have, until anything changes.
    planned: Option<HashMap<RunId, u32>>,
}

/// What a run would like to have, and its place in the queue.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) demand: Demand,
    pub(super) since: u64,
    /// How many workers its last attempt had here: between two attempts it has that place still.
    pub(super) had: u32,
}

impl Claims {
    pub(super) fn get(&self, run: &RunId) -> Option<&Claim> {
        self.of_runs.get(run)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&RunId, &Claim)> {
        self.of_runs.iter()
    }

    /// Something that the plan rests on has changed.
    pub(super) fn replan(&mut self) {
        self.planned = None;
    }

    /// The run has let go of what it had reserved.
    pub(super) fn let_go(&mut self, run: &RunId, had: u32) {
        if let Some(claim) = self.of_runs.get_mut(run) {
            claim.had = had;
        }
    }
}

impl Ledger {
    /// What a run would like to have from now on; none when it has ended, or wants nothing more.
    pub fn want(&mut self, run: &RunId, demand: Option<Demand>) {
        match (self.claims.of_runs.get_mut(run), demand) {
            (Some(claim), Some(demand)) if claim.demand == demand => return,
            (Some(claim), Some(demand)) => claim.demand = demand,
            (None, Some(demand)) => {
                let claim = Claim { demand, since: self.claims.made, had: 0 };
                self.claims.of_runs.insert(run.clone(), claim);
                self.claims.made += 1;
            }
            (None, None) => return,
            (Some(_), None) => drop(self.claims.of_runs.remove(run)),
        }
        self.claims.replan();
    }

    /// Takes over what the runs that `lives` says wanted of an earlier ledger.
    pub fn inherit(&mut self, earlier: &Self, lives: impl Fn(&RunId) -> bool) {
        self.claims = earlier.claims.clone();
        self.claims.of_runs.retain(|run, _| lives(run));
        self.claims.replan();
    }

    /// How many workers a run can have now that wants any. Asking again costs nothing as long as nothing has changed.
    pub fn fits(&mut self, run: &RunId) -> Option<u32> {
        self.claims.get(run)?;
        if self.claims.planned.is_none() {
            self.claims.planned = Some(self.plan());
        }
        self.claims.planned.as_ref()?.get(run).copied()
    }
}
