//! Regions: two lengths, reopening, and scrubbing.

use super::{kind, list_checks, open, pattern};
use crate::{Backend, Gate, RegionWriter, StorageErrorKind};

list_checks!(
    readers_see_what_was_published,
    a_region_is_appended_to_in_order,
    skipped_bytes_stay,
    a_region_stays_within_its_capacity,
    a_region_is_found_again,
    a_region_of_another_length_is_refused,
    a_region_is_scrubbed,
    a_scrub_past_the_capacity_changes_nothing,
    a_scrub_needs_the_pass_of_its_own_gate,
    private_memory_is_a_region,
);

fn published(writer: &RegionWriter, gate: &Gate) -> Vec<u8> {
    writer.region().slice(&gate.read()).to_vec()
}

fn readers_see_what_was_published(backend: &dyn Backend) {
    let space = open(backend);
    for capacity in [1, 64, 4096, 10_000, 1 << 20] {
        let mut writer = space.create_region("rows", capacity).unwrap();
        let region = writer.region().clone();
        assert_eq!((region.capacity(), region.published(), writer.written()), (capacity as usize, 0, 0));
        let pass = space.gate().read();
        assert_eq!(region.slice(&pass).as_ptr().addr() % 64, 0);
        assert_eq!(region.slice(&pass), b"");
        writer.append_at(0, &[9]).unwrap();
        assert_eq!(region.slice(&pass), b"", "written, and not published");
        assert_eq!(writer.written_slice(), [9]);
        region.publish(1);
        assert_eq!(region.slice(&pass), [9]);
        region.publish(0);
        assert_eq!(region.published(), 1, "a published length never shrinks");
        writer.sync(1).unwrap();
        region.sync(1).unwrap();
    }
}

fn a_region_is_appended_to_in_order(backend: &dyn Backend) {
    let space = open(backend);
    let mut writer = space.create_region("rows", 10_000).unwrap();
    let expected = pattern(10_000, 3);
    let mut at = 0;
    for size in [1, 63, 64, 0, 4000, 5872] {
        writer.append_at(at, &expected[at..at + size]).unwrap();
        at += size;
        assert_eq!(writer.written(), at);
        assert_eq!(writer.written_slice(), &expected[..at]);
        writer.region().publish(at);
        assert_eq!(published(&writer, space.gate()), &expected[..at]);
    }
    assert_eq!(at, 10_000);
}

fn skipped_bytes_stay(backend: &dyn Backend) {
    let space = open(backend);
    let mut writer = space.create_region("rows", 4096).unwrap();
    writer.append_at(0, &[1; 300]).unwrap();
    writer.sync(300).unwrap();
    drop(writer);
    let mut writer = space.open_region("rows", 4096, 100).unwrap();
    assert_eq!(writer.written_slice(), [1; 100]);
    writer.append_at(200, &[2; 10]).unwrap();
    assert_eq!(writer.written_slice()[100..], [[1; 100].as_slice(), &[2; 10]].concat());
    writer.append_at(400, &[3; 10]).unwrap();
    assert_eq!(writer.written_slice()[210..], [[1; 90].as_slice(), &[0; 100], &[3; 10]].concat());
    writer.append_at(500, &[]).unwrap();
    assert_eq!(writer.written(), 500);
}

fn a_region_stays_within_its_capacity(backend: &dyn Backend) {
    let space = open(backend);
    let mut writer = space.create_region("rows", 5000).unwrap();
    writer.append_at(0, &[1; 100]).unwrap();
    for (offset, size) in [(99, 1), (0, 100), (99, 0), (5000, 1), (4999, 2), (101, 4900), (usize::MAX, 1), (usize::MAX, 0)] {
        assert_eq!(kind(writer.append_at(offset, &vec![2; size])), StorageErrorKind::Io, "{size} at {offset}");
        assert_eq!(writer.written_slice(), [1; 100]);
    }
    assert_eq!(kind(writer.sync(5001)), StorageErrorKind::Io);
    writer.sync(0).unwrap();
    writer.sync(5000).unwrap();
    writer.append_at(100, &[2; 4900]).unwrap();
    writer.append_at(5000, &[]).unwrap();
    assert_eq!(writer.written(), 5000);
    assert!(space.create_region("huge", u64::MAX).is_err());
    assert_eq!(space.list("").unwrap(), ["rows"], "nothing is left of what could not be made");
}

