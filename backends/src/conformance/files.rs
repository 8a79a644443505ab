//! Folders, and files that are read and written whole or by position.

use super::{kind, list_checks, open, pattern};
use crate::{Backend, StorageErrorKind};

list_checks!(
    folders_are_created_with_their_parents,
    entries_are_listed_in_order,
    a_path_stays_inside_the_namespace,
    nothing_is_created_in_a_missing_folder,
    a_file_is_replaced_whole,
    a_read_is_bounded,
    a_zeroed_file_is_zero,
    runs_are_written_where_they_belong,
    a_run_past_the_end_writes_nothing,
    a_removed_file_is_gone,
    allocation_is_counted,
);

fn folders_are_created_with_their_parents(backend: &dyn Backend) {
    let space = open(backend);
    assert_eq!(space.list("a").unwrap(), Vec::<String>::new());
    assert_eq!(kind(space.sync_folder("a")), StorageErrorKind::NotFound);
    space.create_folder("a/b/c").unwrap();
    space.create_folder("a/b/c").unwrap();
    space.create_folder("a/d").unwrap();
    space.create_folder("").unwrap();
    assert_eq!(space.list("").unwrap(), ["a"]);
    assert_eq!(space.list("a").unwrap(), ["b", "d"]);
    for folder in ["", "a", "a/b", "a/b/c"] {
        space.sync_folder(folder).unwrap();
    }
    space.replace("file", b"").unwrap();
    assert_eq!(kind(space.create_folder("file")), StorageErrorKind::Io);
    assert_eq!(kind(space.create_folder("file/a")), StorageErrorKind::Io);
    assert_eq!(kind(space.remove_file("a")), StorageErrorKind::Io, "a folder is not a file");
    drop(space);
    assert_eq!(open(backend).list("a/b").unwrap(), ["c"], "an empty folder is there after reopening");
}

fn entries_are_listed_in_order(backend: &dyn Backend) {
    let space = open(backend);
    space.create_folder("wal/deeper").unwrap();
    for name in ["wal/10", "wal/2", "wal/1", "wal/B", "wal/a", "wal/deeper/x", "wala"] {
        space.replace(name, b"").unwrap();
    }
    assert_eq!(space.list("wal").unwrap(), ["1", "10", "2", "B", "a", "deeper"]);
    assert_eq!(space.list("").unwrap(), ["wal", "wala"], "what the backend keeps for itself is not listed");
}

fn a_path_stays_inside_the_namespace(backend: &dyn Backend) {
    let space = open(backend);
    space.create_folder("a").unwrap();
    for path in ["", "/a", "a/", "a//b", "..", "../space/x", "a/../b", ".", "./b", ".hidden", "a/.b", "LOCK", "a\0b"] {
        assert_eq!(kind(space.read(path, 9)), StorageErrorKind::Io, "{path:?}");
        assert_eq!(kind(space.replace(path, b"x")), StorageErrorKind::Io, "{path:?}");
        assert_eq!(kind(space.remove_file(path)), StorageErrorKind::Io, "{path:?}");
        assert_eq!(kind(space.create_zeroed(path, 9)), StorageErrorKind::Io, "{path:?}");
        assert_eq!(kind(space.write_at(path, &[])), StorageErrorKind::Io, "{path:?}");
        assert_eq!(kind(space.create_log(path, 9)), StorageErrorKind::Io, "{path:?}");
        assert_eq!(kind(space.open_log(path)), StorageErrorKind::Io, "{path:?}");
        assert_eq!(kind(space.create_region(path, 9)), StorageErrorKind::Io, "{path:?}");
        assert_eq!(kind(space.open_region(path, 9, 0)), StorageErrorKind::Io, "{path:?}");
        if !path.is_empty() {
            assert_eq!(kind(space.list(path)), StorageErrorKind::Io, "{path:?}");
            assert_eq!(kind(space.create_folder(path)), StorageErrorKind::Io, "{path:?}");
            assert_eq!(kind(space.sync_folder(path)), StorageErrorKind::Io, "{path:?}");
        }
    }
    assert_eq!(space.list("").unwrap(), ["a"]);
}

fn nothing_is_created_in_a_missing_folder(backend: &dyn Backend) {
    let space = open(backend);
    assert_eq!(kind(space.replace("a/b", b"x")), StorageErrorKind::NotFound);
    assert_eq!(kind(space.create_zeroed("a/b", 9)), StorageErrorKind::NotFound);
    assert_eq!(kind(space.create_log("a/b", 9)), StorageErrorKind::NotFound);
    assert_eq!(kind(space.create_region("a/b", 9)), StorageErrorKind::NotFound);
    assert_eq!(space.list("").unwrap(), Vec::<String>::new());
}

