//! In which order the system is asked to make things durable: a sync that is missing does not show in any content, and
//! only a power cut would find it.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use super::directory::{FileDirectory, Namespace};
use super::lock::NamespaceLock;
use super::root::FileBackend;
use crate::{Backend, Directory};

thread_local! {
    static CALLS: RefCell<Vec<(String, std::path::PathBuf)>> = const { RefCell::new(Vec::new()) };
}

/// Called by every helper that changes something.
pub(super) fn note(call: &str, path: &Path) {
    CALLS.with_borrow_mut(|calls| calls.push((call.to_owned(), path.to_owned())));
}

/// What this thread asked of the system during `work`, by paths relative to `root`.
pub(super) fn calls(root: &Path, work: impl FnOnce()) -> Vec<String> {
    CALLS.take();
    work();
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    CALLS.take().iter().map(|(call, path)| format!("{call} {}", name(path))).collect()
}

/// A locked directory.
pub(super) fn namespace(path: &Path) -> Arc<Namespace> {
    let taken = NamespaceLock::take("open", path).unwrap().unwrap();
    FileDirectory::new(path.to_owned(), taken.lock).unwrap().namespace()
}

#[test]
fn a_new_namespace_is_durable_before_it_is_signed() {
    let above = tempfile::tempdir().unwrap();
    let backend = FileBackend::new(above.path().join("a/root"));
    let made = calls(above.path(), || drop(backend.open("space").unwrap()));
    let expected = [
        "make directory a",
        "sync directory ",
        "make directory a/root",
        "sync directory a",
        "make directory a/root/space",
        "sync directory a/root/space",
        "sync directory a/root",
        "sign a/root/space",
    ];
    assert_eq!(made, expected);
    let made = calls(above.path(), || drop(backend.open("space").unwrap()));
    assert_eq!(made, ["make directory a/root/space", "sign a/root/space"], "and once is enough");
}

#[test]
fn a_removed_namespace_is_durably_out_of_the_way_before_it_is_taken_apart() {
    let above = tempfile::tempdir().unwrap();
    let backend = FileBackend::new(above.path());
    backend.open("space").unwrap().replace("file", b"x").unwrap();
    let made = calls(above.path(), || assert!(backend.remove("space").unwrap()));
    let aside = format!(".removed-space-{}-0", std::process::id());
    let expected = [
        "sign space".to_owned(),
        format!("rename to {aside}"),
        "sync directory ".to_owned(),
        format!("remove {aside}/file"),
        format!("remove {aside}/LOCK"),
        "sync directory ".to_owned(),
    ];
    assert_eq!(made, expected);
}

#[test]
fn files_are_durable_before_their_names() {
    let root = tempfile::tempdir().unwrap();
    let space = FileDirectory::of(namespace(root.path()));
    let made = calls(root.path(), || space.create_folder("a/b").unwrap());
    assert_eq!(made, ["make directory a", "sync directory ", "make directory a/b", "sync directory a"]);
    let made = calls(root.path(), || space.replace("a/file", b"x").unwrap());
    let expected = ["create .tmp-0", "write .tmp-0", "sync .tmp-0", "rename to a/file", "sync directory a"];
    assert_eq!(made, expected);
    for create in
        [&(|name: &str| space.create_zeroed(name, 4096).unwrap()) as &dyn Fn(&str), &|name| drop(space.create_region(name, 4096).unwrap())]
    {
        let made = calls(root.path(), || create("a/new"));
        assert_eq!(made, ["remove a/new", "create a/new", "sync a/new", "sync directory a"]);
    }
    let made = calls(root.path(), || drop(space.create_log("a/log", 4096).unwrap()));
    assert_eq!(made, ["remove a/log", "create a/log", "write a/log", "sync a/log", "sync directory a"]);
    let made = calls(root.path(), || space.write_at("a/new", &[(0, b"x"), (9, b"y")]).unwrap());
    assert_eq!(made, ["write a/new", "write a/new", "sync data of a/new"]);
    let made = calls(root.path(), || assert!(space.remove_file("a/new").unwrap()));
    assert_eq!(made, ["remove a/new"], "the caller syncs the folder");
    assert_eq!(calls(root.path(), || space.sync_folder("a").unwrap()), ["sync directory a"]);
}

#[test]
fn regions_and_logs_sync_when_asked() {
    let root = tempfile::tempdir().unwrap();
    let space = FileDirectory::of(namespace(root.path()));
    let mut writer = space.create_region("rows", 8192).unwrap();
    let made = calls(root.path(), || writer.append_at(0, &[1; 8192]).unwrap());
    assert_eq!(made, Vec::<String>::new());
    assert_eq!(calls(root.path(), || writer.sync(1).unwrap()), ["sync map of rows"]);
    let made = calls(root.path(), || writer.scrub(&mut space.gate().write(), 5000, 1).unwrap());
    assert_eq!(made, ["sync map of rows"]);
    let log = space.create_log("log", 4096).unwrap();
    assert_eq!(calls(root.path(), || log.write_at(0, b"x").unwrap()), ["write log"]);
    assert_eq!(calls(root.path(), || log.sync().unwrap()), ["sync data of log"]);
}
