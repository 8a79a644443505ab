//! A device that fails at every call in turn: fail-stop where durable bytes are at stake, a clean refusal where only room is missing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use mnemolith_backends::{Backend, MemoryBackend};
use mnemolith_kernel::{KernelError, Result, Store};
use support::{Control, Dump, Fault, FaultyDirectory, amend, dump, forget, options, purge, put};

/// One step of the workload.
type Step = Box<dyn Fn(&Store) -> Result<()>>;

/// Fills segments, a payload segment and the first slab, changes rows, and writes checkpoints in between.
fn workload() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for number in 0..6 {
        steps.push(Box::new(move |store| put(store, number, 90_000)));
    }
    steps.push(Box::new(|store| store.checkpoint().map(drop)));
    steps.push(Box::new(|store| put(store, 6, 600_000)));
    steps.push(Box::new(|store| amend(store, 2)));
    steps.push(Box::new(|store| forget(store, 3)));
    steps.push(Box::new(|store| purge(store, 4)));
    steps.push(Box::new(|store| store.checkpoint().map(drop)));
    steps.push(Box::new(|store| put(store, 7, 10)));
    steps.push(Box::new(|store| amend(store, 7)));
    steps.push(Box::new(|store| store.checkpoint().map(drop)));
    steps
}

struct Run {
    backend: MemoryBackend,
    control: Control,
    store: Store,
    /// The dump after the last step that succeeded.
    acknowledged: Dump,
    /// What became of the step that did not.
    failed: Option<(usize, KernelError)>,
}

fn run(n: u64, fault: Fault) -> Run {
    let backend = MemoryBackend::new();
    drop(Store::open(backend.open("t").unwrap(), &options()).unwrap());
    let (directory, control) = FaultyDirectory::over(backend.open("t").unwrap());
    let store = Store::open(directory, &options()).unwrap();
    control.fail_at(n, fault);
    let mut acknowledged = dump(&store);
    for (at, step) in workload().iter().enumerate() {
        if let Err(error) = step(&store) {
            return Run { backend, control, store, acknowledged, failed: Some((at, error)) };
        }
        acknowledged = dump(&store);
    }
    Run { backend, control, store, acknowledged, failed: None }
}

/// Rows, states and registers, without what a call that failed half-way may have advanced.
fn assert_kept(found: &Dump, acknowledged: &Dump, context: &str) {
    assert!(found.lsn >= acknowledged.lsn, "{context}");
    assert!(found.lsn <= acknowledged.lsn + 1, "{context}: more than what was asked for");
    if found.lsn == acknowledged.lsn {
        assert_eq!(found, acknowledged, "{context}");
    }
}

#[test]
fn an_error_of_the_device_stops_everything_and_loses_nothing() {
    for n in 1.. {
        let Run { backend, control, store, acknowledged, failed } = run(n, Fault::Io);
        let Some((step, error)) = failed else {
            assert!(n > 40, "{n} calls");
            println!("EIO at each of {} calls", n - 1);
            return;
        };
        let context = format!("call {n}, step {step}: {error}");
        assert!(matches!(error, KernelError::Storage(_) | KernelError::Failed { .. }), "{context}");
        assert!(control.hits() > 0);
        control.heal();
        assert!(matches!(put(&store, 90, 10), Err(KernelError::Failed { .. })), "{context}");
        assert!(matches!(store.checkpoint(), Err(KernelError::Failed { .. })), "{context}");
        let (rows, refused) = support::dump_what_can_be_read(&store);
        assert_eq!((rows.rows, refused.len()), (acknowledged.rows.clone(), 0), "{context}: what is durable stays readable");
        drop(store);
        let store = Store::open(backend.open("t").unwrap(), &options()).unwrap_or_else(|error| panic!("{context}: then {error}"));
        assert_kept(&dump(&store), &acknowledged, &context);
        assert_eq!(store.verify().unwrap().problems, [], "{context}");
        put(&store, 90, 10).unwrap();
    }
}

#[test]
fn a_full_device_is_a_clean_refusal_where_room_is_made() {
    let (mut clean, mut made_do) = (0, 0);
    for n in 1.. {
        let Run { backend, control, store, acknowledged, failed } = run(n, Fault::NoSpace);
        let Some((step, error)) = failed else {
            if control.hits() == 0 {
                assert!(clean > 10 && made_do > 0, "{clean} clean refusals, {made_do} times less room was enough");
                println!("ENOSPC at each of {} calls, {clean} clean refusals, {made_do} times less room was enough", n - 1);
                return;
            }
            // There was no room for as long a log segment as was wished for, and a shorter one or none did.
            let context = format!("call {n}, made do with less");
            assert!(control.hit_allocation(), "{context}");
            made_do += 1;
            control.kill();
            drop(store);
            let store = Store::open(backend.open("t").unwrap(), &options()).unwrap_or_else(|error| panic!("{context}: then {error}"));
            assert_eq!(dump(&store), acknowledged, "{context}: after reopening");
            assert_eq!(store.verify().unwrap().problems, [], "{context}");
            continue;
        };
        let context = format!("call {n}, step {step}: {error}");
        assert_eq!(control.hits(), 1, "{context}");
        if control.hit_allocation() {
            clean += 1;
            assert!(error.is_no_space(), "{context}");
            assert_eq!(dump(&store), acknowledged, "{context}: unchanged");
            // A smaller record first: what was made for the refused one must not be in its way, now or in replay.
            put(&store, 80, 10).unwrap_or_else(|error| panic!("{context}: then {error}"));
            for (at, step) in workload().iter().enumerate().skip(step) {
                step(&store).unwrap_or_else(|error| panic!("{context}: step {at} then {error}"));
            }
            (81..89).for_each(|number| put(&store, number, 90_000).unwrap());
        } else {
            assert!(matches!(put(&store, 90, 10), Err(KernelError::Failed { .. })), "{context}");
        }
        let expected = dump(&store);
        control.kill();
        drop(store);
        let store = Store::open(backend.open("t").unwrap(), &options()).unwrap_or_else(|error| panic!("{context}: then {error}"));
        if control.hit_allocation() && clean > 0 && expected.lsn > acknowledged.lsn {
            assert_eq!(dump(&store), expected, "{context}: after reopening");
        } else {
            assert_kept(&dump(&store), &acknowledged, &context);
        }
        assert_eq!(store.verify().unwrap().problems, [], "{context}");
    }
}
