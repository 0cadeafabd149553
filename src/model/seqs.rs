//! Which of a writer's batches are stored: what makes a report that is sent again harmless.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::base::Invalid;

/// Which of a writer's batches are in: all up to a number, and some beyond it that overtook others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeqSet {
    upto: u64,
    beyond: BTreeSet<u64>,
}

/// How far a batch may run ahead of one that is missing: a writer that skips more is not counting.
const SEQ_WINDOW: u64 = 65_536;

impl SeqSet {
    /// Adds a number; whether it is new.
    ///
    /// # Errors
    /// 0 is not a count, and a number far beyond a missing one shows that the writer does not count.
    pub fn insert(&mut self, seq: u64) -> Result<bool, Invalid> {
        if seq == 0 || seq.saturating_sub(self.upto) > SEQ_WINDOW {
            return Err(Invalid::rule(
                "seq",
                format!("batches are counted from 1; up to {} are in", self.upto),
            ));
        }
        if seq <= self.upto || !self.beyond.insert(seq) {
            return Ok(false);
        }
        while self.beyond.remove(&(self.upto + 1)) {
            self.upto += 1;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_new_once_in_whatever_order_batches_come() {
        let mut set = SeqSet::default();
        let fresh: Vec<bool> = [2, 1, 2, 4, 3, 1, 4].into_iter().map(|n| set.insert(n).unwrap()).collect();
        assert_eq!(fresh, [true, true, false, true, true, false, false]);
        assert_eq!(set, SeqSet { upto: 4, beyond: BTreeSet::new() });
        assert!(set.insert(0).is_err() && set.insert(1 << 40).is_err());
    }
}
