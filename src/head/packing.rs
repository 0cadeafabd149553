//! JSON answers, compressed for clients that take it: a list of runs shrinks to a tenth, and a phone on a hotel's network
//! looks at runs too. Who does not ask for it, as most programs on the same host, pays nothing. Streams pass unchanged.

use std::io::Write;

use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use flate2::{Compression, write::GzEncoder};

/// Less is not worth the bytes that it costs to say so.
const LEAST: u64 = 2 * 1024;
/// A longer body takes more than a millisecond or two, which those who wait for the same thread would notice.
const AT_ONCE: usize = 128 * 1024;

/// Whether a client takes gzip.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    codings.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|q| q.trim().parse().ok()).unwrap_or(1.0_f32);
        name.trim().eq_ignore_ascii_case("gzip") && weight > 0.0
    })
}

/// The answer, compressed if it is JSON that lies ready and is worth it.
pub(super) async fn pack(response: Response) -> Response {
    if !is_worth_it(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A body whose size is known lies ready, or breaks off: then so does the answer.
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let packed = if plain.len() <= AT_ONCE {
        gzip(&plain)
    } else {
        let plain = plain.clone();
        tokio::task::spawn_blocking(move || gzip(&plain)).await.unwrap_or_default()
    };
    let Some(packed) = packed else { return Response::from_parts(parts, Body::from(plain)) };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(packed))
}

fn is_worth_it(response: &Response) -> bool {
    let headers = response.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.starts_with("application/json")
        && !headers.contains_key(header::CONTENT_ENCODING)
        && response.body().size_hint().exact().is_some_and(|size| size >= LEAST)
}

fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder.write_all(plain).ok()?;
    Some(encoder.finish().ok()?.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn accepts(value: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
        is_wanted(&headers)
    }

    #[test]
    fn gzip_is_sent_to_who_names_it() {
        for yes in ["gzip", "deflate, GZIP;q=0.5", "gzip, deflate, br, zstd", "br , gzip ; q=1"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "identity", "br", "gzip;q=0", "gzip; q=0.0, br", "xgzip"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn only_json_that_is_worth_it_is_compressed() {
        let answer = |kind: &'static str, size: usize| {
            let mut response = Response::new(Body::from(vec![b'7'; size]));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        };
        for (kind, size) in
            [("application/json", 100), ("text/plain", 100_000), ("application/octet-stream", 100_000)]
        {
            let same = pack(answer(kind, size)).await;
            assert!(!same.headers().contains_key(header::CONTENT_ENCODING));
            assert_eq!(to_bytes(same.into_body(), usize::MAX).await.unwrap().len(), size);
        }
        for size in [4096, AT_ONCE + 1] {
            let packed = pack(answer("application/json", size)).await;
            assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
            let bytes = to_bytes(packed.into_body(), usize::MAX).await.unwrap();
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
            assert_eq!(plain, vec![b'7'; size]);
        }
    }
}
