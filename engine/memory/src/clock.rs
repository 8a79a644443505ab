//! Time and randomness, injected.
//!
//! Purpose: the only home of the system's clock and randomness, so that everything above them
//! can be run twice with the same result.
//!
//! Invariants: [`Clock::monotonic`] never goes back; [`Clock::now`] may, as the system's does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use mnemolith_temporal::Timestamp;

use crate::error::{Error, Result};

/// The time of day, and a stopwatch.
pub trait Clock: Send + Sync {
    /// The time of day. It may be stepped back.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment. It never goes back.
    fn monotonic(&self) -> Duration;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn monotonic(&self) -> Duration {
        (**self).monotonic()
    }
}

/// The system's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: std::time::Instant,
}

impl SystemClock {
    /// A clock whose stopwatch starts now.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // The home of the system's clock.
    pub fn new() -> Self {
        Self { started: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // The home of the system's clock.
    fn now(&self) -> Timestamp {
        let millis = |elapsed: Duration| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => Timestamp::from_millis(millis(after)),
            Err(before) => Timestamp::from_millis(-millis(before.duration())),
        }
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that stands still until it is moved. Clones share one time.
///
/// ```
/// use std::time::Duration;
/// use mnemolith::{Clock, ManualClock, Timestamp};
///
/// let clock = ManualClock::new(Timestamp::parse("2026-01-01")?);
/// let shared = clock.clone();
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(shared.now().to_string(), "2026-01-01T00:01:00Z");
/// assert_eq!(shared.monotonic(), Duration::from_secs(60));
/// # Ok::<(), mnemolith::TimeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    now_ms: Arc<AtomicI64>,
    elapsed_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that says `now`, and zero on its stopwatch.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { now_ms: Arc::new(AtomicI64::new(now.millis())), elapsed_ns: Arc::new(AtomicU64::new(0)) }
    }

    /// Sets the time of day, back as well as forward. The stopwatch stays.
    pub fn set(&self, now: Timestamp) {
        self.now_ms.store(now.millis(), Ordering::SeqCst);
    }

    /// Moves the time of day, in whole milliseconds, and the stopwatch.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        // The closures always return Some, so the updates always succeed.
        let _ = self.now_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add(millis)));
        let _ = self.elapsed_ns.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |elapsed| Some(elapsed.saturating_add(nanos)));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns.load(Ordering::SeqCst))
    }
}

/// A source of random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// [`Error::NoEntropy`] where there is none; `bytes` is then unspecified.
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;
}

/// The randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|error| Error::NoEntropy { message: error.to_string() })
    }
}

/// A fixed sequence of bytes for each seed: for tests, never for secrets.
///
/// The generator is SplitMix64 (Steele, Lea and Flood 2014). Threads that share one draw from
/// one sequence.
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    fn next(&self) -> u64 {
        let mut z = self.state.fetch_add(Self::STEP, Ordering::SeqCst).wrapping_add(Self::STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        for chunk in bytes.chunks_mut(8) {
            for (to, from) in chunk.iter_mut().zip(self.next().to_le_bytes()) {
                *to = from;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_is_in_this_century_and_does_not_go_back() {
        let clock = SystemClock::new();
        assert!(clock.now() > Timestamp::parse("2020-01-01").unwrap());
        assert!(clock.now() < Timestamp::parse("2100-01-01").unwrap());
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
    }

    #[test]
    fn setting_the_time_of_day_leaves_the_stopwatch() {
        let clock = ManualClock::new(Timestamp::from_millis(5_000));
        clock.advance(Duration::from_millis(7));
        clock.set(Timestamp::from_millis(1));
        assert_eq!(clock.now().millis(), 1);
        assert_eq!(clock.monotonic(), Duration::from_millis(7));
        clock.set(Timestamp::POS_INF);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::POS_INF);
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        // The first outputs of SplitMix64 for seed 1234567, as published with the algorithm.
        let entropy = SeededEntropy::new(1_234_567);
        assert_eq!(entropy.next(), 6_457_827_717_110_365_317);
        assert_eq!(entropy.next(), 3_203_168_211_198_807_973);
        let draw = |seed| {
            let mut bytes = [0_u8; 21];
            SeededEntropy::new(seed).fill(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn the_system_gives_different_bytes_each_time() {
        let (mut one, mut two) = ([0_u8; 16], [0_u8; 16]);
        SystemEntropy.fill(&mut one).unwrap();
        SystemEntropy.fill(&mut two).unwrap();
        assert_ne!(one, two);
    }
}
