//! What many runs have in common. A group has a number, by which its runs name it, so that its text is there once.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::{Counts, Slot, by_start::ByStart, order::Start};

/// What many runs may have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Facet {
    /// An experiment.
    Experiment(Arc<str>),
    /// A job.
    Job(Arc<str>),
    /// A tag, `key:value`.
    Tag(Arc<str>),
}

/// The number of a group. Numbers of groups that are gone are given again.
pub(super) type GroupNo = u32;

#[derive(Debug)]
pub(super) struct Group {
    facet: Facet,
    /// Its name in lower case, if it is an experiment or a job, to order by.
    folded: Option<Arc<str>>,
    /// Without those in the trash.
    pub(super) runs: ByStart,
    pub(super) counts: Counts,
    /// How many runs name it, in the trash or not.
    named: usize,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: HashMap<Facet, GroupNo>,
    groups: Vec<Option<Group>>,
    free: Vec<GroupNo>,
    /// Names of experiments with runs that are not in the trash.
    experiments: BTreeSet<Arc<str>>,
}

impl Groups {
    pub(super) fn number(&self, facet: &Facet) -> Option<GroupNo> {
        self.numbers.get(facet).copied()
    }

    pub(super) fn get(&self, number: GroupNo) -> Option<&Group> {
        self.groups.get(at(number))?.as_ref()
    }

    pub(super) fn experiments(&self, after: Option<&str>) -> impl Iterator<Item = (&Arc<str>, &Group)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.experiments.range::<str, _>((from, Bound::Unbounded));
        names.filter_map(|name| Some((name, self.get(self.number(&Facet::Experiment(Arc::clone(name)))?)?)))
    }

    /// The experiment among these groups, in lower case.
    pub(super) fn experiment(&self, numbers: &[GroupNo]) -> Option<&Arc<str>> {
        self.folded(numbers, |facet| matches!(facet, Facet::Experiment(_)))
    }

    /// The job among these groups, in lower case.
    pub(super) fn job(&self, numbers: &[GroupNo]) -> Option<&Arc<str>> {
        self.folded(numbers, |facet| matches!(facet, Facet::Job(_)))
    }

    fn folded(&self, numbers: &[GroupNo], is: impl Fn(&Facet) -> bool) -> Option<&Arc<str>> {
        let groups = numbers.iter().filter_map(|number| self.get(*number));
        groups.filter(|group| is(&group.facet)).find_map(|group| group.folded.as_ref())
    }

    /// One more run names a group.
    pub(super) fn join(&mut self, facet: Facet) -> GroupNo {
        if let Some(&number) = self.numbers.get(&facet) {
            if let Some(group) = self.get_mut(number) {
                group.named += 1;
            }
            return number;
        }
        let folded = match &facet {
            Facet::Experiment(name) | Facet::Job(name) => Some(folded(name)),
            Facet::Tag(_) => None,
        };
        let (facet_of, runs, counts) = (facet.clone(), ByStart::default(), Counts::default());
        let group = Group { facet: facet_of, folded, runs, counts, named: 1 };
        let next = GroupNo::try_from(self.groups.len()).unwrap_or(GroupNo::MAX);
        let number = self.free.pop().unwrap_or(next);
        match self.groups.get_mut(at(number)) {
            Some(free) => *free = Some(group),
            None => self.groups.push(Some(group)),
        }
        self.numbers.insert(facet, number);
        number
    }

    /// A run names these groups no more.
    pub(super) fn leave(&mut self, numbers: &[GroupNo]) {
        for &number in numbers {
            let Some(place) = self.groups.get_mut(at(number)) else { continue };
            if let Some(group) = place
                && group.named > 1
            {
                group.named -= 1;
            } else if let Some(group) = place.take() {
                self.numbers.remove(&group.facet);
                self.free.push(number);
            }
        }
    }

    pub(super) fn link(&mut self, numbers: &[GroupNo], start: &Start, slot: Slot, status: usize) {
        for &number in numbers {
            let Some(Some(group)) = self.groups.get_mut(at(number)) else { continue };
            group.count(status);
            group.runs.insert(start.clone(), slot);
            if let Facet::Experiment(name) = &group.facet {
                self.experiments.insert(Arc::clone(name));
            }
        }
    }

    pub(super) fn unlink(&mut self, numbers: &[GroupNo], start: &Start, status: usize) {
        for &number in numbers {
            let Some(Some(group)) = self.groups.get_mut(at(number)) else { continue };
            group.runs.remove(start);
            if let Some(n) = group.counts.get_mut(status) {
                *n -= 1;
            }
            if let Facet::Experiment(name) = &group.facet
                && group.runs.is_empty()
            {
                self.experiments.remove(name);
            }
        }
    }

    /// Links runs that stand in order to groups that have none yet.
    pub(super) fn fill<'a>(&mut self, runs: impl Iterator<Item = (&'a [GroupNo], &'a Start, Slot, usize)>) {
        let mut members: Vec<Vec<(Start, Slot)>> = Vec::new();
        members.resize_with(self.groups.len(), Vec::new);
        for (numbers, start, slot, status) in runs {
            for &number in numbers {
                if let Some(members) = members.get_mut(at(number)) {
                    members.push((start.clone(), slot));
                }
                if let Some(group) = self.get_mut(number) {
                    group.count(status);
                }
            }
        }
        for (place, members) in self.groups.iter_mut().zip(members) {
            let Some(group) = place else { continue };
            if let Facet::Experiment(name) = &group.facet
                && !members.is_empty()
            {
                self.experiments.insert(Arc::clone(name));
            }
            group.runs = members.into_iter().collect();
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let none = self.groups.iter().all(Option::is_none);
        none && self.numbers.is_empty() && self.experiments.is_empty()
    }

    fn get_mut(&mut self, number: GroupNo) -> Option<&mut Group> {
        self.groups.get_mut(at(number))?.as_mut()
    }
}

impl Group {
    fn count(&mut self, status: usize) {
        if let Some(n) = self.counts.get_mut(status) {
            *n += 1;
        }
    }
}

/// In lower case; the same text if it is that already.
fn folded(name: &Arc<str>) -> Arc<str> {
    let lower = name.to_lowercase();
    if *lower == **name { Arc::clone(name) } else { lower.into() }
}

fn at(number: GroupNo) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
