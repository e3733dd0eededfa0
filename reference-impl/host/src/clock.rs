//! The clocks of one node. Waiting is tokio's (`tokio::time`), which the simulation drives.

use std::fmt::Debug;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Reads the two clocks of a node.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Never goes back; runs at the rate of `tokio::time`.
    fn monotonic(&self) -> Monotonic;
    /// What a person's clock shows; may jump.
    fn wall(&self) -> WallTime;
}

/// A point on a node's monotonic clock: the time since an origin that only differences can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The point `since_origin` after the clock's origin.
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// The time since the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to `self`, zero when `earlier` is later.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Monotonic {
    type Output = Self;

    /// Saturates at the end of time, so a deadline of `Duration::MAX` means never.
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

impl Sub for Monotonic {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        self.saturating_since(rhs)
    }
}

/// Wall-clock time in milliseconds since the Unix epoch (Kafka's and Queen's unit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(i64);

impl WallTime {
    /// The time `ms` milliseconds after the Unix epoch.
    pub const fn from_epoch_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn epoch_ms(self) -> i64 {
        self.0
    }
}
