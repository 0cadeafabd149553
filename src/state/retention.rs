//! Clearing away: the plan is made by `model::retention`, here it is carried out.

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use utoipa::ToSchema;

use super::{StateError, StateHandle, blocking::blocking};
use crate::{
    base::RunId,
    model::retention::{CollectGarbage, Plan, plan},
};

/// Runs that one request clears away at the most; whoever asked asks again.
const AT_ONCE: usize = 1_000;
/// Runs that are thrown away or deleted together.
const CHUNK: usize = 100;

/// What was cleared away, or would be.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Cleared {
    /// Runs that went to the trash.
    pub trashed: Vec<RunId>,
    /// Runs that were deleted for good.
    pub purged: Vec<RunId>,
    /// Size of the logs and checkpoints that were deleted.
    pub freed_bytes: u64,
    /// Runs that the rules name and this request left for the next one.
    pub remaining: usize,
    /// Whether this only says what would be done.
    pub dry_run: bool,
}

impl StateHandle {
    /// Puts into the trash and deletes what the rules name, a bounded number of runs at a time.
    ///
    /// # Errors
    /// When no rule is given, or the store cannot be written.
    pub async fn collect_garbage(&self, rule: CollectGarbage) -> Result<Cleared, StateError> {
        rule.check()?;
        self.reconcile().await?;
        let mut runs = self.shared.reader.ended_runs().await?;
        if rule.needs_sizes() {
            let data_dir = self.data_dir().clone();
            runs = blocking(move || {
                for run in &mut runs {
                    run.size_bytes = data_dir.run_size(&run.id);
                }
                runs
            })
            .await?;
        }
        let Plan { mut trash, mut purge } = plan(&rule, runs, self.now());
        let remaining = trash.len().saturating_sub(AT_ONCE) + purge.len().saturating_sub(AT_ONCE);
        trash.truncate(AT_ONCE);
        purge.truncate(AT_ONCE);
        let mut cleared = Cleared { remaining, dry_run: rule.dry_run, ..Cleared::default() };
        if rule.dry_run {
            cleared.freed_bytes = self.sizes(purge.clone()).await?;
            return Ok(Cleared { trashed: trash, purged: purge, ..cleared });
        }
        for chunk in trash.chunks(CHUNK) {
            let done = join_all(chunk.iter().map(|run| self.trash(run))).await;
            for (run, result) in chunk.iter().zip(done) {
                match result {
                    Ok(_) => cleared.trashed.push(run.clone()),
                    // It came back, or somebody else was quicker: nothing to clear away.
                    Err(StateError::Refused(_)) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        for chunk in purge.chunks(CHUNK) {
            let (state, runs, runtime) = (self.clone(), chunk.to_vec(), Handle::current());
            // In one piece that goes on when the caller leaves, or files would stay that no record knows of.
            let (gone, freed) = blocking(move || {
                // The records first: a run that somebody restores just now keeps its files.
                let gone = runtime.block_on(state.purge(runs))?;
                let freed = gone.iter().map(|run| state.data_dir().remove_run(run)).sum::<u64>();
                Ok::<_, StateError>((gone, freed))
            })
            .await??;
            cleared.freed_bytes += freed;
            cleared.purged.extend(gone);
        }
        Ok(cleared)
    }

    async fn sizes(&self, runs: Vec<RunId>) -> Result<u64, StateError> {
        let data_dir = self.data_dir().clone();
        blocking(move || runs.iter().map(|run| data_dir.run_size(run)).sum()).await
    }
}
