//! Names, isolation, and the lock.

use super::{kind, list_checks, open};
use crate::{Backend, StorageErrorKind};

list_checks!(
    namespaces_are_listed_in_order,
    a_namespace_has_a_plain_name,
    a_second_holder_is_told_who_holds,
    whatever_is_left_open_keeps_the_lock,
    a_namespace_in_use_is_not_removed,
    a_removed_namespace_is_gone,
    namespaces_do_not_see_each_other,
);

fn ours() -> StorageErrorKind {
    StorageErrorKind::AlreadyOpen { pid: Some(std::process::id()) }
}

fn namespaces_are_listed_in_order(backend: &dyn Backend) {
    for name in ["b", "a-2", "c_3", "a"] {
        backend.open(name).unwrap();
    }
    assert_eq!(backend.namespaces().unwrap(), ["a", "a-2", "b", "c_3"]);
}

fn a_namespace_has_a_plain_name(backend: &dyn Backend) {
    for name in ["", ".", "..", "a/b", "/a", "A", "a.b", "ä", "a\0", &"a".repeat(64)] {
        assert_eq!(kind(backend.open(name)), StorageErrorKind::Io, "{name:?}");
        assert_eq!(kind(backend.remove(name)), StorageErrorKind::Io, "{name:?}");
    }
    assert_eq!(backend.namespaces().unwrap(), Vec::<String>::new());
    backend.open(&"a".repeat(63)).unwrap();
}

fn a_second_holder_is_told_who_holds(backend: &dyn Backend) {
    let held = open(backend);
    assert_eq!(kind(backend.open("space")), ours());
    let again = std::sync::Arc::clone(&held);
    drop(held);
    assert_eq!(kind(backend.open("space")), ours(), "a clone of the handle is the handle");
    drop(again);
    backend.open("space").unwrap();
    backend.open("space").unwrap();
}

/// A region is read in place and a log is written by position: neither may meet a second holder.
fn whatever_is_left_open_keeps_the_lock(backend: &dyn Backend) {
    let space = open(backend);
    let writer = space.create_region("rows", 4096).unwrap();
    let region = writer.region().clone();
    let log = space.create_log("log", 4096).unwrap();
    drop(space);
    assert_eq!(kind(backend.open("space")), ours());
    drop(writer);
    drop(log);
    assert_eq!(kind(backend.open("space")), ours(), "a reader's handle is left");
    drop(region);
    let log = open(backend).open_log("log").unwrap();
    assert_eq!(kind(backend.open("space")), ours(), "a log is left");
    drop(log);
    open(backend);
}

fn a_namespace_in_use_is_not_removed(backend: &dyn Backend) {
    let space = open(backend);
    space.replace("kept", b"text").unwrap();
    assert_eq!(kind(backend.remove("space")), ours());
    assert_eq!(space.read("kept", 9).unwrap().unwrap(), b"text");
    assert_eq!(backend.namespaces().unwrap(), ["space"]);
}

fn a_removed_namespace_is_gone(backend: &dyn Backend) {
    assert!(!backend.remove("space").unwrap());
    for _ in 0..2 {
        let space = open(backend);
        assert_eq!(space.list("").unwrap(), Vec::<String>::new());
        space.create_folder("a/b").unwrap();
        space.replace("a/b/file", b"text").unwrap();
        space.create_region("a/rows", 4096).unwrap();
        drop(space);
        assert!(backend.remove("space").unwrap());
        assert!(!backend.remove("space").unwrap());
        assert_eq!(backend.namespaces().unwrap(), Vec::<String>::new());
    }
}

fn namespaces_do_not_see_each_other(backend: &dyn Backend) {
    let (one, two) = (backend.open("one").unwrap(), backend.open("two").unwrap());
    one.replace("file", b"one").unwrap();
    assert_eq!(two.read("file", 9).unwrap(), None);
    two.replace("file", b"two").unwrap();
    drop(two);
    assert!(backend.remove("two").unwrap());
    assert_eq!(one.read("file", 9).unwrap().unwrap(), b"one");
}
