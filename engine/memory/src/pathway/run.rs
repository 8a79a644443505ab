//! Carrying a recipe out.
//!
//! Purpose: one loop for every pathway, in two halves, so that the caller can hold a lock over the
//! first and wait for the disk in the second.
//!
//! Invariants:
//! * a finished trace has every relay of the recipe, once and in order;
//! * a relay is Completed only if its step said so;
//! * after a failure or a bypass no further step runs;
//! * a step that panics counts as one that failed with an internal error; the signal may then be
//!   half changed, and dropping it must release what it holds;
//! * dropping a suspended [`Progress`] abandons the wait and not the work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::{Entry, ErrorPolicy, Fault, Flow, PathwayRecipe, Step, Work};
use crate::clock::Clock;
use crate::error::Error;
use crate::types::{RelayStatus, RelayTrace};

/// A pathway under way.
#[derive(Debug)]
#[must_use = "a suspended pathway goes on when it is finished"]
pub(crate) struct Progress {
    trace: Vec<RelayTrace>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The relay after the last in the trace runs next.
    Running,
    /// That relay has handed its work over, after this time in it.
    Suspended(Duration),
    /// No further relay runs.
    Over(Option<Fault>),
}

impl Progress {
    /// Whether a relay has handed its work over and the rest waits for it.
    pub(crate) fn is_suspended(&self) -> bool {
        matches!(self.state, State::Suspended(_))
    }

    #[cfg(test)]
    /// The fault that ended it, so far.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        match &self.state {
            State::Over(fault) => fault.as_ref(),
            _ => None,
        }
    }
}

/// A pathway at its end.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Every relay, in order.
    pub(crate) trace: Vec<RelayTrace>,
    /// The fault of the relay that failed, if one did.
    pub(crate) result: Result<(), Fault>,
}

impl<S> PathwayRecipe<S> {
    /// Runs relays until one suspends or the pathway is over.
    pub(crate) fn begin(&self, signal: &mut S, clock: &dyn Clock) -> Progress {
        let mut progress = Progress { trace: Vec::with_capacity(self.entries.len()), state: State::Running };
        self.advance(&mut progress, signal, clock);
        progress
    }

    /// Settles what is suspended, and runs the rest to the end.
    pub(crate) fn finish(&self, mut progress: Progress, signal: &mut S, clock: &dyn Clock) -> Outcome {
        while let State::Suspended(so_far) = progress.state {
            if let Some(entry) = self.entries.get(progress.trace.len()) {
                let (flow, elapsed) = timed(clock, || match &entry.work {
                    Work::Step(step) => guarded(entry, || settle(step.as_ref(), signal)),
                    Work::Absent(detail) => Ok(Flow::Skip(detail.clone())),
                });
                record(&mut progress, entry, flow, so_far + elapsed);
            } else {
                progress.state = State::Running;
            }
            self.advance(&mut progress, signal, clock);
        }
        let fault = match progress.state {
            State::Over(fault) => fault,
            State::Running | State::Suspended(_) => None,
        };
        Outcome { trace: progress.trace, result: fault.map_or(Ok(()), Err) }
    }

    fn advance(&self, progress: &mut Progress, signal: &mut S, clock: &dyn Clock) {
        while let State::Running = progress.state {
            let Some(entry) = self.entries.get(progress.trace.len()) else {
                progress.state = State::Over(None);
                break;
            };
            let (flow, elapsed) = timed(clock, || match &entry.work {
                Work::Step(step) => guarded(entry, || step.run(signal)),
                Work::Absent(detail) => Ok(Flow::Skip(detail.clone())),
            });
            record(progress, entry, flow, elapsed);
        }
        if let State::Over(fault) = &progress.state {
            let reason = if fault.is_some() { "an earlier relay failed" } else { "bypassed" };
            for entry in self.entries.iter().skip(progress.trace.len()) {
                progress.trace.push(RelayTrace {
                    relay: entry.spec.relay,
                    status: RelayStatus::Skipped,
                    elapsed: Duration::ZERO,
                    detail: reason.to_owned(),
                });
            }
        }
    }
}

/// Writes down how a relay ended, and decides what follows.
fn record<S>(progress: &mut Progress, entry: &Entry<S>, flow: Result<Flow, Fault>, elapsed: Duration) {
    let (status, detail, state) = match flow {
        Ok(Flow::Suspended) => {
            progress.state = State::Suspended(elapsed);
            return;
        }
        Ok(Flow::Done(detail)) => (RelayStatus::Completed, detail, State::Running),
        Ok(Flow::Skip(detail)) => (RelayStatus::Skipped, detail, State::Running),
        Ok(Flow::Bypass(detail)) => (RelayStatus::Completed, detail, State::Over(None)),
        Err(fault) => {
            let detail = fault.error.to_string();
            match entry.spec.policy {
                ErrorPolicy::FailFast => (RelayStatus::Failed, detail, State::Over(Some(fault))),
                ErrorPolicy::DegradeGracefully => (RelayStatus::Degraded, detail, State::Running),
            }
        }
    };
    progress.trace.push(RelayTrace { relay: entry.spec.relay, status, elapsed, detail });
    progress.state = state;
}

/// Settles a step; one that suspends again is at fault, or the pathway would never end.
fn settle<S>(step: &dyn Step<S>, signal: &mut S) -> Result<Flow, Fault> {
    match step.settle(signal)? {
        Flow::Suspended => {
            Err(Fault::from(Error::Internal { place: "pathway".to_owned(), message: "a step suspended while it was settled".to_owned() }))
        }
        flow => Ok(flow),
    }
}

fn timed<T>(clock: &dyn Clock, work: impl FnOnce() -> T) -> (T, Duration) {
    let started = clock.monotonic();
    let result = work();
    (result, clock.monotonic().saturating_sub(started))
}

/// Turns a panic into a fault.
fn guarded<S>(entry: &Entry<S>, work: impl FnOnce() -> Result<Flow, Fault>) -> Result<Flow, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        Err(Fault::from(Error::Internal { place: entry.spec.relay.to_string(), message }))
    })
}
