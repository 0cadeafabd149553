//! Webhooks: tell other programs of what happens to runs. The trail is the queue, and each hook has its own place in it,
//! which is kept; so an event is delivered at least once, in order, also over a restart, and never before its commit.
//!
//! The body of a request is `{"id", "type", "time_ms", "event", "run", "server"}`: the event as the trail shows it and its
//! run as it is listed now. Requests are signed by the Standard Webhooks specification.

mod address;
mod deliverer;
mod marks;
mod message;
mod signing;
mod verdict;
mod wire;

use std::time::Duration;

use tracing::{info, warn};

pub use address::WebhookUrl;
pub use signing::SigningSecret;
pub use wire::Wire;

use self::deliverer::Deliverer;
use crate::{
    base::Tasks,
    model::EventKind,
    state::{StateError, StateHandle},
};

/// Which webhooks there are.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// Where to deliver.
    pub urls: Vec<WebhookUrl>,
    /// What to sign with; unsigned without.
    pub secret: Option<SigningSecret>,
    /// Which events.
    pub kinds: Vec<EventKind>,
    /// How long an event is tried before it is given up.
    pub give_up: Duration,
    /// This head's address, for the receiver.
    pub server: Option<String>,
}

/// Why webhooks cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address is none.
    #[error("a webhook's address begins with http:// or https:// and names a host")]
    Address,
    /// The secret is none.
    #[error("a webhook's secret is base64, with whsec_ before it or without, as in whsec_MfKQ9r8GKYqrTwjU")]
    Secret,
    /// There is no HTTP client, for example because the system has no certificates.
    #[error("webhooks to {host} cannot be sent: {why}")]
    Client {
        /// Host of the address.
        host: String,
        /// What is missing.
        why: String,
    },
    /// The store failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Takes every webhook's place in the trail and starts to deliver. A task of `tasks` for each; told to stop, it delivers
/// what waits, for a few seconds at the most.
///
/// # Errors
/// When the store cannot be used, or there is no HTTP client.
pub async fn start(state: &StateHandle, options: WebhookOptions, tasks: &Tasks) -> Result<(), WebhookError> {
    let WebhookOptions { urls, secret, kinds, give_up, server } = options;
    for url in urls {
        let (host, name) = (url.host().to_owned(), url.name());
        let wire = Wire::new(url, secret.clone())?;
        let place = state.open_webhook(&name, &host).await?;
        if !wire.is_signed() {
            warn!("webhook {host}: events are not signed; say --webhook-secret");
        }
        info!("webhook {host}: events after {} are delivered", place.last_event_id);
        let deliverer = Deliverer::new(
            state.clone(),
            wire,
            place,
            deliverer::Target { kinds: kinds.clone(), give_up, server: server.clone() },
        );
        drop(tasks.spawn(deliverer.run(tasks.stopping())));
    }
    Ok(())
}
