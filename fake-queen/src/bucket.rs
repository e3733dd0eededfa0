//! A token bucket that is plain data: filled by the monotonic clock, and refusals say when to come
//! again. Pure.

use host::Monotonic;

/// Tokens at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    tokens: f64,
    filled_at: Monotonic,
}

impl Bucket {
    /// With all it holds.
    pub fn full(burst: f64, now: Monotonic) -> Self {
        Self {
            tokens: burst,
            filled_at: now,
        }
    }

    /// With what came since.
    #[must_use]
    pub fn filled(self, rate: f64, burst: f64, now: Monotonic) -> Self {
        let since = now - self.filled_at;
        Self {
            tokens: (self.tokens + since.as_secs_f64() * rate).min(burst),
            filled_at: now,
        }
    }

    /// Without `cost` tokens.
    ///
    /// # Errors
    /// `Retry-After` in seconds, 1 to 60, when there are fewer.
    pub fn take(self, cost: f64, rate: f64) -> Result<Self, u64> {
        if self.tokens < cost {
            let seconds = ((cost - self.tokens) / rate.max(f64::MIN_POSITIVE)).ceil();
            return Err(seconds.clamp(1.0, 60.0) as u64);
        }
        Ok(Self {
            tokens: self.tokens - cost,
            ..self
        })
    }
}
