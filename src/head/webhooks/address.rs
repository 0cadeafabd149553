//! Where a webhook goes. An address may be a secret as a whole (chat services put a token in its path), so only its host
//! is ever shown.

use std::{fmt, str::FromStr};

use reqwest::Url;

use super::WebhookError;

/// The address of a webhook. It does not print itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WebhookUrl {
    url: Url,
    host: String,
}

impl WebhookUrl {
    /// The whole address, for the one place that uses it.
    pub(super) fn expose(&self) -> &str {
        self.url.as_str()
    }

    /// Host and port, for people.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// What its place in the trail is kept under.
    pub(super) fn name(&self) -> String {
        blake3::hash(self.url.as_str().as_bytes()).to_hex().chars().take(16).collect()
    }
}

impl FromStr for WebhookUrl {
    type Err = WebhookError;

    fn from_str(text: &str) -> Result<Self, WebhookError> {
        let url = Url::parse(text).map_err(|_| WebhookError::Address)?;
        let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or(WebhookError::Address)?;
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Self { url, host })
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookUrl({}/…)", self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_shows_the_host_only() {
        let url: WebhookUrl =
            "https://me:pw@hooks.example.com:8443/services/T0/B0?key=s3cret".parse().unwrap();
        assert_eq!(url.host(), "hooks.example.com:8443");
        assert_eq!(format!("{url:?}"), "WebhookUrl(hooks.example.com:8443/…)");
        assert_eq!(url.name().len(), 16);
        assert_ne!(url.name(), "https://hooks.example.com".parse::<WebhookUrl>().unwrap().name());
        for bad in ["", "example.com/hook", "ftp://example.com", "http://", "file:///etc/passwd", "https:"] {
            assert!(bad.parse::<WebhookUrl>().is_err(), "{bad}");
        }
    }
}
