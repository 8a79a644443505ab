//! The calls to the system, each told apart by operation and path when it fails.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{Result, StorageError, StorageErrorKind};

/// Zeros are written in pieces of this size.
const ZEROS_LEN_BYTES: usize = 1 << 20;
static ZEROS: [u8; ZEROS_LEN_BYTES] = [0; ZEROS_LEN_BYTES];

/// What `st_blocks` counts in, whatever the file system's own block is.
const STAT_BLOCK_BYTES: u64 = 512;

/// Tells tests what was asked of the system, in order: a sync that is missing does not show in any content.
#[cfg(not(test))]
pub(super) fn note(_call: &str, _path: &Path) {}
#[cfg(test)]
pub(super) use super::durability_tests::note;

/// Says what was done to what when a call failed.
pub(super) trait Context<T> {
    fn context(self, operation: &'static str, path: &Path) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, operation: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| StorageError::new(operation, path, source))
    }
}

/// `None` in place of an error that says that there is no such file.
pub(super) fn if_found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens an existing file.
pub(super) fn open(path: &Path, write: bool) -> Result<File> {
    OpenOptions::new().read(true).write(write).open(path).context("open", path)
}

/// Creates a file that must not exist yet.
pub(super) fn create_new(path: &Path) -> Result<File> {
    note("create", path);
    OpenOptions::new().read(true).write(true).create_new(true).open(path).context("create", path)
}

/// Opens a file, creating it where missing, and leaves its content alone.
pub(super) fn open_or_create(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).context("open", path)
}

/// Removes a file; `false` where there was none.
pub(super) fn unlink(path: &Path) -> Result<bool> {
    note("remove", path);
    Ok(if_found(fs::remove_file(path).context("remove", path))?.is_some())
}

/// Creates one directory; `false` where it was there.
pub(super) fn make_directory(path: &Path) -> Result<bool> {
    note("make directory", path);
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A directory that was there and is gone by now is for the next step to find missing.
            let there = if_found(fs::symlink_metadata(path).context("inspect", path))?;
            if there.is_some_and(|there| there.is_file()) {
                return Err(error).context("create", path);
            }
            refuse_dangling("create", path)?;
            Ok(false)
        }
        Err(error) => Err(error).context("create", path),
    }
}

/// Refuses a symbolic link to nothing: it is there for who looks for the name and missing for who opens it, and whoever waits
/// for one of the two to change waits for ever.
pub(super) fn refuse_dangling(operation: &'static str, path: &Path) -> Result<()> {
    let there = if_found(fs::symlink_metadata(path).context("inspect", path))?;
    if there.is_some_and(|there| there.is_symlink()) && if_found(fs::metadata(path).context("inspect", path))?.is_none() {
        return Err(StorageError::of_kind(StorageErrorKind::Io, operation, path, "it is a symbolic link to nothing"));
    }
    Ok(())
}

/// Renames, replacing what is at the target.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    note("rename to", to);
    fs::rename(from, to).context("rename", from)
}

/// Makes the content of a file and all that is known about it durable.
pub(super) fn sync_file(file: &File, path: &Path) -> Result<()> {
    note("sync", path);
    file.sync_all().context("sync", path)
}

/// Makes the content of a file durable.
pub(super) fn sync_data(file: &File, path: &Path) -> Result<()> {
    note("sync data of", path);
    file.sync_data().context("sync", path)
}

/// Makes creations, renames and removals in a directory durable.
pub(super) fn sync_directory(path: &Path) -> Result<()> {
    note("sync directory", path);
    open(path, false)?.sync_all().context("sync", path)
}

