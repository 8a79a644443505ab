//! Which names a backend accepts: nothing that could leave the namespace or hide what a backend keeps for itself.

use std::io;

use crate::{Result, StorageError};

/// The lock file of a namespace: never listed, never given out as a path.
pub(crate) const LOCK: &str = "LOCK";

/// Longest name of a namespace, in bytes.
const NAMESPACE_MAX: usize = 63;

/// Whether this may name a namespace: 1..=63 of a-z, 0-9, `-`, `_`.
pub(crate) fn is_namespace(name: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=NAMESPACE_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

/// An error where this may not name a namespace.
pub(crate) fn check_namespace(operation: &'static str, name: &str) -> Result<()> {
    if is_namespace(name) {
        return Ok(());
    }
    Err(invalid(operation, name, "a namespace is named by 1 to 63 of a-z, 0-9, '-' and '_'"))
}

/// An error where this is not the path of a file: relative, no empty component, none that starts with a dot, not the lock.
pub(crate) fn check_file(operation: &'static str, path: &str) -> Result<()> {
    let plain = |component: &str| !component.is_empty() && !component.starts_with('.') && !component.contains('\0');
    if path.split('/').all(plain) && path.split('/').next() != Some(LOCK) {
        return Ok(());
    }
    Err(invalid(operation, path, "not a path inside a namespace"))
}

/// As [`check_file`]; the namespace itself, `""`, is a folder too.
pub(crate) fn check_folder(operation: &'static str, folder: &str) -> Result<()> {
    if folder.is_empty() { Ok(()) } else { check_file(operation, folder) }
}

/// Whether an entry is the kernel's own, not the backend's: temporary files start with a dot, and the lock is hidden.
pub(crate) fn is_listed(folder: &str, name: &str) -> bool {
    let is_lock = folder.is_empty() && name == LOCK;
    !is_lock && !name.starts_with('.')
}

/// The end of a run of `len` bytes at `offset` in a file of `file_len` bytes, or an error where it runs past the end.
pub(crate) fn check_range(operation: &'static str, path: &str, offset: u64, len: usize, file_len: u64) -> Result<u64> {
    let end = u64::try_from(len).ok().and_then(|len| offset.checked_add(len));
    end.filter(|end| *end <= file_len)
        .ok_or_else(|| invalid(operation, path, &format!("{len} bytes at {offset} run past its {file_len} bytes")))
}

/// A request that no file could serve.
pub(crate) fn invalid(operation: &'static str, path: &str, message: &str) -> StorageError {
    StorageError::new(operation, path, io::Error::new(io::ErrorKind::InvalidInput, message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_namespace_are_refused() {
        for path in ["", "/a", "a/", "a//b", "..", "a/../b", ".", "./a", ".tmp-1", "a/.b", "LOCK", "LOCK/a", "a\0b"] {
            assert!(check_file("read", path).is_err(), "{path:?} was accepted");
        }
        for path in ["a", "slabs/00000003/headers.slab", "wal/LOCK", "a..b"] {
            assert!(check_file("read", path).is_ok(), "{path:?} was refused");
        }
        assert!(check_folder("list", "").is_ok());
    }

    #[test]
    fn namespaces_are_one_to_sixty_three_plain_letters() {
        for name in ["", "A", "a.b", "a/b", "..", "ä", &"a".repeat(64)] {
            assert!(!is_namespace(name), "{name:?} was accepted");
        }
        for name in ["a", "0-_z", &"a".repeat(63)] {
            assert!(is_namespace(name), "{name:?} was refused");
        }
    }

    #[test]
    fn ranges_do_not_wrap_around() {
        assert!(check_range("read", "a", u64::MAX, 2, 10).is_err());
        assert!(check_range("read", "a", 9, 2, 10).is_err());
        assert_eq!(check_range("read", "a", 8, 2, 10).unwrap(), 10);
        assert_eq!(check_range("read", "a", 10, 0, 10).unwrap(), 10);
    }
}
