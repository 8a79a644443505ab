//! The clock of a session whose caller sets the time.

use std::time::Duration;

use mnemolith::{Clock, ManualClock, SystemClock, Timestamp};

/// Its time of day stands still until it is set; its stopwatch is the system's, so that traces tell what was really spent
/// and nothing in the engine that waits for time to pass waits forever. Clones share one time.
#[derive(Debug, Clone)]
pub(crate) struct SettableClock {
    day: ManualClock,
    stopwatch: SystemClock,
}

impl SettableClock {
    /// A clock that says the system's time of day of this moment.
    pub(crate) fn new() -> Self {
        let stopwatch = SystemClock::new();
        Self { day: ManualClock::new(stopwatch.now()), stopwatch }
    }

    pub(crate) fn set(&self, now: Timestamp) {
        self.day.set(now);
    }
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        self.day.now()
    }

    fn monotonic(&self) -> Duration {
        self.stopwatch.monotonic()
    }
}
