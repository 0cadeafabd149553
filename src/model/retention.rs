//! Retention: which ended runs go to the trash, and which of the trash may be deleted for good.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::{Invalid, RunId, Timestamp};

/// Deleted runs stay in the trash this long unless somebody says otherwise.
pub const TRASH_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// What to clear away. A live run never goes; an ended one goes to the trash first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectGarbage {
    /// Runs that ended longer ago go to the trash.
    #[serde(default)]
    #[schema(minimum = 0)]
    pub older_than_ms: Option<u64>,
    /// Of the ended runs so many stay, those that ended last; the others go to the trash.
    #[serde(default)]
    #[schema(minimum = 0)]
    pub keep: Option<u64>,
    /// The logs and checkpoints of ended runs may take so much; runs that ended first go to the trash until they do.
    #[serde(default)]
    #[schema(minimum = 0)]
    pub max_size_bytes: Option<u64>,
    /// Delete for good what has been in the trash for `trash_for_ms`.
    #[serde(default)]
    pub purge: bool,
    /// How long runs stay in the trash before they may be deleted for good; 7 days if missing.
    #[serde(default)]
    #[schema(minimum = 0)]
    pub trash_for_ms: Option<u64>,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

impl CollectGarbage {
    /// Checks that there is anything to do.
    ///
    /// # Errors
    /// When no rule is given.
    pub fn check(&self) -> Result<(), Invalid> {
        let Self { older_than_ms, keep, max_size_bytes, purge, trash_for_ms, dry_run: _ } = self;
        if trash_for_ms.is_some() && !purge {
            return Err(Invalid::rule("trash_for_ms", "it says when to delete for good: give purge as well"));
        }
        if older_than_ms.is_none() && keep.is_none() && max_size_bytes.is_none() && !purge {
            return Err(Invalid::rule(
                "",
                "give at least one of older_than_ms, keep, max_size_bytes and purge",
            ));
        }
        Ok(())
    }

    /// Whether the sizes of runs matter.
    #[must_use]
    pub fn needs_sizes(&self) -> bool {
        self.max_size_bytes.is_some()
    }
}

/// An ended run, as retention sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// Identity.
    pub id: RunId,
    /// When it ended.
    pub ended_at: Timestamp,
    /// When it was put into the trash.
    pub trashed_at: Option<Timestamp>,
    /// Size of its logs and checkpoints.
    pub size_bytes: u64,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Into the trash, those that ended first before the others.
    pub trash: Vec<RunId>,
    /// Deleted for good, those that were thrown away first before the others.
    pub purge: Vec<RunId>,
}

/// What to do with these ended runs at `now`.
#[must_use]
pub fn plan(rule: &CollectGarbage, mut runs: Vec<EndedRun>, now: Timestamp) -> Plan {
    let before = |ms: u64| now.as_ms().saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX));
    runs.sort_by(|a, b| (a.ended_at, &a.id).cmp(&(b.ended_at, &b.id)));
    let (mut trashed, kept): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.trashed_at.is_some());
    let n = kept.len();
    let surplus = rule.keep.map_or(0, |keep| n.saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX)));
    let mut size: u64 = kept.iter().map(|run| run.size_bytes).sum();
    let mut trash = Vec::new();
    for (i, run) in kept.into_iter().enumerate() {
        let old = rule.older_than_ms.is_some_and(|ms| run.ended_at.as_ms() < before(ms));
        let big = rule.max_size_bytes.is_some_and(|most| size > most);
        if old || big || i < surplus {
            size -= run.size_bytes;
            trash.push(run.id);
        }
    }
    trashed.sort_by(|a, b| (a.trashed_at, &a.id).cmp(&(b.trashed_at, &b.id)));
    let wait = rule.trash_for_ms.unwrap_or_else(|| u64::try_from(TRASH_FOR.as_millis()).unwrap_or(u64::MAX));
    let ripe = |run: &EndedRun| rule.purge && run.trashed_at.is_some_and(|at| at.as_ms() <= before(wait));
    Plan { trash, purge: trashed.into_iter().filter(ripe).map(|run| run.id).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600 * 1000;

    fn runs() -> Vec<EndedRun> {
        let run = |i: i64, trashed: Option<i64>| EndedRun {
            id: RunId::parse(&format!("r{i}")).unwrap(),
            ended_at: Timestamp::from_ms(i * DAY),
            trashed_at: trashed.map(|day| Timestamp::from_ms(day * DAY)),
            size_bytes: 10,
        };
        // Out of order on purpose.
        vec![run(8, None), run(1, None), run(5, None), run(9, None), run(2, Some(3)), run(3, Some(9))]
    }

    fn planned(rule: CollectGarbage) -> (Vec<String>, Vec<String>) {
        let Plan { trash, purge } = plan(&rule, runs(), Timestamp::from_ms(10 * DAY));
        let text = |ids: Vec<RunId>| ids.iter().map(ToString::to_string).collect();
        (text(trash), text(purge))
    }

    #[test]
    fn each_rule_takes_what_ended_first() {
        let rule = CollectGarbage::default;
        let day = u64::try_from(DAY).unwrap();
        assert_eq!(planned(CollectGarbage { older_than_ms: Some(4 * day), ..rule() }).0, ["r1", "r5"]);
        assert_eq!(planned(CollectGarbage { keep: Some(3), ..rule() }).0, ["r1"]);
        assert_eq!(planned(CollectGarbage { keep: Some(9), ..rule() }).0, [""; 0]);
        assert_eq!(planned(CollectGarbage { max_size_bytes: Some(25), ..rule() }).0, ["r1", "r5"]);
        assert_eq!(planned(CollectGarbage { max_size_bytes: Some(0), ..rule() }).0.len(), 4);
    }

    #[test]
    fn only_what_lay_in_the_trash_long_enough_is_deleted() {
        let purge = CollectGarbage { purge: true, ..CollectGarbage::default() };
        assert_eq!(planned(purge.clone()), (vec![], vec!["r2".to_owned()]));
        assert_eq!(planned(CollectGarbage { trash_for_ms: Some(0), ..purge.clone() }).1, ["r2", "r3"]);
        assert_eq!(planned(CollectGarbage { purge: false, ..purge }).1, [""; 0]);
    }

    #[test]
    fn a_rule_that_says_nothing_is_refused() {
        assert!(CollectGarbage { dry_run: true, ..CollectGarbage::default() }.check().is_err());
        assert!(CollectGarbage { trash_for_ms: Some(1), ..CollectGarbage::default() }.check().is_err());
        assert!(CollectGarbage { keep: Some(0), ..CollectGarbage::default() }.check().is_ok());
    }
}
