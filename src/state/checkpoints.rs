//! The ledger of a run's checkpoints, as it is shown.

use super::{StateError, StateHandle};
use crate::{
    base::RunId,
    model::{
        Refusal,
        checkpoint::{CheckpointView, Retention},
    },
};

impl StateHandle {
    /// All checkpoints of a run, newest first, with how they stand to each other.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn checkpoints(&self, run: &RunId) -> Result<Vec<CheckpointView>, StateError> {
        let found = self.shared.reader.checkpoints(run).await?;
        let (settings, all) = found.ok_or_else(|| Refusal::RunNotFound(run.clone()))?;
        let ranking = Retention::of_settings(&settings).rank(all.values());
        Ok(all.into_values().rev().map(|checkpoint| ranking.show(checkpoint)).collect())
    }
}
