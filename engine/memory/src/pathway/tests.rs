use std::time::Duration;

use mnemolith_temporal::Timestamp;

use super::*;
use crate::clock::ManualClock;
use crate::types::RelayStatus::{self, Completed, Degraded, Failed, Skipped};

/// What the steps of a test leave behind: the names of those that ran.
type Signal = Vec<String>;

#[derive(Clone)]
enum Script {
    Flow(Flow),
    Fail(Error),
    Panic,
    /// Suspends, and settles so.
    Settle(Result<Flow, Error>),
    /// Suspends without a `settle` of its own.
    Stuck,
}

#[derive(Clone)]
struct Scripted {
    name: &'static str,
    script: Script,
    clock: ManualClock,
}

impl Step<Signal> for Scripted {
    fn run(&self, signal: &mut Signal) -> Result<Flow, Fault> {
        signal.push(self.name.to_owned());
        self.clock.advance(Duration::from_millis(2));
        match &self.script {
            Script::Flow(flow) => Ok(flow.clone()),
            Script::Fail(error) => Err(error.clone().into()),
            Script::Panic => panic!("the lamp fell over"),
            Script::Settle(_) | Script::Stuck => Ok(Flow::Suspended),
        }
    }

    fn settle(&self, signal: &mut Signal) -> Result<Flow, Fault> {
        signal.push(format!("{} settled", self.name));
        self.clock.advance(Duration::from_millis(3));
        match &self.script {
            Script::Settle(end) => end.clone().map_err(Fault::from),
            _ => Ok(Flow::Suspended),
        }
    }
}

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(0))
}

fn spec(relay: Relay) -> RelaySpec {
    let degrades = matches!(relay, Relay::GraphLinking | Relay::KgEnrichment);
    let policy = if degrades { ErrorPolicy::DegradeGracefully } else { ErrorPolicy::FailFast };
    RelaySpec::new(relay, policy)
}

/// A recipe of steps that are done, but for the scripted ones.
fn recipe(clock: &ManualClock, scripts: &[(Relay, Script)]) -> PathwayRecipe<Signal> {
    let mut builder = PathwayRecipe::builder();
    for relay in Relay::ALL {
        let script = scripts
            .iter()
            .find(|(scripted, _)| *scripted == relay)
            .map_or(Script::Flow(Flow::Done("done".to_owned())), |(_, script)| script.clone());
        builder = builder.step(spec(relay), Scripted { name: relay.as_str(), script, clock: clock.clone() });
    }
    builder.build().unwrap()
}

fn run(scripts: &[(Relay, Script)]) -> (Outcome, Signal) {
    let clock = clock();
    let recipe = recipe(&clock, scripts);
    let mut signal = Signal::new();
    let progress = recipe.begin(&mut signal, &clock);
    let outcome = recipe.finish(progress, &mut signal, &clock);
    let relays: Vec<Relay> = outcome.trace.iter().map(|trace| trace.relay).collect();
    assert_eq!(relays, Relay::ALL, "a trace has every relay in order");
    (outcome, signal)
}

fn statuses(outcome: &Outcome) -> Vec<RelayStatus> {
    outcome.trace.iter().map(|trace| trace.status).collect()
}

#[test]
fn every_relay_runs_in_order_and_is_timed_by_the_clock_given() {
    let (outcome, signal) = run(&[]);
    assert_eq!(signal, Relay::ALL.map(|relay| relay.as_str().to_owned()));
    assert_eq!(statuses(&outcome), [Completed; 6]);
    assert!(outcome.result.is_ok());
    assert!(outcome.trace.iter().all(|trace| trace.elapsed == Duration::from_millis(2)));
}

#[test]
fn a_bypass_skips_the_rest_without_an_error() {
    let bypass = Script::Flow(Flow::Bypass("duplicate of m1".to_owned()));
    let (outcome, signal) = run(&[(Relay::DedupGuard, bypass)]);
    assert_eq!(signal, ["DEDUP_GUARD"]);
    assert_eq!(statuses(&outcome), [Completed, Skipped, Skipped, Skipped, Skipped, Skipped]);
    assert_eq!(outcome.trace[0].detail, "duplicate of m1");
    assert!(outcome.result.is_ok());
}

#[test]
fn a_failure_of_the_first_four_ends_the_call() {
    for (index, relay) in Relay::ALL.into_iter().enumerate().take(4) {
        let (outcome, signal) = run(&[(relay, Script::Fail(Error::BlankText))]);
        assert_eq!(signal.len(), index + 1);
        assert_eq!(outcome.trace[index].status, Failed);
        assert!(outcome.trace[..index].iter().all(|trace| trace.status == Completed));
        assert!(outcome.trace[index + 1..].iter().all(|trace| trace.status == Skipped));
        let fault = outcome.result.unwrap_err();
        assert_eq!((fault.kind(), fault.error), (FaultKind::Validation, Error::BlankText));
    }
}

