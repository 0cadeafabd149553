//! One request to a receiver: signed by the Standard Webhooks specification, with a limit, and judged by its answer.

use std::time::{Duration, Instant};

use reqwest::{Client, Response, header};
use tokio::time::sleep;

use super::{
    WebhookError,
    address::WebhookUrl,
    signing::SigningSecret,
    verdict::{Outcome, Verdict, judge},
};
use crate::base::{Timestamp, error::chain, masking::mask_text};

/// No request lasts longer.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Of an answer's body so much is read, so that its connection can be used again, and so much shown.
const READ_BYTES: usize = 16 * 1024;
const SHOWN_CHARS: usize = 200;

/// The way to one receiver.
#[derive(Clone, Debug)]
pub struct Wire {
    http: Client,
    url: WebhookUrl,
    secret: Option<SigningSecret>,
}

impl Wire {
    /// The way to the receiver at `url`; unsigned without a secret.
    ///
    /// # Errors
    /// When there is no HTTP client, for example because the system has no certificates.
    pub fn new(url: WebhookUrl, secret: Option<SigningSecret>) -> Result<Self, WebhookError> {
        let http = crate::base::http::client(url.expose(), REQUEST_LIMIT)
            // Whoever moved says so to the people who configured it, not to us with a signature of theirs.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|e| WebhookError::Client { host: url.host().to_owned(), why: chain(&e) })?;
        Ok(Self { http, url, secret })
    }

    /// Host of the receiver: what may be shown of its address.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host()
    }

    /// Whether requests are signed.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.secret.is_some()
    }

    /// Delivers a message, however often it takes within `give_up`; `id` is the same each time.
    ///
    /// # Errors
    /// Why it was given up.
    pub async fn deliver(
        &self,
        id: &str,
        body: &str,
        now: impl Fn() -> Timestamp + Send + Sync,
        give_up: Duration,
    ) -> Result<(), String> {
        let since = Instant::now();
        let mut attempt = 0;
        loop {
            let outcome = self.post(id, body, now()).await;
            match judge(&outcome, attempt, since.elapsed(), give_up, jitter()) {
                Verdict::Delivered => return Ok(()),
                Verdict::GiveUp(why) => return Err(why),
                Verdict::Again(wait, _) => sleep(wait).await,
            }
            attempt += 1;
        }
    }

    /// Sends a message once.
    pub(super) async fn post(&self, id: &str, body: &str, now: Timestamp) -> Outcome {
        // The specification counts in seconds.
        let timestamp = (now.as_ms() / 1000).to_string();
        let mut request = self
            .http
            .post(self.url.expose())
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", &timestamp);
        if let Some(secret) = &self.secret {
            request = request.header("webhook-signature", secret.sign(id, &timestamp, body));
        }
        match request.body(body.to_owned()).send().await {
            Ok(response) => answered(response).await,
            // The address may be a secret.
            Err(e) => Outcome::Failed(chain(&e.without_url())),
        }
    }
}

async fn answered(mut response: Response) -> Outcome {
    let status = response.status();
    let seconds = response.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
    let mut body = Vec::new();
    // A body that breaks off or takes too long does not matter.
    while body.len() < READ_BYTES
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk);
    }
    let said = if status.is_success() { String::new() } else { shown(&body) };
    Outcome::Answered { status: status.as_u16(), retry_after: seconds.map(Duration::from_secs), said }
}

/// The beginning of what a receiver said, on one line and without secrets.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..READ_BYTES).unwrap_or(body));
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    mask_text(&line).chars().take(SHOWN_CHARS).collect()
}

/// 0 to 1.
pub(super) fn jitter() -> f64 {
    getrandom::u32().map_or(0.5, |n| f64::from(n) / f64::from(u32::MAX))
}
