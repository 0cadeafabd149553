//! Conversions between number types that say what happens at the edge, in place of `as`; sizes in words.

use std::time::Duration;

use bytesize::ByteSize;

/// Whole milliseconds of a duration; longer than 292 million years becomes the largest number.
#[must_use]
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The duration of a number of milliseconds; a negative one is zero.
#[must_use]
pub fn from_millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// A length or count as the signed 64-bit integer that JSON and SQLite carry.
#[must_use]
pub fn count(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// A length or count as an unsigned 64-bit integer.
#[must_use]
pub fn size(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A number of bytes for people: `512 MiB`, `1.5 GiB`.
#[must_use]
pub fn bytes_in_words(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string().replace(".0 ", " ")
}

/// A count as a float, exact up to 2^53.
#[must_use]
#[expect(clippy::as_conversions, reason = "std has no other conversion; rounding above 2^53 is wanted")]
pub fn float(n: i64) -> f64 {
    n as f64
}

/// The integer part of a float that is known to be small and not negative; anything else saturates.
#[must_use]
#[expect(clippy::as_conversions, reason = "a float-to-int cast saturates, which is what is wanted")]
pub fn whole(x: f64) -> usize {
    x as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_told_in_a_unit_that_fits() {
        for (bytes, text) in [(0, "0 B"), (512 << 20, "512 MiB"), (3 << 29, "1.5 GiB"), (10_000, "9.8 KiB")] {
            assert_eq!(bytes_in_words(bytes), text);
        }
    }
}