#[test]
fn a_failure_or_panic_of_the_last_two_degrades_and_goes_on() {
    let busy = Error::Busy { what: "links".to_owned() };
    let (outcome, signal) = run(&[(Relay::GraphLinking, Script::Fail(busy)), (Relay::KgEnrichment, Script::Panic)]);
    assert_eq!(signal.len(), 6);
    assert_eq!(statuses(&outcome)[4..], [Degraded, Degraded]);
    assert!(outcome.trace[4].detail.contains("links"));
    assert!(outcome.trace[5].detail.contains("the lamp fell over"));
    assert!(outcome.result.is_ok());
}

#[test]
fn a_panic_of_the_first_four_is_an_internal_error_and_not_a_panic_of_the_caller() {
    let (outcome, _) = run(&[(Relay::TagTransduction, Script::Panic)]);
    assert_eq!(statuses(&outcome)[1..], [Failed, Skipped, Skipped, Skipped, Skipped]);
    assert_eq!(outcome.result.unwrap_err().kind(), FaultKind::Internal);
}

#[test]
fn a_suspended_relay_holds_the_later_ones_back_until_it_is_settled() {
    let clock = clock();
    let settle = Script::Settle(Ok(Flow::Done("durable".to_owned())));
    let recipe = recipe(&clock, &[(Relay::CorticalWrite, settle)]);
    let mut signal = Signal::new();
    let progress = recipe.begin(&mut signal, &clock);
    assert!(progress.is_suspended() && progress.fault().is_none());
    assert_eq!(signal.len(), 4);
    // The caller's own time between the halves is not the relay's.
    clock.advance(Duration::from_secs(60));
    let outcome = recipe.finish(progress, &mut signal, &clock);
    assert_eq!(signal[4..], ["CORTICAL_WRITE settled", "GRAPH_LINKING", "KG_ENRICHMENT"]);
    assert_eq!(statuses(&outcome), [Completed; 6]);
    assert_eq!(outcome.trace[3].detail, "durable");
    assert_eq!(outcome.trace[3].elapsed, Duration::from_millis(5));
}

#[test]
fn a_duplicate_may_wait_for_its_original_before_it_bypasses() {
    let settle = Script::Settle(Ok(Flow::Bypass("duplicate of m1".to_owned())));
    let (outcome, signal) = run(&[(Relay::DedupGuard, settle)]);
    assert_eq!(signal, ["DEDUP_GUARD", "DEDUP_GUARD settled"]);
    assert_eq!(statuses(&outcome), [Completed, Skipped, Skipped, Skipped, Skipped, Skipped]);
    assert!(outcome.result.is_ok());
}

#[test]
fn a_write_that_fails_to_settle_fails_the_call() {
    let error = Error::Failed { cause: "EIO".to_owned() };
    let (outcome, signal) = run(&[(Relay::CorticalWrite, Script::Settle(Err(error.clone())))]);
    assert_eq!(signal.len(), 5);
    assert_eq!(statuses(&outcome)[3..], [Failed, Skipped, Skipped]);
    assert_eq!(outcome.result.unwrap_err().error, error);
    let (outcome, _) = run(&[(Relay::CorticalWrite, Script::Stuck)]);
    assert_eq!(outcome.result.unwrap_err().kind(), FaultKind::Internal);
}

#[test]
fn a_finished_or_failed_first_half_says_so() {
    let clock = clock();
    let failing = recipe(&clock, &[(Relay::DedupGuard, Script::Fail(Error::ZeroVector))]);
    let progress = failing.begin(&mut Signal::new(), &clock);
    assert_eq!(progress.fault().map(|fault| &fault.error), Some(&Error::ZeroVector));
    assert!(!progress.is_suspended());
}

#[test]
fn the_declared_pathway_reports_absent_relays_as_skipped_and_says_why() {
    let clock = clock();
    let step = |name| Scripted { name, script: Script::Flow(Flow::Done(String::new())), clock: clock.clone() };
    let recipe = PathwayRecipe::remember(step("1"), step("2"), step("3"), step("4")).unwrap();
    let mut signal = Signal::new();
    let progress = recipe.begin(&mut signal, &clock);
    let outcome = recipe.finish(progress, &mut signal, &clock);
    assert_eq!(signal, ["1", "2", "3", "4"]);
    assert_eq!(statuses(&outcome)[4..], [Skipped, Skipped]);
    assert!(outcome.trace[4..].iter().all(|trace| !trace.detail.is_empty()));
    let kg = recipe.specs().last().unwrap();
    assert_eq!(kg.relay, Relay::KgEnrichment);
    assert_eq!(kg.envelope.timeout, Some(Duration::from_secs(8)));
    assert_eq!((kg.envelope.breaker.as_deref(), kg.envelope.bulkhead), (Some("llm-provider"), Some(2)));
}

