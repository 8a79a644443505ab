//! What only files can get wrong: locks between processes, crashes, damaged files, full disks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and look at files behind the backend's back"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mnemolith_backends::{Backend, Directory, FileBackend, StorageErrorKind};

const ROOT: &str = "MNEMOLITH_TEST_ROOT";

/// This very program, running one ignored test: the child's half of a test between processes.
fn half(name: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]).env(ROOT, root);
    command
}

/// The root the parent chose; `None` where somebody runs the ignored tests by hand.
fn given_root() -> Option<std::path::PathBuf> {
    std::env::var_os(ROOT).map(Into::into)
}

/// A process that holds the lock of `space`, killed on drop.
struct Holder {
    child: Child,
}

impl Holder {
    fn start(root: &Path) -> Self {
        let mut child = half("child_holds_the_lock", root).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let held = output.lines().any(|line| line.unwrap().ends_with("HELD"));
        let holder = Self { child };
        assert!(held, "the child ended without holding the lock");
        holder
    }

    /// SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the other half of the tests that start a holder"]
fn child_holds_the_lock() {
    let Some(root) = given_root() else { return };
    let space = FileBackend::new(root).open("space").unwrap();
    let mut writer = space.create_region("rows", 4096).unwrap();
    writer.append_at(0, b"of the dead").unwrap();
    println!("HELD");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_lock_names_its_holder_and_dies_with_it() {
    let root = tempfile::tempdir().unwrap();
    let backend = FileBackend::new(root.path());
    let mut holder = Holder::start(root.path());
    let held = StorageErrorKind::AlreadyOpen { pid: Some(holder.child.id()) };
    let error = backend.open("space").unwrap_err();
    assert_eq!(error.kind, held);
    assert!(error.to_string().contains(&holder.child.id().to_string()), "{error}");
    assert_eq!(backend.remove("space").unwrap_err().kind, held);
    assert!(root.path().join("space/rows").exists());
    holder.kill();
    let space = backend.open("space").expect("the lock of a killed process is free at once");
    let writer = space.open_region("rows", 4096, 11).unwrap();
    assert_eq!(writer.written_slice(), b"of the dead");
    // The pid inside is now the new holder's.
    let error = backend.open("space").unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::AlreadyOpen { pid: Some(std::process::id()) });
}

#[test]
fn opening_never_meets_a_half_removed_namespace() {
    let root = tempfile::tempdir().unwrap();
    let busy = |kind| matches!(kind, StorageErrorKind::AlreadyOpen { .. });
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..150 {
                    // A new one each time looks for leftovers each time.
                    match FileBackend::new(root.path()).open("space") {
                        Ok(space) => {
                            // What is written here is there until this handle is gone.
                            space.create_folder("a").unwrap();
                            space.replace("a/file", b"text").unwrap();
                            assert_eq!(space.read("a/file", 9).unwrap().unwrap(), b"text");
                            assert_eq!(space.list("").unwrap(), ["a"]);
                        }
                        Err(error) => assert!(busy(error.kind), "{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            let backend = FileBackend::new(root.path());
            for _ in 0..300 {
                if let Err(error) = backend.remove("space") {
                    assert!(busy(error.kind), "{error}");
                }
            }
        });
    });
    FileBackend::new(root.path()).remove("space").unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "removals leave nothing behind");
}

