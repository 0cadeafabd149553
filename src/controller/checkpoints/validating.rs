//! Validations beside training: first in, first out, a few at a time. What waits is in the ledger, so that it survives the
//! controller.

use std::sync::Arc;

use super::{Usable, desk::Inner};
use crate::{
    controller::validation::{Validated, Validation},
    model::CheckpointState,
};

impl Inner {
    /// Starts validations for as many as may be validated at a time.
    pub(super) fn start_validations(self: &Arc<Self>) {
        let Some(validation) = &self.options.validation else { return };
        let pending = self.ledger.lock().in_state(CheckpointState::Validating);
        let mut running = self.validating.lock();
        for number in pending {
            if running.len() >= validation.concurrency.max(1) || self.given_up.is_cancelled() {
                return;
            }
            if running.insert(number) {
                let (inner, validation) = (self.clone(), validation.clone());
                self.tasks.spawn(async move { inner.validate(&validation, number).await });
            }
        }
    }

    async fn validate(self: &Arc<Self>, validation: &Validation, number: u64) {
        let outcome = match self.to_validate(number).await {
            Ok(usable) => validation.run(&usable, &self.given_up).await,
            Err(e) if self.given_up.is_cancelled() => {
                tracing::info!("checkpoint {number} is not validated now: {e}");
                Validated::Stopped
            }
            Err(e) => Validated::Failed(e),
        };
        let (state, detail) = match outcome {
            Validated::Metrics(metrics) => {
                self.ledger.lock().measured(number, metrics);
                (CheckpointState::Validated, None)
            }
            Validated::Failed(why) => {
                (CheckpointState::ValidationFailed, Some(format!("its validation failed: {why}")))
            }
            Validated::TimedOut => {
                let limit = validation.timeout.as_secs_f64();
                let why = format!("its validation took longer than {limit} s");
                (CheckpointState::ValidationTimeout, Some(why))
            }
            // It stays in the ledger as one that waits; the next controller takes it up.
            Validated::Stopped => return,
        };
        if let Some(why) = &detail {
            tracing::warn!("checkpoint {number}: {why}");
        }
        self.drop_cached(number).await;
        self.change(number, state, detail);
        self.validating.lock().remove(&number);
        self.want_tidy();
        self.start_validations();
        self.has_changed();
    }

    /// The checkpoint as a directory on this node.
    async fn to_validate(&self, number: u64) -> Result<Usable, String> {
        let place = self.place()?;
        match self.bring(&place, number).await? {
            Ok(dir) => self.usable(number, Some(dir)).ok_or_else(|| "it is not there any more".to_owned()),
            Err(bad) => Err(self.mark(number, &bad).unwrap_or_else(|| "it is not whole".to_owned())),
        }
    }
}
