//! What stands before every route: the request's id, the names under which the head may be called, headers that keep
//! browsers from being used against it, and the access log.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tracing::{debug, warn};

use super::{packing, problem::Problem, router::Head};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Room for the headers of an answer, those that the guard adds with them.
pub(super) const HEADERS: usize = 14;
/// A request that took longer is worth a line in the log. Streams answer at once and are not meant.
const SLOW_MS: u128 = 1000;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The host names under which the head may be called: a browser that was sent here under another name (DNS rebinding)
/// is refused.
#[derive(Clone, Debug)]
pub struct AllowedHosts(Arc<BTreeSet<String>>);

impl AllowedHosts {
    /// The names of the loopback interface, and `more`.
    pub fn loopback_and(more: impl IntoIterator<Item = String>) -> Self {
        let names = LOOPBACK.into_iter().map(str::to_owned).chain(more);
        Self(Arc::new(names.map(|n| plain_host(&n)).collect()))
    }

    /// Whether an authority names a host that was allowed by the user, which loopback names are not: another page on
    /// this machine is not ours.
    fn allows_named(&self, authority: &str) -> bool {
        self.allows(authority)
            && authority.parse::<Authority>().is_ok_and(|a| !LOOPBACK.contains(&&*plain_host(a.host())))
    }

    /// Whether an authority, `Host:PORT`, names an allowed host.
    fn allows(&self, authority: &str) -> bool {
        authority.parse::<Authority>().is_ok_and(|a| self.0.contains(&plain_host(a.host())))
    }
}

/// A host as it is compared: lower case, no brackets, no trailing dot.
fn plain_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

/// Runs before and after every request.
pub(super) async fn guard(State(head): State<Head>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let takes_gzip = packing::is_wanted(request.headers());
    let mut response = match refuse(&head.hosts, &method, request.headers(), request.uri().host()) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        // A HEAD answer keeps its empty body; everything else is told the id that stands in the log.
        response = problem.with_request_id(id.clone()).into_response();
    }
    if takes_gzip {
        response = packing::pack(response).await;
    }
    let took = begun.elapsed();
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    head.figures.count(method_name(&method), route, response.status(), took);
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    secure(headers, &path);
    let (status, ms) = (response.status().as_u16(), took.as_millis());
    debug!(http.method = %method, http.path = path, http.status = status, duration_ms = ms, request.id = id, "{method} {path} {status}");
    if ms >= SLOW_MS {
        warn!(
            http.path = path,
            duration_ms = ms,
            request.id = id,
            "slow request: {method} {path} took {ms} ms"
        );
    }
    response
}

/// The method as it is counted: anybody can make one up.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|v| v.to_str().ok());
    let plain = |id: &&str| id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    given.filter(plain).map_or_else(own_id, str::to_owned)
}

/// An id that no other request has, of this process or of another: no secret, so that one draw of randomness does for all.
fn own_id() -> String {
    static PROCESS: LazyLock<String> = LazyLock::new(|| uuid::Uuid::now_v7().simple().to_string());
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{}-{}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed))
}

fn refuse(
    hosts: &AllowedHosts,
    method: &Method,
    headers: &HeaderMap,
    uri_host: Option<&str>,
) -> Option<Problem> {
    let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    // HTTP/2 has the host in its URI instead of the header.
    let host = text(header::HOST).or(uri_host).unwrap_or_default();
    if !hosts.allows(host) {
        return Some(Problem::forbidden(format!(
            "this head is not called {host:?}; use its address, or allow the name with --allow-host (TRAINHEAD_ALLOW_HOST)"
        )));
    }
    let writes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    match text(header::ORIGIN) {
        Some(origin) if writes && !ours(origin, host, hosts) => Some(Problem::forbidden(format!(
            "pages of {origin:?} may not write here; open the dashboard under this head's own address, \
             or allow the name with --allow-host (TRAINHEAD_ALLOW_HOST)"
        ))),
        _ => None,
    }
}

/// Whether an origin is the page's own head: the same host and port, or a name that was allowed (a proxy's).
fn ours(origin: &str, host: &str, hosts: &AllowedHosts) -> bool {
    origin
        .split_once("://")
        .is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host) || hosts.allows_named(authority))
}

fn secure(headers: &mut HeaderMap, path: &str) {
    let mut default = |name, value| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    default(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    default(header::REFERRER_POLICY, "same-origin");
    default(header::X_FRAME_OPTIONS, "DENY");
    if path.starts_with("/docs") {
        // The API page sets styles on its elements.
        default(
            header::CONTENT_SECURITY_POLICY,
            "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
        );
    } else {
        default(header::CONTENT_SECURITY_POLICY, "default-src 'self'; frame-ancestors 'none'");
    }
    if path.starts_with("/api/") {
        default(header::CACHE_CONTROL, "no-store");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_answered_to() {
        let hosts = AllowedHosts::loopback_and(["Train.Example.com".to_owned()]);
        for good in ["localhost:8420", "LOCALHOST", "127.0.0.1:1", "[::1]:8420", "train.example.com.:80"] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in ["", "evil.com", "localhost.evil.com", "127.0.0.1.evil.com:8420", "evil.com:localhost"] {
            assert!(!hosts.allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_foreign_page_may_read_nothing_and_write_nothing() {
        let hosts = AllowedHosts::loopback_and([]);
        let refused = |method: Method, host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            refuse(&hosts, &method, &headers, None).is_some()
        };
        assert!(!refused(Method::POST, "localhost:8420", None));
        assert!(!refused(Method::POST, "localhost:8420", Some("http://localhost:8420")));
        assert!(refused(Method::POST, "localhost:8420", Some("http://evil.com")));
        assert!(refused(Method::POST, "localhost:8420", Some("http://localhost:9999")));
        assert!(refused(Method::POST, "localhost:8420", Some("null")));
        assert!(refused(Method::GET, "evil.com", None));
    }
}
