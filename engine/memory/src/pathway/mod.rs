//! The remember pathway as a declared recipe.
//!
//! Purpose: the order of the relays, their error policies and their envelopes are data that a
//! builder checks once, and one loop carries out.
//!
//! Invariants:
//! * a recipe has every relay once, in the order of [`Relay::ALL`];
//! * the first four fail fast and the last two degrade, for a memory is either encoded whole or
//!   not at all, and links and facts can be added later;
//! * CORTICAL_WRITE has no envelope: a write that was given up on may still reach the disk, and
//!   one that was repeated may be there twice;
//! * an envelope is declared only where something carries it out.

mod run;

use std::time::Duration;

pub(crate) use run::{Outcome, Progress};

use crate::error::{Error, FaultKind};
use crate::types::Relay;

/// What the failure of a relay does to the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorPolicy {
    /// The call fails, and no later relay runs.
    FailFast,
    /// The relay is reported as degraded, and the next one runs.
    DegradeGracefully,
}

/// What guards the calls that a relay makes to something outside the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Envelope {
    /// The longest an attempt may take.
    pub(crate) timeout: Option<Duration>,
    /// Attempts after the first.
    pub(crate) retries: u32,
    /// The circuit breaker to go through.
    pub(crate) breaker: Option<String>,
    /// Calls at one time; a further one does not wait.
    pub(crate) bulkhead: Option<u32>,
}

/// A relay's place in the recipe: which it is and how it fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelaySpec {
    pub(crate) relay: Relay,
    pub(crate) policy: ErrorPolicy,
    pub(crate) envelope: Envelope,
}

impl RelaySpec {
    pub(crate) fn new(relay: Relay, policy: ErrorPolicy) -> Self {
        Self { relay, policy, envelope: Envelope::default() }
    }

    pub(crate) fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) error: Error,
}

impl Fault {
    #[cfg(test)]
    /// Who is at fault: what a circuit breaker looks at.
    pub(crate) fn kind(&self) -> FaultKind {
        self.error.fault_kind()
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error }
    }
}

/// How a step ended. The text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It did its work.
    Done(String),
    /// It had nothing to do.
    Skip(String),
    /// It did its work, and the call is over: every later relay is skipped.
    Bypass(String),
    /// It handed its work over; [`Step::settle`] waits for the end of it.
    Suspended,
}

/// What a relay does to the signal.
pub(crate) trait Step<S>: Send + Sync {
    /// Does it, or hands it over.
    fn run(&self, signal: &mut S) -> Result<Flow, Fault>;

    /// Waits for what `run` handed over. Only called after `run` returned [`Flow::Suspended`],
    /// and must not return that itself.
    fn settle(&self, _signal: &mut S) -> Result<Flow, Fault> {
        Err(Fault::from(Error::Internal { place: "pathway".to_owned(), message: "a step suspended and cannot settle".to_owned() }))
    }
}

/// A step, or why this build has none.
enum Work<S> {
    Step(Box<dyn Step<S>>),
    Absent(String),
}

struct Entry<S> {
    spec: RelaySpec,
    work: Work<S>,
}

/// A checked pathway.
pub(crate) struct PathwayRecipe<S> {
    entries: Vec<Entry<S>>,
}

impl<S> PathwayRecipe<S> {
    /// An empty recipe, to be filled in order.
    pub(crate) fn builder() -> RecipeBuilder<S> {
        RecipeBuilder { entries: Vec::new() }
    }

    /// The pathway of `remember`: the four relays that encode, and the two that come after, with
    /// the reasons why this build has no step for them.
    ///
    /// # Errors
    /// None for this declaration; the type is the builder's.
    pub(crate) fn remember(
        dedup_guard: impl Step<S> + 'static,
        tag_transduction: impl Step<S> + 'static,
        surprise: impl Step<S> + 'static,
        cortical_write: impl Step<S> + 'static,
    ) -> Result<Self, RecipeError> {
        use ErrorPolicy::{DegradeGracefully, FailFast};
        Self::builder()
            .step(RelaySpec::new(Relay::DedupGuard, FailFast), dedup_guard)
            .step(RelaySpec::new(Relay::TagTransduction, FailFast), tag_transduction)
            .step(RelaySpec::new(Relay::DopaminergicSurprise, FailFast), surprise)
            .step(RelaySpec::new(Relay::CorticalWrite, FailFast), cortical_write)
            .absent(RelaySpec::new(Relay::GraphLinking, DegradeGracefully), "this build does not link memories")
            .absent(
                RelaySpec::new(Relay::KgEnrichment, DegradeGracefully).envelope(Envelope {
                    timeout: Some(Duration::from_secs(8)),
                    retries: 0,
                    breaker: Some("llm-provider".to_owned()),
                    bulkhead: Some(2),
                }),
                "no extractor is configured",
            )
            .build()
    }

    #[cfg(test)]
    /// The relays as declared, in order.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &RelaySpec> {
        self.entries.iter().map(|entry| &entry.spec)
    }
}

/// Collects a recipe and checks it.
pub(crate) struct RecipeBuilder<S> {
    entries: Vec<Entry<S>>,
}