fn refused(specs: Vec<RelaySpec>) -> RecipeError {
    let mut builder = PathwayRecipe::<Signal>::builder();
    for spec in specs {
        builder = builder.absent(spec, "absent");
    }
    builder.build().err().unwrap()
}

fn specs(relays: &[Relay]) -> Vec<RelaySpec> {
    relays.iter().map(|relay| spec(*relay)).collect()
}

#[test]
fn a_recipe_out_of_order_incomplete_or_with_a_relay_twice_is_refused() {
    let mut swapped = Relay::ALL;
    swapped.swap(1, 2);
    assert_eq!(refused(specs(&swapped)), RecipeError::WrongOrder { expected: Relay::TagTransduction, found: Relay::DopaminergicSurprise });
    for (index, relay) in Relay::ALL.into_iter().enumerate() {
        let mut relays = Relay::ALL.to_vec();
        relays.remove(index);
        assert_eq!(refused(specs(&relays)), RecipeError::Missing { relay });
        relays = Relay::ALL.to_vec();
        relays.insert(index, relay);
        assert_eq!(refused(specs(&relays)), RecipeError::Duplicated { relay });
    }
    assert_eq!(refused(Vec::new()), RecipeError::Missing { relay: Relay::DedupGuard });
}

#[test]
fn a_wrong_policy_is_refused() {
    for (index, relay) in Relay::ALL.into_iter().enumerate() {
        let mut specs = specs(&Relay::ALL);
        specs[index].policy = match specs[index].policy {
            ErrorPolicy::FailFast => ErrorPolicy::DegradeGracefully,
            ErrorPolicy::DegradeGracefully => ErrorPolicy::FailFast,
        };
        let wanted = if index < 4 { RecipeError::MustFailFast { relay } } else { RecipeError::MustDegrade { relay } };
        assert_eq!(refused(specs), wanted);
    }
}

#[test]
fn the_write_takes_no_envelope_and_others_take_no_empty_one() {
    let with = |relay: Relay, envelope: Envelope| {
        let mut specs = specs(&Relay::ALL);
        specs.iter_mut().find(|spec| spec.relay == relay).unwrap().envelope = envelope;
        refused(specs)
    };
    let none = Envelope::default;
    let relay = Relay::CorticalWrite;
    let second = Some(Duration::from_secs(1));
    let named = Some("disk".to_owned());
    for (envelope, wanted) in [
        (Envelope { timeout: second, ..none() }, RecipeError::TimeoutRefused { relay }),
        (Envelope { retries: 1, ..none() }, RecipeError::RetriesRefused { relay }),
        (Envelope { breaker: named, ..none() }, RecipeError::BreakerRefused { relay }),
        (Envelope { bulkhead: Some(9), ..none() }, RecipeError::BulkheadRefused { relay }),
    ] {
        assert_eq!(with(relay, envelope), wanted);
    }
    let relay = Relay::KgEnrichment;
    let blank = Some(" ".to_owned());
    let zero = Some(Duration::ZERO);
    for (envelope, wanted) in [
        (Envelope { timeout: zero, ..none() }, RecipeError::NothingPasses { relay, part: "timeout" }),
        (Envelope { bulkhead: Some(0), ..none() }, RecipeError::NothingPasses { relay, part: "bulkhead" }),
        (Envelope { breaker: blank, ..none() }, RecipeError::BlankBreaker { relay }),
    ] {
        assert_eq!(with(relay, envelope), wanted);
    }
}

#[test]
fn an_envelope_that_nothing_would_carry_out_is_refused() {
    let clock = clock();
    let step = Scripted { name: "x", script: Script::Panic, clock };
    let mut builder = PathwayRecipe::builder();
    for relay in Relay::ALL {
        let mut spec = spec(relay);
        if relay == Relay::KgEnrichment {
            spec.envelope.retries = 1;
        }
        builder = builder.step(spec, step.clone());
    }
    let relay = Relay::KgEnrichment;
    assert_eq!(builder.build().err(), Some(RecipeError::EnvelopeNotCarriedOut { relay }));
}
