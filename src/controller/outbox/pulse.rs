//! Heartbeats: beside the delivery, so that the lease is renewed and a stop is heard of however much there is to deliver.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::link::{FromHead, Link, limited};
use crate::{
    base::{Clock, RunId, Secret},
    model::{
        commands::{Heartbeat, HeartbeatAnswer},
        ledger::Demand,
    },
    state::StateClient,
};

pub(super) struct Pulse {
    pub(super) client: Arc<dyn StateClient>,
    pub(super) run: RunId,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) link: Arc<Link>,
}

impl Pulse {
    /// Beats from the registration on, and at once when the demand changed.
    pub(super) async fn run(self, every: Duration) {
        let mut token = self.link.token.subscribe();
        let token = match token.wait_for(Option::is_some).await {
            Ok(token) => token.clone(),
            Err(_) => None,
        };
        let Some(token) = token else { return };
        let mut demand = self.link.demand.subscribe();
        let mut beat = interval(every);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                Ok(()) = demand.changed() => beat.reset(),
            }
            self.beat(&token, &mut demand).await;
        }
    }

    async fn beat(&self, token: &Secret, demand: &mut watch::Receiver<Option<Demand>>) {
        let beat = Heartbeat {
            run_id: self.run.clone(),
            controller_token: token.clone(),
            time_ms: Some(self.clock.now()),
            progress: None,
            demand: demand.borrow_and_update().clone(),
        };
        match limited(self.client.heartbeat(beat)).await {
            Ok(HeartbeatAnswer {
                stop_requested,
                stop_reason,
                grace_period_ms,
                fits,
                pinned_checkpoints,
                problem,
                ..
            }) => {
                self.link.answered();
                let fenced = problem.as_deref() == Some("stale-controller");
                let stop = stop_requested.then_some((stop_reason, grace_period_ms));
                self.link.tell.send_if_modified(|told| {
                    // An answer to another demand than the present one says nothing. Looked at in here, where
                    // `Outbox::set_demand` cannot come between.
                    let outdated = demand.has_changed().unwrap_or(false);
                    let news = FromHead {
                        stop: stop.or_else(|| told.stop.clone()),
                        fenced: told.fenced || fenced,
                        pinned: pinned_checkpoints,
                        fits: if outdated { told.fits } else { fits },
                        ..told.clone()
                    };
                    let changed = *told != news;
                    *told = news;
                    changed
                });
            }
            Err(e) => self.link.trouble(&e.to_string()),
        }
    }
}
