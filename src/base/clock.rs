//! Time as the server knows it: a wall clock for what is shown, a monotonic one for what is decided.

use std::{
    fmt,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::number::{from_millis, millis};

/// A point in time: UNIX milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time `ms` milliseconds after the UNIX epoch.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the UNIX epoch.
    #[must_use]
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// The time `by` later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(millis(by)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The time of day in UTC, `12:00:03`, for sentences that people read.
    #[must_use]
    pub fn time_of_day(self) -> String {
        jiff::Timestamp::from_millisecond(self.0)
            .map_or_else(|_| self.0.to_string(), |t| t.strftime("%H:%M:%S UTC").to_string())
    }

    /// The time in UTC as a part of a file's name, `20261130T120003`.
    #[must_use]
    pub fn compact(self) -> String {
        jiff::Timestamp::from_millisecond(self.0)
            .map_or_else(|_| self.0.to_string(), |t| t.strftime("%Y%m%dT%H%M%S").to_string())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{}", t.strftime("%Y-%m-%d %H:%M:%S UTC")),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// Where time comes from. Passed in everywhere, so that tests turn it by hand.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock. It may jump; nothing is decided by it.
    fn now(&self) -> Timestamp;
    /// Time since some fixed moment, never going back. Leases are measured by it.
    fn monotonic(&self) -> Duration;
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_millisecond())
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that moves only when told to: for tests of leases and of jumping wall clocks.
#[derive(Debug)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { wall_ms: AtomicI64::new(now.0), monotonic_ms: AtomicI64::new(1_000) }
    }

    /// Lets `by` pass on both clocks.
    pub fn advance(&self, by: Duration) {
        self.wall_ms.fetch_add(millis(by), Ordering::SeqCst);
        self.monotonic_ms.fetch_add(millis(by), Ordering::SeqCst);
    }

    /// Sets the wall clock alone, as an administrator or NTP would.
    pub fn set_wall(&self, now: Timestamp) {
        self.wall_ms.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.wall_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }
}