fn a_region_is_found_again(backend: &dyn Backend) {
    let space = open(backend);
    let expected = pattern(9000, 5);
    let mut writer = space.create_region("rows", 10_000).unwrap();
    writer.append_at(0, &expected).unwrap();
    writer.region().publish(8000);
    writer.sync(9000).unwrap();
    drop((writer, space));
    let space = open(backend);
    let mut writer = space.open_region("rows", 10_000, 7000).unwrap();
    assert_eq!((writer.written(), writer.region().published()), (7000, 7000));
    assert_eq!(published(&writer, space.gate()), &expected[..7000]);
    writer.append_at(7000, &[1; 10]).unwrap();
    writer.region().publish(7010);
    assert_eq!(published(&writer, space.gate())[7000..], [1; 10]);
    drop(writer);
    for all in [0, 10_000] {
        assert_eq!(space.open_region("rows", 10_000, all).unwrap().written(), all as usize);
    }
    assert_eq!(space.read("rows", 10_000).unwrap().unwrap()[7010..9000], expected[7010..]);
}

fn a_region_of_another_length_is_refused(backend: &dyn Backend) {
    let space = open(backend);
    assert_eq!(kind(space.open_region("rows", 4096, 0)), StorageErrorKind::NotFound);
    drop(space.create_region("rows", 4096).unwrap());
    for capacity in [0, 1, 4095, 4097, 8192, u64::MAX] {
        assert_eq!(kind(space.open_region("rows", capacity, 0)), StorageErrorKind::Damaged, "{capacity}");
    }
    for published in [4097, u64::MAX] {
        assert_eq!(kind(space.open_region("rows", 4096, published)), StorageErrorKind::Damaged, "{published}");
    }
    space.open_region("rows", 4096, 4096).unwrap();
}

fn a_region_is_scrubbed(backend: &dyn Backend) {
    let space = open(backend);
    let mut expected = pattern(10_000, 7);
    let mut writer = space.create_region("rows", 10_000).unwrap();
    writer.append_at(0, &expected).unwrap();
    writer.region().publish(9000);
    for (offset, len) in [(100, 5000), (8999, 2), (9999, 1), (0, 0), (10_000, 0)] {
        writer.scrub(&mut space.gate().write(), offset, len).unwrap();
        expected[offset..offset + len].fill(0);
        assert_eq!(writer.written_slice(), expected);
        assert_eq!(published(&writer, space.gate()), expected[..9000]);
    }
    drop((writer, space));
    let writer = open(backend).open_region("rows", 10_000, 10_000).unwrap();
    assert_eq!(writer.written_slice(), expected);
    // What a crash left beyond the length in use can be destroyed too.
    drop(writer);
    let space = open(backend);
    let mut writer = space.open_region("rows", 10_000, 50).unwrap();
    writer.scrub(&mut space.gate().write(), 50, 9950).unwrap();
    assert_eq!(writer.written(), 50);
    drop(writer);
    expected[50..].fill(0);
    assert_eq!(space.read("rows", 10_000).unwrap().unwrap(), expected);
}

fn a_scrub_past_the_capacity_changes_nothing(backend: &dyn Backend) {
    let space = open(backend);
    let mut writer = space.create_region("rows", 5000).unwrap();
    writer.append_at(0, &[1; 5000]).unwrap();
    for (offset, len) in [(0, 5001), (4999, 2), (5000, 1), (usize::MAX, 2), (1, usize::MAX)] {
        assert_eq!(kind(writer.scrub(&mut space.gate().write(), offset, len)), StorageErrorKind::Io);
    }
    assert_eq!(writer.written_slice(), [1; 5000]);
}

fn a_scrub_needs_the_pass_of_its_own_gate(backend: &dyn Backend) {
    let space = open(backend);
    let other = backend.open("other").unwrap();
    let mut writer = space.create_region("rows", 5000).unwrap();
    writer.append_at(0, &[1; 5000]).unwrap();
    writer.region().publish(5000);
    for gate in [&Gate::new(), other.gate()] {
        let _reader = space.gate().read();
        assert_eq!(kind(writer.scrub(&mut gate.write(), 0, 5000)), StorageErrorKind::Io);
        assert_eq!(writer.written_slice(), [1; 5000]);
    }
}

fn private_memory_is_a_region(backend: &dyn Backend) {
    let space = open(backend);
    for capacity in [0, 1, 100, 1 << 20] {
        let mut writer = RegionWriter::anonymous(space.gate(), capacity).unwrap();
        assert_eq!(writer.region().capacity(), capacity);
        assert_eq!(published(&writer, space.gate()), b"");
        writer.append_at(capacity, &[]).unwrap();
        assert_eq!(writer.written_slice(), vec![0; capacity], "it starts with zeros");
        assert_eq!(writer.written_slice().as_ptr().addr() % 64, 0);
        writer.sync(capacity).unwrap();
        writer.scrub(&mut space.gate().write(), 0, capacity).unwrap();
    }
    assert!(RegionWriter::anonymous(space.gate(), usize::MAX).is_err());
    assert_eq!(space.list("").unwrap(), Vec::<String>::new());
}
