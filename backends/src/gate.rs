//! Who may be among the bytes of a namespace: many readers, or one scrubber.
//!
//! Invariants: while a [`ReadPass`] lives no published byte changes; while a [`WritePass`] lives nobody holds a slice. A scrubber that
//! waits goes before readers who keep arriving, and yet nobody waits for ever: whatever else the readers inside may be waiting for, a
//! reader lets the scrubber go first for [`COURTESY`] and no longer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::lock_api::{ArcRwLockReadGuard, ArcRwLockWriteGuard};
use parking_lot::{RawRwLock, RwLock};

/// How long an arriving reader lets a waiting scrubber go first: longer than a scan takes, so that those inside leave meanwhile.
const COURTESY: Duration = Duration::from_millis(100);

/// Lets readers in together and keeps them out while bytes are destroyed.
#[derive(Debug, Clone)]
pub struct Gate {
    lock: Arc<RwLock<()>>,
}

/// A reader's permission: while it lives no published byte changes.
#[derive(Debug)]
pub struct ReadPass {
    guard: ArcRwLockReadGuard<RawRwLock, ()>,
}

/// The scrubber's permission: while it lives no reader holds a slice.
#[derive(Debug)]
pub struct WritePass {
    guard: ArcRwLockWriteGuard<RawRwLock, ()>,
}

impl Gate {
    /// A new gate, open.
    pub fn new() -> Self {
        Self { lock: Arc::new(RwLock::new(())) }
    }

    /// Enters as a reader. A scrubber that waits already goes first, for a moment: it may be waiting for this very thread.
    pub fn read(&self) -> ReadPass {
        let guard = self.lock.try_read_arc_for(COURTESY).unwrap_or_else(|| self.lock.read_arc_recursive());
        ReadPass { guard }
    }

    /// Waits until no reader is inside. A thread that holds a [`ReadPass`] of this gate and asks for this waits forever.
    pub fn write(&self) -> WritePass {
        WritePass { guard: self.lock.write_arc() }
    }

    /// As [`Gate::write`], without waiting: `None` while anybody is inside. For who may hold a [`ReadPass`] itself.
    pub fn try_write(&self) -> Option<WritePass> {
        self.lock.try_write_arc().map(|guard| WritePass { guard })
    }

    pub(crate) fn admitted(&self, pass: &ReadPass) -> bool {
        Arc::ptr_eq(&self.lock, ArcRwLockReadGuard::rwlock(&pass.guard))
    }

    pub(crate) fn emptied(&self, pass: &WritePass) -> bool {
        Arc::ptr_eq(&self.lock, ArcRwLockWriteGuard::rwlock(&pass.guard))
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