/// Names in a directory that are UTF-8, sorted; none where there is no directory.
pub(super) fn names_in(path: &Path) -> Result<Vec<String>> {
    let Some(entries) = if_found(fs::read_dir(path).context("list", path))? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = entry.context("list", path)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Bytes that a directory and all below it take on the device.
pub(super) fn allocated_below(path: &Path) -> Result<u64> {
    let mut total = fs::symlink_metadata(path).context("inspect", path)?.blocks() * STAT_BLOCK_BYTES;
    for entry in fs::read_dir(path).context("list", path)? {
        let entry = entry.context("list", path)?;
        // What is removed while this runs takes nothing.
        let Some(metadata) = if_found(entry.metadata().context("inspect", &entry.path()))? else {
            continue;
        };
        if metadata.is_dir() {
            total += if_found(allocated_below(&entry.path()))?.unwrap_or(0);
        } else {
            total += metadata.blocks() * STAT_BLOCK_BYTES;
        }
    }
    Ok(total)
}

/// Removes a directory that holds a lock file, the lock last: whoever finds the directory finds out whether it is in use.
pub(super) fn remove_tree(path: &Path, last: &str) -> Result<()> {
    for entry in fs::read_dir(path).context("list", path)? {
        let entry = entry.context("list", path)?;
        if entry.file_name() == last {
            continue;
        }
        if entry.file_type().context("inspect", &entry.path())?.is_dir() {
            fs::remove_dir_all(entry.path()).context("remove", &entry.path())?;
        } else {
            unlink(&entry.path())?;
        }
    }
    unlink(&path.join(last))?;
    remove_empty(path)
}

/// Removes an empty directory, if it is still there: once its lock file is gone, anybody may.
pub(super) fn remove_empty(path: &Path) -> Result<()> {
    if_found(fs::remove_dir(path).context("remove", path)).map(drop)
}

/// Writes all of `bytes` at `offset` through `write`, which may be interrupted, refuse for now, or write less.
pub(super) fn write_fully(offset: u64, bytes: &[u8], mut write: impl FnMut(&[u8], u64) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match write(rest, offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes` at `offset`.
pub(super) fn write_all_at(file: &File, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
    note("write", path);
    write_fully(offset, bytes, |bytes, offset| file.write_at(bytes, offset)).context("write", path)
}

/// Writes zeros over the first `len` bytes.
pub(super) fn write_zeros(file: &File, path: &Path, len: u64) -> Result<()> {
    let mut offset = 0;
    while offset < len {
        let piece = usize::try_from(len - offset).unwrap_or(usize::MAX);
        let zeros = ZEROS.get(..piece).unwrap_or(&ZEROS);
        write_all_at(file, path, offset, zeros)?;
        offset += zeros.len() as u64;
    }
    Ok(())
}

/// Gives a new file its length and all of its blocks. File systems that cannot preallocate get zeros written.
pub(super) fn allocate(file: &File, path: &Path, len: u64) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    match fallocate(file, len) {
        Ok(()) if are_blocks_allocated(file, path, len)? => Ok(()),
        Err(error) if !is_unsupported(&error) => Err(error).context("allocate", path),
        _ => write_zeros(file, path, len),
    }
}

/// Whether a file takes at least `len` bytes on the device.
pub(super) fn are_blocks_allocated(file: &File, path: &Path, len: u64) -> Result<bool> {
    let metadata = file.metadata().context("inspect", path)?;
    Ok(metadata.blocks().saturating_mul(STAT_BLOCK_BYTES) >= len)
}

/// Whether the system answered that it does not know this way of doing it.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL))
}

#[cfg(target_os = "linux")]
fn fallocate(file: &File, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let len = libc::off_t::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    loop {
        // SAFETY: a call on numbers alone; the descriptor is open while `file` is borrowed.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn fallocate(_file: &File, _len: u64) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

/// One write that returns when the bytes survive power loss.
#[cfg(target_os = "linux")]
pub(super) fn write_durable(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: the one vector describes `bytes`, borrowed for the call, which only reads them; the descriptor is open while
    // `file` is borrowed.
    let written = unsafe { libc::pwritev2(file.as_raw_fd(), &raw const vector, 1, offset, libc::RWF_DSYNC) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn write_durable(_file: &File, _bytes: &[u8], _offset: u64) -> io::Result<usize> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// A file under construction: removed unless it is finished.
#[derive(Debug)]
pub(super) struct Unfinished {
    path: Option<PathBuf>,
}

impl Unfinished {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: Some(path.to_owned()) }
    }

    pub(super) fn finish(mut self) {
        self.path = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The error that left it unfinished is the one worth telling.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_goes_on_after_interruptions_and_short_writes() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut target = [0_u8; 110];
        let mut call = 0;
        write_fully(10, &bytes, |bytes, offset| {
            call += 1;
            match call % 4 {
                0 => Err(io::Error::from_raw_os_error(libc::EINTR)),
                1 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                _ => {
                    let len = bytes.len().min(7);
                    let at = usize::try_from(offset).unwrap();
                    target[at..at + len].copy_from_slice(&bytes[..len]);
                    Ok(len)
                }
            }
        })
        .unwrap();
        assert_eq!(target[10..], bytes);
    }

    #[test]
    fn a_write_that_gets_nowhere_is_an_error() {
        let error = write_fully(0, b"abc", |_, _| Ok(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        let error = write_fully(0, b"abc", |_, _| Err(io::Error::from_raw_os_error(libc::EIO))).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }

    #[test]
    fn zeros_cover_more_than_one_piece_and_stop_at_the_end() {
        let file = tempfile::tempfile().unwrap();
        let len = ZEROS_LEN_BYTES as u64 + 5;
        file.write_all_at(&[7; 10], len - 4).unwrap();
        write_zeros(&file, Path::new("zeros"), len).unwrap();
        let mut tail = [1; 10];
        file.read_exact_at(&mut tail, len - 4).unwrap();
        assert_eq!(tail, [0, 0, 0, 0, 7, 7, 7, 7, 7, 7]);
    }
}
