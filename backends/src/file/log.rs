//! One log segment: positioned writes that are durable when they return.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::directory::Namespace;
use super::os::{self, Context};
use crate::uses::UseToken;
use crate::{LogFile, Result, StorageError, names};

/// An open segment.
#[derive(Debug)]
pub(super) struct FileLog {
    file: File,
    path: PathBuf,
    len: u64,
    /// The system refused the one-call way once; nothing but a write tells whether a file system knows it.
    two_calls: AtomicBool,
    _token: UseToken,
    _namespace: Arc<Namespace>,
}

impl FileLog {
    pub(super) fn new(
        file: File,
        path: &Path,
        token: UseToken,
        namespace: Arc<Namespace>,
    ) -> Result<Self> {
        let len = file.metadata().context("inspect", path)?.len();
        let path = path.to_owned();
        Ok(Self {
            file,
            path,
            len,
            two_calls: AtomicBool::new(false),
            _token: token,
            _namespace: namespace,
        })
    }

    fn check(&self, operation: &'static str, offset: u64, len: usize) -> Result<()> {
        names::check_range(
            operation,
            &self.path.to_string_lossy(),
            offset,
            len,
            self.len,
        )
        .map(drop)
    }

    fn write_in_two_calls(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        os::write_all_at(&self.file, &self.path, offset, bytes)?;
        self.sync()
    }
}

impl LogFile for FileLog {
    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check("write", offset, bytes.len())?;
        if self.two_calls.load(Ordering::Relaxed) {
            return self.write_in_two_calls(offset, bytes);
        }
        match os::write_fully(offset, bytes, |bytes, offset| {
            os::write_durable(&self.file, bytes, offset)
        }) {
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
        os::write_all_at(&self.file, &self.path, offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().context("sync", &self.path)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check("read", offset, buffer.len())?;
        self.file
            .read_exact_at(buffer, offset)
            .context("read", &self.path)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn method(&self) -> &'static str {
        if self.two_calls.load(Ordering::Relaxed) {
            "pwrite+fdatasync"
        } else {
            "pwritev2(RWF_DSYNC)"
        }
    }
}
