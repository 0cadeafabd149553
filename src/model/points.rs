//! Points on their way into the store: tables with a row a step and a column a key.

use std::sync::Arc;

use crate::base::Timestamp;

/// Points of some keys at common steps. Rows stand as they were reported: a step may stand twice, the later row counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Step of each row.
    pub step: Vec<i64>,
    /// Time of each row.
    pub time: Vec<Timestamp>,
    /// Values by key; each key stands once.
    pub columns: Vec<Column>,
}

/// The values of one key, one a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Key.
    pub key: Arc<str>,
    /// Values.
    pub values: Vec<f64>,
}

impl Block {
    /// How many points it holds.
    #[must_use]
    pub fn points(&self) -> usize {
        self.step.len() * self.columns.len()
    }

    /// The rows from one on.
    #[must_use]
    pub fn rows_from(&self, row: usize) -> Self {
        let columns = self.columns.iter().map(|c| Column {
            key: Arc::clone(&c.key),
            values: c.values.get(row..).unwrap_or_default().to_vec(),
        });
        Self {
            step: self.step.get(row..).unwrap_or_default().to_vec(),
            time: self.time.get(row..).unwrap_or_default().to_vec(),
            columns: columns.collect(),
        }
    }

    /// Puts the columns in the order of their keys; of columns of one key the last counts.
    pub fn sort(&mut self) {
        let ascends = self.columns.is_sorted_by(|a, b| a.key < b.key);
        if !ascends {
            self.columns.sort_by(|a, b| a.key.cmp(&b.key));
            self.columns.reverse();
            self.columns.dedup_by(|a, b| a.key == b.key);
            self.columns.reverse();
        }
    }

    /// Appends another block's rows if it has the same keys in the same order; else gives it back.
    ///
    /// # Errors
    /// The other block.
    pub fn append(&mut self, mut other: Self) -> Result<(), Self> {
        let same = self.columns.len() == other.columns.len()
            && self.columns.iter().zip(&other.columns).all(|(a, b)| a.key == b.key);
        if !same {
            return Err(other);
        }
        self.step.append(&mut other.step);
        self.time.append(&mut other.time);
        for (mine, theirs) in self.columns.iter_mut().zip(&mut other.columns) {
            mine.values.append(&mut theirs.values);
        }
        Ok(())
    }
}

/// The points of some blocks.
#[must_use]
pub fn count(blocks: &[Block]) -> usize {
    blocks.iter().map(Block::points).sum()
}