#[test]
fn a_removal_that_a_crash_interrupted_is_finished() {
    let root = tempfile::tempdir().unwrap();
    let left = root.path().join(".removed-space-0");
    fs::create_dir_all(left.join("slabs")).unwrap();
    fs::write(left.join("slabs/rows"), b"x").unwrap();
    fs::write(left.join("LOCK"), b"").unwrap();
    // Its lock is the last thing to go.
    fs::create_dir(root.path().join(".removed-space-1")).unwrap();
    let backend = FileBackend::new(root.path());
    assert_eq!(backend.namespaces().unwrap(), Vec::<String>::new());
    let space = backend.open("space").unwrap();
    assert_eq!(space.list("").unwrap(), Vec::<String>::new());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn a_replacement_that_a_crash_interrupted_goes_at_the_next_open() {
    let root = tempfile::tempdir().unwrap();
    let backend = FileBackend::new(root.path());
    backend.open("space").unwrap().replace("file", b"old").unwrap();
    let left = root.path().join("space/.tmp-0");
    fs::write(&left, b"half").unwrap();
    let space = backend.open("space").unwrap();
    assert!(!left.exists());
    space.replace("file", b"new").unwrap();
    assert_eq!(space.read("file", 9).unwrap().unwrap(), b"new");
}

#[test]
fn a_replacement_that_fails_leaves_the_old_content_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let space = FileBackend::new(root.path()).open("space").unwrap();
    // Renaming a file onto a folder fails when everything else is done.
    space.create_folder("folder").unwrap();
    assert!(space.replace("folder", b"x").is_err());
    assert_eq!(names_on_disk(&root.path().join("space")), ["LOCK", "folder"]);
}

#[test]
fn a_region_is_allocated_and_a_sparse_one_is_refused() {
    const LEN: u64 = 1 << 20;
    let root = tempfile::tempdir().unwrap();
    let space = FileBackend::new(root.path()).open("space").unwrap();
    for len in [1, 4097, LEN] {
        drop(space.create_region("rows", len).unwrap());
        let metadata = fs::metadata(root.path().join("space/rows")).unwrap();
        assert_eq!(metadata.len(), len);
        assert!(metadata.blocks() * 512 >= len);
        space.create_zeroed("zeros", len).unwrap();
        assert!(fs::metadata(root.path().join("space/zeros")).unwrap().blocks() * 512 >= len);
    }
    let sparse = root.path().join("space/sparse");
    fs::File::create(&sparse).unwrap().set_len(LEN).unwrap();
    if fs::metadata(&sparse).unwrap().blocks() * 512 >= LEN {
        println!("SKIPPED: this file system has no sparse files");
        return;
    }
    let error = space.open_region("sparse", LEN, 0).unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Damaged);
    assert!(error.to_string().contains("sparse"), "{error}");
    // One missing block is one too many.
    space.create_zeroed("holed", LEN).unwrap();
    let holed = root.path().join("space/holed");
    let cut = fs::OpenOptions::new().write(true).open(&holed).unwrap();
    cut.set_len(LEN - 4096).unwrap();
    cut.set_len(LEN).unwrap();
    assert_eq!(space.open_region("holed", LEN, 0).unwrap_err().kind, StorageErrorKind::Damaged);
    // The refusal let go of the file.
    space.write_at("holed", &[(0, &vec![0; 1 << 20])]).unwrap();
    space.open_region("holed", LEN, 0).unwrap();
}

#[test]
fn an_idle_namespace_holds_one_descriptor() {
    let root = tempfile::tempdir().unwrap();
    let space = FileBackend::new(root.path()).open("space").unwrap();
    let writers: Vec<_> = (0..3).map(|n| space.create_region(&format!("rows{n}"), 4096).unwrap()).collect();
    let open = |suffix: &str| {
        let here = fs::canonicalize(root.path()).unwrap().join("space");
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .filter(|target| target.starts_with(&here) && target.to_string_lossy().ends_with(suffix))
            .count()
    };
    if !Path::new("/proc/self/fd").exists() {
        println!("SKIPPED: no /proc");
        return;
    }
    assert_eq!((open(""), open("/LOCK")), (1, 1));
    let log = space.create_log("log", 4096).unwrap();
    assert_eq!(open(""), 2);
    drop((writers, log, space));
    assert_eq!(open(""), 0);
}

#[test]
fn errors_say_what_was_done_to_what() {
    let root = tempfile::tempdir().unwrap();
    let space = FileBackend::new(root.path()).open("space").unwrap();
    let error = space.open_log("wal/1").unwrap_err();
    assert_eq!((error.operation, error.source.raw_os_error()), ("open", Some(libc::ENOENT)));
    assert_eq!(error.path, root.path().join("space/wal/1"));
    let file = root.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = FileBackend::new(&file).open("space").unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Io);
    assert_eq!(error.path, file);
}

