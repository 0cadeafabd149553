//! Bodies that are sent often or are large: JSON or MessagePack, compressed or not.

use std::io::Read;

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;

use super::{
    extract::{complaint, is_type, read_json, whole_body},
    problem::Problem,
};
use crate::base::{Invalid, limits, number};

/// A longer body takes more than a millisecond, which those who wait for the same thread would notice.
const AT_ONCE: usize = 128 * 1024;
/// zstd may ask for a window of up to 2 GiB; more than a body's own length is never needed.
const ZSTD_WINDOW_LOG: u32 = limits::BODY_BYTES.ilog2();

/// A body as JSON or MessagePack, compressed or not.
pub(super) struct ApiPacked<T>(pub(super) T);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for ApiPacked<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let format = Format::of(request.headers())?;
        let coding = Coding::of(request.headers())?;
        let body = whole_body(request).await?;
        if coding == Coding::Plain && body.len() <= AT_ONCE {
            return format.read(&body).map(Self);
        }
        let read = move || format.read(&coding.unpack(body)?).map(Self);
        tokio::task::spawn_blocking(read).await.unwrap_or_else(|e| Err(Problem::internal(&e.to_string())))
    }
}

#[derive(Clone, Copy)]
enum Format {
    Json,
    MessagePack,
}

impl Format {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        match () {
            () if is_type(headers, "application/json") => Ok(Self::Json),
            () if is_type(headers, "application/msgpack") => Ok(Self::MessagePack),
            () => Err(Problem::wrong_type("application/json or application/msgpack")),
        }
    }

    fn read<T: DeserializeOwned>(self, body: &[u8]) -> Result<T, Problem> {
        match self {
            Self::Json => read_json(body),
            Self::MessagePack => read_msgpack(body),
        }
    }
}

/// As [`read_json`].
fn read_msgpack<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut rest = rmp_serde::Deserializer::new(body);
    let value = if let Ok(value) = T::deserialize(&mut rest) {
        value
    } else {
        rest = rmp_serde::Deserializer::new(body);
        serde_path_to_error::deserialize(&mut rest).map_err(|e| {
            let path = e.path().to_string();
            let inner = e.into_inner();
            complaint(path, inner.to_string(), !matches!(inner, rmp_serde::decode::Error::Syntax(_)))
        })?
    };
    if !rest.get_ref().is_empty() {
        return Err(Invalid::malformed("", "something follows behind the end of the message").into());
    }
    Ok(value)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    Plain,
    Gzip,
    Zstd,
}

impl Coding {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut given = headers.get_all(header::CONTENT_ENCODING).iter();
        let (Some(coding), more) = (given.next(), given.next()) else { return Ok(Self::Plain) };
        let coding = coding.to_str().unwrap_or("?").trim();
        match coding {
            _ if more.is_some() => Err(Problem::wrong_encoding("more than one")),
            _ if coding.eq_ignore_ascii_case("identity") => Ok(Self::Plain),
            _ if coding.eq_ignore_ascii_case("gzip") => Ok(Self::Gzip),
            _ if coding.eq_ignore_ascii_case("zstd") => Ok(Self::Zstd),
            _ => Err(Problem::wrong_encoding(coding)),
        }
    }

    /// The body as it was before it was compressed, with its limit.
    fn unpack(self, body: Bytes) -> Result<Bytes, Problem> {
        let mut out = Vec::new();
        // One more tells a body that is too long from one that just fits.
        let limit = number::size(limits::BODY_BYTES + 1);
        let read = match self {
            Self::Plain => return Ok(body),
            Self::Gzip => MultiGzDecoder::new(&*body).take(limit).read_to_end(&mut out),
            Self::Zstd => zstd::Decoder::with_buffer(&*body)
                .and_then(|mut decoder| decoder.window_log_max(ZSTD_WINDOW_LOG).map(|()| decoder))
                .and_then(|decoder| decoder.take(limit).read_to_end(&mut out)),
        };
        if out.len() > limits::BODY_BYTES {
            return Err(Problem::too_large(limits::BODY_BYTES));
        }
        match read {
            Ok(_) => Ok(out.into()),
            Err(e) => Err(Invalid::malformed("", format!("the body cannot be decompressed: {e}")).into()),
        }
    }
}
