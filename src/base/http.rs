//! HTTP clients: one way to make them, with TLS where the address asks for it.

use std::time::Duration;

use reqwest::ClientBuilder;

/// A client for the address `url`, none of whose requests lasts longer than `limit`. An address without TLS needs no
/// certificates, which a slim container may not have and which take time to read.
pub fn client(url: &str, limit: Duration) -> ClientBuilder {
    // Whoever was first has installed the same one, or one of their own choice.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = ClientBuilder::new()
        .timeout(limit)
        .tcp_nodelay(true)
        .user_agent(concat!("trainhead/", env!("CARGO_PKG_VERSION")));
    let tls = url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    if tls { builder } else { builder.tls_certs_only([]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_be_made_with_and_without_tls() {
        for url in ["http://127.0.0.1:1", "HTTPS://example.com"] {
            client(url, Duration::from_secs(1)).build().unwrap();
        }
    }
}
