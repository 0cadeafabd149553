//! Durations and sizes as people write them on a command line: `30d`, `12h`, `500MB`, `50GiB`.

use std::time::Duration;

use bytesize::ByteSize;
use jiff::{Span, SpanRelativeTo};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) u64);

/// A duration: `30d`, `12h`, `90s`, `2w`, `1h30m`. A day has 24 hours.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "a number with its unit, such as 30d, 12h, 90s or 2w".to_owned();
    let span: Span = text.trim().parse().map_err(|_| wrong())?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}

/// A size: `500MB` (10^6), `50GiB` (2^30), or plain bytes.
pub(super) fn bytes(text: &str) -> Result<Bytes, String> {
    let size: ByteSize =
        text.trim().parse().map_err(|_| "a number of bytes, such as 500MB, 50GiB or 1000000".to_owned())?;
    Ok(Bytes(size.as_u64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        const HOUR: u64 = 3600;
        for (text, seconds) in [
            ("90s", 90),
            ("15m", 900),
            ("12h", 12 * HOUR),
            ("1h30m", HOUR + 1800),
            ("30d", 720 * HOUR),
            ("2w", 336 * HOUR),
            ("1 day", 24 * HOUR),
            ("0s", 0),
            (" 7d ", 168 * HOUR),
        ] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text:?}");
        }
        for text in ["", "30", "d", "-1d", "1d ago", "1 mo", "1y", "30x", "1e9d", "99999999999999d"] {
            assert!(age(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_may_have_a_unit() {
        for (text, size) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("500MB", 500_000_000),
            ("50GiB", 50 << 30),
            ("1.5 KiB", 1536),
            ("2tib", 2 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(bytes(text), Ok(Bytes(size)), "{text:?}");
        }
        for text in ["", "GiB", "-1", "5 apples", "1..5GB", "1e9"] {
            assert!(bytes(text).is_err(), "{text:?}");
        }
    }
}
