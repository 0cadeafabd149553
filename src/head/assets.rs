//! The dashboard's files: from the binary, or from disk while working on them.

use std::path::{Component, Path, PathBuf};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use rust_embed::RustEmbed;
use sha2::{Digest, Sha256};
use tower_http::compression::CompressionLayer;

use super::{problem::Problem, router::Head};

#[derive(RustEmbed)]
#[folder = "static/"]
struct Embedded;

/// Where the dashboard's files come from.
#[derive(Clone, Debug, Default)]
pub enum Assets {
    /// The binary.
    #[default]
    Embedded,
    /// A directory, for working on them.
    Directory(PathBuf),
}

impl Assets {
    fn read(&self, path: &str) -> Option<Bytes> {
        match self {
            Self::Embedded => Embedded::get(path).map(|file| match file.data {
                std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
            }),
            Self::Directory(root) => {
                let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
                plain.then(|| std::fs::read(root.join(path)).ok()).flatten().map(Bytes::from)
            }
        }
    }
}

/// The pages of the dashboard and their files, compressed: a phone on a hotel's network looks at runs too.
pub(super) fn pages() -> Router<Head> {
    Router::new()
        .route("/", get(index))
        .route("/runs/{run_id}", get(index))
        .route("/compare", get(index))
        .route("/experiments", get(index))
        .route("/nodes", get(index))
        .route("/static/{*path}", get(file))
        .layer(CompressionLayer::new())
}

/// The dashboard's own page for an address that there is nothing at, for browsers.
pub(super) async fn not_found(head: State<Head>) -> Result<Response, Problem> {
    let mut page = index(head).await?;
    *page.status_mut() = StatusCode::NOT_FOUND;
    Ok(page)
}

async fn index(State(head): State<Head>) -> Result<Response, Problem> {
    let Some(page) = head.assets.read("index.html") else {
        return Err(Problem::internal("the dashboard's index.html is missing"));
    };
    let base = format!("<base href=\"{}\"", head.base_path);
    let page = String::from_utf8_lossy(&page).replace("<base href=\"/\"", &base);
    let policy = content_security_policy(&page);
    let mut response = Response::new(Body::from(page));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

async fn file(State(head): State<Head>, headers: HeaderMap, uri: Uri) -> Response {
    let path = uri.path().trim_start_matches("/static/");
    let Some(bytes) = head.assets.read(path) else { return Problem::no_route(uri.path()).into_response() };
    let kind = match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("png") => "image/png",
        Some("html") => "text/html; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    // Unchanged files are not sent again: the tag is their content.
    let tag = format!("\"{}\"", blake3::hash(&bytes).to_hex().get(..16).unwrap_or_default());
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let headers =
        [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache"), (header::ETAG, tag.as_str())];
    if known { (StatusCode::NOT_MODIFIED, headers).into_response() } else { (headers, bytes).into_response() }
}

/// Nothing but our own files, and the one inline script that cannot be a file: the import map, by its hash.
fn content_security_policy(page: &str) -> String {
    let script = page
        .split_once("<script type=\"importmap\">")
        .and_then(|(_, rest)| rest.split_once("</script>"))
        .map(|(map, _)| format!(" 'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(map))))
        .unwrap_or_default();
    format!(
        "default-src 'self'; script-src 'self'{script}; img-src 'self' data:; frame-ancestors 'none'; base-uri 'self'"
    )
}