impl<S> RecipeBuilder<S> {
    /// The next relay, with its step.
    #[must_use]
    pub(crate) fn step(mut self, spec: RelaySpec, step: impl Step<S> + 'static) -> Self {
        self.entries.push(Entry { spec, work: Work::Step(Box::new(step)) });
        self
    }

    /// The next relay, which this build has no step for.
    #[must_use]
    pub(crate) fn absent(mut self, spec: RelaySpec, detail: impl Into<String>) -> Self {
        self.entries.push(Entry { spec, work: Work::Absent(detail.into()) });
        self
    }

    /// The recipe, if it is valid.
    ///
    /// # Errors
    /// The first flaw, as a [`RecipeError`].
    pub(crate) fn build(self) -> Result<PathwayRecipe<S>, RecipeError> {
        let relays: Vec<Relay> = self.entries.iter().map(|entry| entry.spec.relay).collect();
        check_order(&relays)?;
        for entry in &self.entries {
            check_policy(&entry.spec)?;
            check_envelope(&entry.spec)?;
            let guarded = entry.spec.envelope != Envelope::default();
            if guarded && matches!(entry.work, Work::Step(_)) {
                return Err(RecipeError::EnvelopeNotCarriedOut { relay: entry.spec.relay });
            }
        }
        Ok(PathwayRecipe { entries: self.entries })
    }
}

/// Whether the relays are those of [`Relay::ALL`], each once and in order.
fn check_order(relays: &[Relay]) -> Result<(), RecipeError> {
    for (index, relay) in relays.iter().enumerate() {
        if relays.iter().take(index).any(|earlier| earlier == relay) {
            return Err(RecipeError::Duplicated { relay: *relay });
        }
    }
    for (index, expected) in Relay::ALL.into_iter().enumerate() {
        match relays.get(index) {
            Some(found) if *found == expected => {}
            Some(found) if relays.contains(&expected) => {
                return Err(RecipeError::WrongOrder { expected, found: *found });
            }
            _ => return Err(RecipeError::Missing { relay: expected }),
        }
    }
    Ok(())
}

fn check_policy(spec: &RelaySpec) -> Result<(), RecipeError> {
    let relay = spec.relay;
    let must_degrade = matches!(relay, Relay::GraphLinking | Relay::KgEnrichment);
    match (spec.policy, must_degrade) {
        (ErrorPolicy::DegradeGracefully, false) => Err(RecipeError::MustFailFast { relay }),
        (ErrorPolicy::FailFast, true) => Err(RecipeError::MustDegrade { relay }),
        _ => Ok(()),
    }
}

fn check_envelope(spec: &RelaySpec) -> Result<(), RecipeError> {
    let RelaySpec { relay, envelope, .. } = spec;
    let relay = *relay;
    if relay == Relay::CorticalWrite {
        if envelope.timeout.is_some() {
            return Err(RecipeError::TimeoutRefused { relay });
        }
        if envelope.retries > 0 {
            return Err(RecipeError::RetriesRefused { relay });
        }
        if envelope.breaker.is_some() {
            return Err(RecipeError::BreakerRefused { relay });
        }
        if envelope.bulkhead.is_some() {
            return Err(RecipeError::BulkheadRefused { relay });
        }
    }
    if envelope.timeout == Some(Duration::ZERO) {
        return Err(RecipeError::NothingPasses { relay, part: "timeout" });
    }
    if envelope.bulkhead == Some(0) {
        return Err(RecipeError::NothingPasses { relay, part: "bulkhead" });
    }
    if envelope.breaker.as_deref().is_some_and(|name| name.trim().is_empty()) {
        return Err(RecipeError::BlankBreaker { relay });
    }
    Ok(())
}

/// Why a recipe is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecipeError {
    #[error("{found} stands where {expected} belongs; the order of the relays is fixed")]
    WrongOrder { expected: Relay, found: Relay },
    #[error("{relay} is missing; declare it, absent if it has no step")]
    Missing { relay: Relay },
    #[error("{relay} is declared twice")]
    Duplicated { relay: Relay },
    #[error("{relay} must fail fast; a memory is encoded whole or not at all")]
    MustFailFast { relay: Relay },
    #[error("{relay} must degrade; the memory is durable before it runs")]
    MustDegrade { relay: Relay },
    #[error("{relay} may have no timeout; a write given up on may still reach the disk")]
    TimeoutRefused { relay: Relay },
    #[error("{relay} may have no retries; a write repeated may be there twice")]
    RetriesRefused { relay: Relay },
    #[error("{relay} may have no breaker; only a failed journal refuses writes")]
    BreakerRefused { relay: Relay },
    #[error("{relay} may have no bulkhead; group commit bounds it")]
    BulkheadRefused { relay: Relay },
    #[error("the {part} of {relay} is zero and lets nothing pass; leave it out")]
    NothingPasses { relay: Relay, part: &'static str },
    #[error("the breaker of {relay} has no name")]
    BlankBreaker { relay: Relay },
    #[error("{relay} has a step and an envelope, which nothing in this build carries out")]
    EnvelopeNotCarriedOut { relay: Relay },
}

#[cfg(test)]
mod tests;
