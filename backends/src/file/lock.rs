//! The exclusive lock of a namespace.
//!
//! `LOCK` is locked with flock, which the system releases when its holder dies, however it dies. Inside stands the pid of the
//! holder, padded to a fixed length, and zero while nobody holds it. The text is overwritten in place so that a full disk
//! cannot keep a namespace from being opened.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::os::{self, Context};
use crate::{Result, StorageError, StorageErrorKind, names};

/// `{:<10}\n`: the longest pid has ten digits.
const TEXT_LEN_BYTES: usize = 11;

/// How often, and how far apart, a loser looks for the winner's pid.
const PID_ATTEMPTS: u32 = 20;
const PID_PAUSE: Duration = Duration::from_millis(1);

/// A held lock; released on drop.
#[derive(Debug)]
pub(super) struct NamespaceLock {
    file: File,
}

/// What a lock was taken on.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) lock: NamespaceLock,
    /// No holder ever wrote its pid: the directory may be new, and its entry not durable yet.
    pub(super) fresh: bool,
}

impl NamespaceLock {
    /// Takes the lock of the namespace at `directory`; `None` where there is no such directory (any more).
    ///
    /// # Errors
    /// `AlreadyOpen` at once while somebody holds it.
    pub(super) fn take(operation: &'static str, directory: &Path) -> Result<Option<Taken>> {
        Self::take_opened(operation, directory, os::open_or_create)
    }

    /// As [`NamespaceLock::take`], and `None` where the namespace has no lock file (any more).
    pub(super) fn take_existing(operation: &'static str, directory: &Path) -> Result<Option<Taken>> {
        Self::take_opened(operation, directory, |path| os::open(path, true))
    }

    fn take_opened(operation: &'static str, directory: &Path, open: impl Fn(&Path) -> Result<File>) -> Result<Option<Taken>> {
        let path = directory.join(names::LOCK);
        loop {
            let Some(file) = os::if_found(open(&path))? else {
                os::refuse_dangling(operation, &path)?;
                return Ok(None);
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(already_open(operation, directory, &file));
                }
                Err(TryLockError::Error(error)) => return Err(error).context("lock", &path),
            }
            // The namespace may have been removed, and made anew, between opening and locking: then this is the lock of
            // nothing.
            if is_at(&file, &path)? {
                let fresh = file.metadata().context("inspect", &path)?.len() == 0;
                return Ok(Some(Taken { lock: Self { file }, fresh }));
            }
        }
    }

    /// Writes who holds it.
    pub(super) fn sign(&self, directory: &Path) -> Result<()> {
        os::note("sign", directory);
        self.write_pid(std::process::id()).context("write", &directory.join(names::LOCK))
    }

    /// Whether the namespace at `directory` is still what this lock is the lock of. A lock that somebody removed locks nothing: the next
    /// who opens the namespace makes one of its own, and then two would write.
    ///
    /// # Errors
    /// The lock was removed or replaced.
    pub(super) fn check(&self, directory: &Path) -> Result<()> {
        let path = directory.join(names::LOCK);
        if is_at(&self.file, &path)? {
            return Ok(());
        }
        let message = "it was removed while the namespace was open, so another process may have opened it";
        Err(StorageError::of_kind(StorageErrorKind::Io, "rely on the lock", path, message))
    }

    fn write_pid(&self, pid: u32) -> io::Result<()> {
        os::write_fully(0, format!("{pid:<10}\n").as_bytes(), |bytes, offset| self.file.write_at(bytes, offset))
    }
}

impl Drop for NamespaceLock {
    fn drop(&mut self) {
        // Neither can be reported. A stale pid is told apart by its process being gone, and closing the file releases the
        // lock too; doing it by name matters while a child, forked by somebody else, still shares the descriptor.
        let _ = self.write_pid(0);
        let _ = self.file.unlock();
    }
}

/// Whether `file` is still what `path` names.
fn is_at(file: &File, path: &Path) -> Result<bool> {
    let ours = file.metadata().context("inspect", path)?;
    let named = os::if_found(std::fs::metadata(path).context("inspect", path))?;
    Ok(named.is_some_and(|named| named.ino() == ours.ino() && named.dev() == ours.dev()))
}

fn already_open(operation: &'static str, directory: &Path, file: &File) -> StorageError {
    let pid = holder(file);
    let message = match pid {
        Some(pid) => format!("it is open in process {pid}"),
        None => "it is open in another process".to_owned(),
    };
    StorageError::of_kind(StorageErrorKind::AlreadyOpen { pid }, operation, directory, message)
}