fn a_file_is_replaced_whole(backend: &dyn Backend) {
    let space = open(backend);
    let (long, short) = (pattern(70_000, 1), pattern(10, 2));
    for bytes in [&short[..], &long, &short, &[], &long] {
        space.replace("file", bytes).unwrap();
        assert_eq!(space.read("file", 70_000).unwrap().unwrap(), bytes);
        assert_eq!(space.list("").unwrap(), ["file"]);
    }
    drop(space);
    assert_eq!(open(backend).read("file", 70_000).unwrap().unwrap(), long);
    // A reader in the middle of it sees one content or the other, at every moment.
    let space = open(backend);
    space.replace("file", &pattern(5000, 0)).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..50).for_each(|seed| space.replace("file", &pattern(5000, seed)).unwrap()));
        while !writer.is_finished() {
            let seen = space.read("file", 5000).unwrap().expect("always there");
            assert!((0..50).any(|seed| seen == pattern(5000, seed)), "a mixture of two contents");
        }
    });
}

fn a_read_is_bounded(backend: &dyn Backend) {
    let space = open(backend);
    assert_eq!(space.read("file", 100).unwrap(), None);
    assert_eq!(space.read("folder/file", 100).unwrap(), None);
    space.replace("file", b"0123456789").unwrap();
    assert_eq!(space.read("file", 10).unwrap().unwrap(), b"0123456789");
    assert_eq!(space.read("file", u64::MAX).unwrap().unwrap(), b"0123456789");
    assert_eq!(kind(space.read("file", 9)), StorageErrorKind::Damaged);
    assert_eq!(kind(space.read("file", 0)), StorageErrorKind::Damaged);
    space.replace("file", b"").unwrap();
    assert_eq!(space.read("file", 0).unwrap().unwrap(), b"");
}

fn a_zeroed_file_is_zero(backend: &dyn Backend) {
    let space = open(backend);
    for len in [10_000, 1, 0, 4096] {
        space.create_zeroed("file", len).unwrap();
        assert_eq!(space.read("file", len).unwrap().unwrap(), vec![0; len as usize]);
        space.replace("file", &pattern(20_000, 1)).unwrap();
    }
}

fn runs_are_written_where_they_belong(backend: &dyn Backend) {
    let space = open(backend);
    space.create_zeroed("file", 10_000).unwrap();
    space.write_at("file", &[(9_990, &[1; 10]), (0, &[2; 3]), (4095, &[3; 2]), (4096, &[4]), (10_000, &[])]).unwrap();
    space.write_at("file", &[]).unwrap();
    drop(space);
    let mut expected = vec![0; 10_000];
    expected[9_990..].fill(1);
    expected[..3].fill(2);
    expected[4095] = 3;
    expected[4096] = 4;
    assert_eq!(open(backend).read("file", 10_000).unwrap().unwrap(), expected);
}

fn a_run_past_the_end_writes_nothing(backend: &dyn Backend) {
    let space = open(backend);
    assert_eq!(kind(space.write_at("file", &[(0, b"x")])), StorageErrorKind::NotFound);
    assert_eq!(space.list("").unwrap(), Vec::<String>::new());
    space.create_zeroed("file", 100).unwrap();
    for (offset, len) in [(100, 1), (99, 2), (u64::MAX, 1), (u64::MAX, 2), (101, 0)] {
        let past = vec![2; len];
        assert_eq!(kind(space.write_at("file", &[(0, &[1; 10]), (offset, &past)])), StorageErrorKind::Io);
        assert_eq!(space.read("file", 100).unwrap().unwrap(), [0; 100]);
    }
}

fn a_removed_file_is_gone(backend: &dyn Backend) {
    let space = open(backend);
    assert!(!space.remove_file("file").unwrap());
    assert!(!space.remove_file("folder/file").unwrap());
    space.replace("file", b"x").unwrap();
    assert!(space.remove_file("file").unwrap());
    assert!(!space.remove_file("file").unwrap());
    space.sync_folder("").unwrap();
    assert_eq!(space.read("file", 9).unwrap(), None);
    assert_eq!(space.list("").unwrap(), Vec::<String>::new());
}

fn allocation_is_counted(backend: &dyn Backend) {
    const LEN: u64 = 1 << 20;
    let space = open(backend);
    space.create_folder("deep/er").unwrap();
    let before = space.allocated_bytes().unwrap();
    space.create_zeroed("deep/er/file", LEN).unwrap();
    let full = space.allocated_bytes().unwrap();
    assert!((before + LEN..before + 2 * LEN).contains(&full), "{before} -> {full}");
    drop(space.create_region("rows", LEN).unwrap());
    drop(space.create_log("log", LEN).unwrap());
    assert!(space.allocated_bytes().unwrap() >= full + 2 * LEN);
    for path in ["deep/er/file", "rows", "log"] {
        assert!(space.remove_file(path).unwrap());
    }
    assert!(space.allocated_bytes().unwrap() < before + LEN);
}
