//! Regions among threads, and among the other users of a file.

use std::sync::mpsc;
use std::time::Duration;

use super::{kind, list_checks, open};
use crate::{Backend, StorageErrorKind};

list_checks!(
    a_region_lends_its_file_to_nobody,
    a_region_is_not_laid_over_a_log,
    readers_keep_a_file_that_lost_its_name,
    readers_see_whole_rows_in_order,
    a_scrub_waits_for_readers,
    readers_who_keep_arriving_do_not_hold_a_scrubber_off,
    a_reader_inside_enters_again,
);

/// Long enough for a thread that is not held up to get through.
const A_WHILE: Duration = Duration::from_millis(50);
/// Longer than any thread that is free to go on needs, on a busy machine.
const FOREVER: Duration = Duration::from_secs(30);

fn a_region_lends_its_file_to_nobody(backend: &dyn Backend) {
    let space = open(backend);
    let writer = space.create_region("rows", 4096).unwrap();
    let region = writer.region().clone();
    drop(writer);
    for _ in 0..2 {
        assert_eq!(kind(space.open_region("rows", 4096, 0)), StorageErrorKind::Io, "a second writer");
        assert_eq!(kind(space.open_log("rows")), StorageErrorKind::Io);
        assert_eq!(kind(space.write_at("rows", &[(0, b"x")])), StorageErrorKind::Io);
        assert_eq!(kind(space.read("rows", 4096)), StorageErrorKind::Io);
    }
    drop(region);
    space.write_at("rows", &[(0, b"x")]).unwrap();
    assert_eq!(space.read("rows", 4096).unwrap().unwrap()[0], b'x');
    assert_eq!(space.open_region("rows", 4096, 1).unwrap().written_slice(), b"x");
    assert_eq!(space.open_log("rows").unwrap().len(), 4096);
}

fn a_region_is_not_laid_over_a_log(backend: &dyn Backend) {
    let space = open(backend);
    let log = space.create_log("log", 4096).unwrap();
    let second = space.open_log("log").unwrap();
    drop(log);
    assert_eq!(kind(space.open_region("log", 4096, 0)), StorageErrorKind::Io);
    second.write_durable_at(0, b"x").unwrap();
    drop(second);
    assert_eq!(space.open_region("log", 4096, 1).unwrap().written_slice(), b"x");
}

fn readers_keep_a_file_that_lost_its_name(backend: &dyn Backend) {
    let space = open(backend);
    let create = |byte: u8| {
        let mut writer = space.create_region("rows", 4096).unwrap();
        writer.append_at(0, &[byte; 4096]).unwrap();
        writer.region().publish(4096);
        writer
    };
    let first = create(1);
    let second = create(2);
    assert!(space.remove_file("rows").unwrap());
    let third = create(3);
    space.replace("rows", b"4").unwrap();
    let mut fifth = create(5);
    let pass = space.gate().read();
    for (byte, writer) in [(1, &first), (2, &second), (3, &third), (5, &fifth)] {
        assert_eq!(writer.region().slice(&pass), [byte; 4096]);
        writer.sync(4096).unwrap();
    }
    drop((pass, first, second, third));
    fifth.scrub(&mut space.gate().write(), 0, 4096).unwrap();
    drop(fifth);
    assert_eq!(space.read("rows", 4096).unwrap().unwrap(), [0; 4096]);
}

/// A published row is there as a whole, and so is every row before it.
fn readers_see_whole_rows_in_order(backend: &dyn Backend) {
    const ROW: usize = 64;
    const ROWS: usize = 20_000;
    let space = open(backend);
    let mut writer = space.create_region("rows", (ROW * ROWS) as u64).unwrap();
    let region = writer.region().clone();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut checked = 0;
                while checked < ROWS {
                    let pass = space.gate().read();
                    let rows = region.slice(&pass);
                    assert_eq!(rows.len() % ROW, 0);
                    for (number, row) in rows.chunks_exact(ROW).enumerate().skip(checked) {
                        assert!(row.iter().all(|byte| *byte == (number % 255) as u8 + 1), "row {number} is torn");
                    }
                    checked = rows.len() / ROW;
                }
            });
        }
        for number in 0..ROWS {
            writer.append_at(number * ROW, &[(number % 255) as u8 + 1; ROW]).unwrap();
            region.publish((number + 1) * ROW);
        }
    });
}

fn a_scrub_waits_for_readers(backend: &dyn Backend) {
    let space = open(backend);
    let mut writer = space.create_region("rows", 4096).unwrap();
    writer.append_at(0, &[1; 4096]).unwrap();
    writer.region().publish(4096);
    let region = writer.region().clone();
    let (done, wait) = mpsc::channel();
    std::thread::scope(|scope| {
        let pass = space.gate().read();
        let bytes = region.slice(&pass);
        scope.spawn(|| {
            writer.scrub(&mut space.gate().write(), 0, 4096).unwrap();
            done.send(()).unwrap();
        });
        assert!(wait.recv_timeout(A_WHILE).is_err(), "the scrubber did not wait for the reader");
        assert_eq!(bytes, [1; 4096]);
        drop(pass);
        wait.recv_timeout(FOREVER).expect("the scrubber goes on when the reader has left");
        assert_eq!(region.slice(&space.gate().read()), [0; 4096]);
    });
    // And the other way round: a reader waits for a scrubber inside.
    let (done, wait) = mpsc::channel();
    std::thread::scope(|scope| {
        let pass = space.gate().write();
        scope.spawn(|| {
            drop(space.gate().read());
            done.send(()).unwrap();
        });
        assert!(wait.recv_timeout(A_WHILE).is_err(), "the reader did not wait for the scrubber");
        drop(pass);
        wait.recv_timeout(FOREVER).expect("the reader goes on when the scrubber has left");
    });
}

fn readers_who_keep_arriving_do_not_hold_a_scrubber_off(backend: &dyn Backend) {
    let space = open(backend);
    let gate = space.gate().clone();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        // Each of them is inside for longer than it is outside, so their passes overlap for as long as nobody interrupts.
        for _ in 0..4 {
            scope.spawn(|| {
                while !stopped() {
                    let _inside = gate.read();
                    std::thread::sleep(A_WHILE / 50);
                }
            });
        }
        let (done, wait) = mpsc::channel();
        let scrubber = gate.clone();
        // Not scoped: were it held off for ever, the check is to fail and not to wait with it.
        std::thread::spawn(move || {
            drop(scrubber.write());
            done.send(()).unwrap();
        });
        let entered = wait.recv_timeout(FOREVER / 6);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        entered.expect("a scrubber enters between readers who keep arriving");
    });
}
fn a_reader_inside_enters_again(backend: &dyn Backend) {
    let space = open(backend);
    let gate = space.gate().clone();
    let (entered, wait) = mpsc::channel();
    let (go, until_scrubber_waits) = mpsc::channel::<()>();
    // Not scoped: were the reader to wait for ever, the check is to fail and not to wait with it.
    let reader_gate = gate.clone();
    let (inside, is_inside) = mpsc::channel();
    std::thread::spawn(move || {
        let _outer = reader_gate.read();
        inside.send(()).unwrap();
        until_scrubber_waits.recv().unwrap();
        drop(reader_gate.read());
        entered.send(()).unwrap();
    });
    is_inside.recv().unwrap();
    let scrubber = std::thread::spawn(move || drop(gate.write()));
    std::thread::sleep(A_WHILE);
    assert!(!scrubber.is_finished());
    go.send(()).unwrap();
    wait.recv_timeout(FOREVER / 6).expect("a thread that is inside enters again while a scrubber waits");
    scrubber.join().unwrap();
}