/// The pid in a lock that somebody else holds. A holder signs right after it locked, so a missing pid, or one of a process
/// that is gone (killed, while the next holder has not signed yet), is looked at again for a moment. A pid that stays is
/// told even if no such process is seen from here: the holder may live in another container.
fn holder(file: &File) -> Option<u32> {
    let mut last = None;
    for attempt in 0..PID_ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(PID_PAUSE);
        }
        last = read_pid(file);
        if last.is_some_and(is_alive) {
            break;
        }
    }
    last
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = [0; TEXT_LEN_BYTES];
    let len = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..len)?).ok()?;
    text.strip_suffix('\n')?.trim_end().parse().ok().filter(|pid| *pid != 0)
}

fn is_alive(pid: u32) -> bool {
    !cfg!(target_os = "linux") || PathBuf::from(format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pid that no process has: the largest Linux gives is 4,194,304.
    const NOBODY: u32 = 4_194_305;

    #[test]
    fn a_pid_is_told_even_if_its_process_cannot_be_seen() {
        let root = tempfile::tempdir().unwrap();
        let held = NamespaceLock::take("open", root.path()).unwrap().unwrap();
        held.lock.write_pid(NOBODY).unwrap();
        let error = NamespaceLock::take("open", root.path()).unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::AlreadyOpen { pid: Some(NOBODY) });
    }

    #[test]
    fn a_holder_that_signs_late_is_waited_for() {
        let root = tempfile::tempdir().unwrap();
        for stale in [None, Some(NOBODY)] {
            let held = NamespaceLock::take("open", root.path()).unwrap().unwrap();
            if let Some(pid) = stale {
                held.lock.write_pid(pid).unwrap();
            }
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(PID_PAUSE * 3);
                    held.lock.sign(root.path()).unwrap();
                });
                let error = NamespaceLock::take("open", root.path()).unwrap_err();
                assert_eq!(error.kind, StorageErrorKind::AlreadyOpen { pid: Some(std::process::id()) });
            });
        }
    }

    #[test]
    fn a_holder_that_never_signs_is_told_without_a_pid() {
        let root = tempfile::tempdir().unwrap();
        let _held = NamespaceLock::take("open", root.path()).unwrap().unwrap();
        let error = NamespaceLock::take("open", root.path()).unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::AlreadyOpen { pid: None });
    }

    #[test]
    fn a_lock_whose_name_means_another_file_is_not_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(names::LOCK);
        let file = os::open_or_create(&path).unwrap();
        assert!(is_at(&file, &path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap());
        os::open_or_create(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap());
    }

    #[test]
    fn a_holder_notices_that_its_lock_was_removed_or_replaced() {
        let root = tempfile::tempdir().unwrap();
        let held = NamespaceLock::take("open", root.path()).unwrap().unwrap();
        held.lock.check(root.path()).unwrap();
        std::fs::remove_file(root.path().join(names::LOCK)).unwrap();
        assert_eq!(held.lock.check(root.path()).unwrap_err().kind, StorageErrorKind::Io);
        let other = NamespaceLock::take("open", root.path()).unwrap().unwrap();
        assert_eq!(held.lock.check(root.path()).unwrap_err().kind, StorageErrorKind::Io);
        other.lock.check(root.path()).unwrap();
    }

    #[test]
    fn the_lock_of_a_removed_namespace_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        let (here, aside) = (root.path().join("space"), root.path().join("aside"));
        std::fs::create_dir(&here).unwrap();
        let removed = std::cell::Cell::new(false);
        let taken = NamespaceLock::take_opened("open", &here, |path| {
            let file = os::open_or_create(path)?;
            if !removed.replace(true) {
                // Between opening and locking it is removed, and made anew.
                os::rename(&here, &aside)?;
                os::make_directory(&here)?;
            }
            Ok(file)
        });
        let held = taken.unwrap().unwrap();
        assert!(is_at(&held.lock.file, &here.join(names::LOCK)).unwrap());
        // Made anew or not: without a directory there is nothing to lock.
        std::fs::remove_dir_all(&here).unwrap();
        assert!(NamespaceLock::take("open", &here).unwrap().is_none());
    }

    #[test]
    fn a_lock_that_is_let_go_names_nobody() {
        let root = tempfile::tempdir().unwrap();
        let held = NamespaceLock::take("open", root.path()).unwrap().unwrap();
        held.lock.sign(root.path()).unwrap();
        let file = os::open(&root.path().join(names::LOCK), false).unwrap();
        assert_eq!(read_pid(&file), Some(std::process::id()));
        drop(held);
        assert_eq!(read_pid(&file), None);
        assert!(!NamespaceLock::take("open", root.path()).unwrap().unwrap().fresh);
    }

    #[test]
    fn looking_for_a_lock_makes_none() {
        let root = tempfile::tempdir().unwrap();
        assert!(NamespaceLock::take_existing("remove", root.path()).unwrap().is_none());
        assert!(!root.path().join(names::LOCK).exists());
    }
}
