//! One log segment: positioned writes that are durable when they return.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::directory::Namespace;
use super::os::{self, Context};
use crate::uses::UseToken;
use crate::{LogFile, Result, StorageError, names};

/// Writes, and returns when what it wrote survives power loss.
type OneCall = fn(&File, &[u8], u64) -> io::Result<usize>;

/// An open segment.
#[derive(Debug)]
pub(super) struct FileLog {
    file: File,
    path: PathBuf,
    len: u64,
    /// The system refused the one-call way once; nothing but a write tells whether a file system knows it.
    two_calls: AtomicBool,
    one_call: OneCall,
    _token: UseToken,
    namespace: Arc<Namespace>,
}

impl FileLog {
    pub(super) fn new(file: File, path: &Path, token: UseToken, namespace: Arc<Namespace>) -> Result<Self> {
        let len = file.metadata().context("inspect", path)?.len();
        let path = path.to_owned();
        Ok(Self { file, path, len, two_calls: AtomicBool::new(false), one_call: os::write_durable, _token: token, namespace })
    }

    fn check(&self, operation: &'static str, offset: u64, len: usize) -> Result<()> {
        names::check_range(operation, &self.path.to_string_lossy(), offset, len, self.len).map(drop)
    }

    fn write_in_two_calls(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        os::write_all_at(&self.file, &self.path, offset, bytes)?;
        self.sync()
    }
}

impl LogFile for FileLog {
    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check("write", offset, bytes.len())?;
        self.namespace.check_held()?;
        if self.two_calls.load(Ordering::Relaxed) {
            return self.write_in_two_calls(offset, bytes);
        }
        match os::write_fully(offset, bytes, |bytes, offset| (self.one_call)(&self.file, bytes, offset)) {
            Ok(()) => Ok(()),
            Err(error) if os::is_unsupported(&error) => {
                self.two_calls.store(true, Ordering::Relaxed);
                self.write_in_two_calls(offset, bytes)
            }
            Err(error) => Err(StorageError::new("write", &self.path, error)),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check("write", offset, bytes.len())?;
        self.namespace.check_held()?;
        os::write_all_at(&self.file, &self.path, offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        os::sync_data(&self.file, &self.path)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check("read", offset, buffer.len())?;
        self.file.read_exact_at(buffer, offset).context("read", &self.path)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn method(&self) -> &'static str {
        if self.two_calls.load(Ordering::Relaxed) { "pwrite+fdatasync" } else { "pwritev2(RWF_DSYNC)" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::durability_tests::{calls, namespace};
    use super::*;

    fn log(one_call: OneCall) -> (tempfile::TempDir, FileLog) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log");
        let file = os::create_new(&path).unwrap();
        os::write_zeros(&file, &path, 8192).unwrap();
        let mut log = FileLog::new(file, &path, UseToken::default(), namespace(root.path())).unwrap();
        log.one_call = one_call;
        (root, log)
    }

    #[test]
    fn a_system_that_does_not_know_one_call_gets_two() {
        for errno in [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL] {
            let (root, log) = log(match errno {
                libc::EOPNOTSUPP => |_, _, _| Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
                libc::ENOSYS => |_, _, _| Err(io::Error::from_raw_os_error(libc::ENOSYS)),
                _ => |_, _, _| Err(io::Error::from_raw_os_error(libc::EINVAL)),
            });
            assert_eq!(log.method(), "pwritev2(RWF_DSYNC)");
            for offset in [10, 5000] {
                let made = calls(root.path(), || log.write_durable_at(offset, b"frame").unwrap());
                assert_eq!(made, ["write log", "sync data of log"]);
                assert_eq!(log.method(), "pwrite+fdatasync");
                let mut back = [0; 5];
                log.read_at(offset, &mut back).unwrap();
                assert_eq!(&back, b"frame");
            }
        }
    }

    #[test]
    fn an_error_of_the_device_is_told_and_not_tried_another_way() {
        let (root, log) = log(|_, _, _| Err(io::Error::from_raw_os_error(libc::EIO)));
        let made = calls(root.path(), || {
            let error = log.write_durable_at(0, b"frame").unwrap_err();
            assert_eq!(error.source.raw_os_error(), Some(libc::EIO));
        });
        assert_eq!(made, Vec::<String>::new());
        assert_eq!(log.method(), "pwritev2(RWF_DSYNC)");
    }

    #[test]
    fn one_call_goes_on_where_it_stopped() {
        let (_root, log) = log(|file, bytes, offset| os::write_durable(file, &bytes[..bytes.len().min(1000)], offset));
        let bytes: Vec<u8> = (0..5000_u32).map(|at| (at % 251) as u8).collect();
        log.write_durable_at(77, &bytes).unwrap();
        let mut back = vec![0; 5000];
        log.read_at(77, &mut back).unwrap();
        assert_eq!(back, bytes);
        assert_eq!(log.method(), "pwritev2(RWF_DSYNC)");
    }
}