/// It is there for who makes the directory and missing for who looks into it: opening must not go from one to the other for ever.
#[test]
fn a_link_to_nothing_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let backend = FileBackend::new(root.path());
    let space = root.path().join("space");
    std::os::unix::fs::symlink("nowhere/at/all", &space).unwrap();
    assert_eq!(backend.open("space").unwrap_err().path, space);
    fs::remove_file(&space).unwrap();
    fs::create_dir(&space).unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", space.join("LOCK")).unwrap();
    assert_eq!(backend.open("space").unwrap_err().path, space.join("LOCK"));
    // A link to a directory is as good as the directory.
    std::os::unix::fs::symlink(tempfile::tempdir_in(root.path()).unwrap().keep(), root.path().join("elsewhere")).unwrap();
    backend.open("elsewhere").unwrap();
}

fn names_on_disk(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// In a mount namespace of its own, so that nothing is left mounted whatever happens.
#[test]
fn a_full_disk_is_a_clean_error() {
    let root = tempfile::tempdir().unwrap();
    let command = half("child_fills_a_small_disk", root.path());
    let mut unshared = Command::new("unshare");
    unshared.args(["--mount", "--map-root-user", "--"]).arg(command.get_program()).args(command.get_args());
    let output = match unshared.env(ROOT, root.path()).output() {
        Ok(output) => output,
        Err(error) => return println!("SKIPPED: no unshare: {error}"),
    };
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if text.contains("MOUNTED") {
        assert!(output.status.success() && text.contains("FILLED"), "{text}");
    } else {
        println!("SKIPPED: no small disk can be mounted here: {text}");
    }
}

#[test]
#[ignore = "the other half of a_full_disk_is_a_clean_error"]
fn child_fills_a_small_disk() {
    const MIB: u64 = 1 << 20;
    let Some(root) = given_root() else { return };
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(&root).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    println!("MOUNTED");
    let backend = FileBackend::new(&root);
    let space = backend.open("space").unwrap();
    space.replace("file", b"old").unwrap();
    drop(space.create_region("rows", 2 * MIB).unwrap());
    let no_space = |space: &dyn Directory| {
        assert_eq!(space.create_region("region", 3 * MIB).unwrap_err().kind, StorageErrorKind::NoSpace);
        assert_eq!(space.create_log("log", 3 * MIB).unwrap_err().kind, StorageErrorKind::NoSpace);
        assert_eq!(space.create_zeroed("zeroed", 3 * MIB).unwrap_err().kind, StorageErrorKind::NoSpace);
        assert_eq!(space.replace("file", &vec![1; 3 << 20]).unwrap_err().kind, StorageErrorKind::NoSpace);
        assert_eq!(space.read("file", 9).unwrap().unwrap(), b"old");
        assert_eq!(names_on_disk(&space.path()), ["LOCK", "file", "rows"]);
    };
    no_space(&*space);
    // Full to the last block, a namespace still opens, what is allocated is written, and room is made.
    let filler = fs::File::create(root.join("filler")).unwrap();
    while std::io::Write::write_all(&mut &filler, &[1; 512]).is_ok() {}
    drop(space);
    let space = backend.open("space").unwrap();
    no_space(&*space);
    let mut writer = space.open_region("rows", 2 * MIB, 0).unwrap();
    writer.append_at(0, &vec![1; 2 << 20]).unwrap();
    writer.sync(2 << 20).unwrap();
    drop(writer);
    assert!(space.remove_file("rows").unwrap());
    space.create_log("log", MIB).unwrap().write_durable_at(0, &[1; 4096]).unwrap();
    space.replace("file", b"new").unwrap();
    assert_eq!(space.read("file", 9).unwrap().unwrap(), b"new");
    println!("FILLED");
}
