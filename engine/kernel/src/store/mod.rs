//! The store: one namespace's log, slabs and indexes behind one handle.
//!
//! Writers go through a [`Sequencer`], one at a time, which gives each record its LSN and its place and hands it to the log; a writer
//! thread makes frames durable and then publishes the view each frame carries. Readers take the published view and never wait.
//!
//! Crash behaviour: what [`Store::wait`] acknowledged is there after reopening (by the chosen [`Durability`]); of the rest any prefix
//! may be. The first device error on the durable path latches: nothing is accepted any more until the store is opened again.

mod checkpoint;
pub(crate) mod head;
mod open;
mod sequencer;
pub(crate) mod state;
mod verify;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mnemolith_backends::Directory;
use mnemolith_simd::Kernels;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::dictionary::Words;
use crate::error::{KernelError, Result};
use crate::index::SlabIndex;
use crate::pool::{Job, Signal};
use crate::view::{Reader, View};
use crate::wal::tail::{FrameWriter, PendingFrame};

pub use checkpoint::CheckpointOutcome;
pub use head::TIERS;
pub use sequencer::{NewRow, Sequencer, Stored};
pub use verify::{Problem, Verification};

use checkpoint::{Checkpointer, Patience};
use head::Head;

/// Bytes of records on their way to the device before writers are made to wait.
const MAX_PENDING_BYTES: usize = 32 << 20;

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Acknowledged = survives power loss.
    #[default]
    Sync,
    /// As `Sync`, but a frame waits this long for company: fewer, larger syncs.
    Group {
        /// How long the first record of a frame waits.
        max_delay: Duration,
    },
    /// Acknowledged = survives the death of the process, not power loss.
    Buffered,
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The namespace's name, checked against what is on disk.
    pub namespace: String,
    /// Vector dimension, 1..=65,535. `None` takes what is on disk.
    pub dimension: Option<u32>,
    /// Identity of the embedder. `None` takes what is on disk.
    pub embedder: Option<String>,
    /// The dimension of a namespace that is new, where none is asked for.
    pub new_dimension: u32,
    /// The embedder of a namespace that is new, where none is asked for.
    pub new_embedder: String,
    /// When a write counts as done.
    pub durability: Durability,
    /// Record bytes after which a checkpoint is due; it is due after four times as many bytes of frames, too.
    pub checkpoint_bytes: u64,
    /// Randomness for the store's identity and the log's salts.
    pub entropy: [u8; 24],
}

impl StoreOptions {
    /// The defaults for a namespace.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            dimension: None,
            embedder: None,
            new_dimension: 384,
            new_embedder: String::new(),
            durability: Durability::Sync,
            checkpoint_bytes: 64 << 20,
            entropy: [0; 24],
        }
    }
}

/// What is fixed once a store is open.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) dimension: u32,
    pub(crate) embedder: String,
    pub(crate) store_uuid: u128,
}

/// One open namespace. Dropping the last handle writes a checkpoint and releases the lock.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    signal: Arc<Signal>,
}

pub(crate) struct Shared {
    pub(crate) dir: Arc<dyn Directory>,
    pub(crate) identity: Identity,
    pub(crate) durability: Durability,
    checkpoint_bytes: u64,
    pub(crate) kernels: &'static Kernels,
    pub(crate) head: Arc<Mutex<Head>>,
    pub(crate) index: Arc<RwLock<Vec<SlabIndex>>>,
    pub(crate) words: Arc<RwLock<Words>>,
    pub(crate) published: RwLock<Arc<View>>,
    pub(crate) committer: Mutex<FrameWriter>,
    /// The last acknowledged LSN; waiters sleep on it.
    acknowledged: Mutex<u64>,
    progress: Condvar,
    durable_lsn: AtomicU64,
    /// As the checkpointer's superblock says, for who must not wait for a checkpoint.
    checkpoint_lsn: AtomicU64,
    failed: OnceLock<Arc<str>>,
    pub(crate) checkpointer: Mutex<Checkpointer>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("path", &self.dir.path()).field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Figures about a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStats {
    /// Live memories, and rows ever stored.
    pub live: u64,
    /// Rows ever stored, forgotten and rewritten ones included.
    pub stored: u64,
    /// Live memories with a vector, by tier.
    pub vectors_by_tier: [u64; TIERS],
    /// Slabs.
    pub slabs: u64,
    /// Rows kept out of every answer because they are damaged.
    pub quarantined: u64,
    /// The last LSN readers see.
    pub lsn: u64,
    /// The last LSN known to survive power loss.
    pub durable_lsn: u64,
    /// The LSN of the last checkpoint.
    pub checkpoint_lsn: u64,
    /// Distinct tags.
    pub tags: u64,
    /// Distinct sessions.
    pub sessions: u64,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// Log segments on disk.
    pub log_segments: u64,
    /// Bytes the namespace takes on its device.
    pub disk_bytes: u64,
    /// How the log is written.
    pub journal: &'static str,
    /// The scoring kernels in use.
    pub kernel: &'static str,
}

impl Store {
    /// The namespace's vector dimension.
    pub fn dimension(&self) -> u32 {
        self.shared.identity.dimension
    }

    /// The identity of the embedder that made the namespace's vectors.
    pub fn embedder(&self) -> &str {
        &self.shared.identity.embedder
    }

    /// The store's random identity.
    pub fn uuid(&self) -> u128 {
        self.shared.identity.store_uuid
    }

    /// Becomes the one writer, waiting for its turn and for the log to keep up.
    ///
    /// # Errors
    /// `Failed` after an earlier device error.
    pub fn sequence(&self) -> Result<Sequencer> {
        loop {
            self.shared.check()?;
            let head = self.shared.head.lock_arc();
            if head.tail.pending_bytes() <= MAX_PENDING_BYTES {
                self.shared.dir.check_held().map_err(KernelError::from).inspect_err(|error| self.shared.latch(error))?;
                return Ok(Sequencer::new(head, Arc::clone(&self.shared), Arc::clone(&self.signal)));
            }
            drop(head);
            let mut acknowledged = self.shared.acknowledged.lock();
            self.shared.progress.wait_for(&mut acknowledged, Duration::from_millis(50));
        }
    }

    /// Waits until a record is acknowledged and visible. Abandoning the wait does not abandon the write. Records are handed over when
    /// their [`Sequencer`] is dropped: a thread that still holds it waits forever.
    ///
    /// # Errors
    /// `Failed` where it was not made durable.
    pub fn wait(&self, lsn: u64) -> Result<()> {
        let mut acknowledged = self.shared.acknowledged.lock();
        while *acknowledged < lsn {
            self.shared.check()?;
            self.shared.progress.wait(&mut acknowledged);
        }
        drop(acknowledged);
        self.checkpoint_if_due();
        Ok(())
    }

    /// A reader of everything acknowledged so far.
    pub fn reader(&self) -> Reader {
        let pass = self.shared.dir.gate().read();
        let view = Arc::clone(&self.shared.published.read());
        let (index, words) = (Arc::clone(&self.shared.index), Arc::clone(&self.shared.words));
        Reader { view, pass, index, words, kernels: self.shared.kernels }
    }

    /// Figures.
    ///
    /// # Errors
    /// Where the device does not answer.
    pub fn stats(&self) -> Result<StoreStats> {
        let disk_bytes = self.shared.dir.allocated_bytes()?;
        let journal = self.shared.committer.lock().method;
        let lsn = self.shared.published.read().lsn;
        let head = self.shared.head.lock();
        let blocked = |slab: &crate::view::SlabView| slab.blocked.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let mut vectors_by_tier = [0; TIERS];
        vectors_by_tier.iter_mut().zip(&head.recent).for_each(|(count, slots)| *count = slots.len());
        Ok(StoreStats {
            live: head.view.live,
            stored: head.view.stored,
            vectors_by_tier,
            slabs: head.slabs.len() as u64,
            quarantined: head.view.slabs.iter().map(blocked).sum(),
            lsn,
            durable_lsn: self.shared.durable_lsn.load(Ordering::Acquire),
            checkpoint_lsn: self.shared.checkpoint_lsn.load(Ordering::Acquire),
            tags: head.words.read().tags.len() as u64,
            sessions: head.words.read().sessions.len() as u64,
            payload_bytes: head.payload.segments.iter().map(|segment| segment.written() as u64).sum(),
            log_segments: head.tail.segments.len() as u64,
            disk_bytes,
            journal,
            kernel: self.shared.kernels.name(),
        })
    }

    /// Keeps a damaged row out of every answer from now on; its bytes stay on disk.
    pub fn quarantine(&self, slot: u64) {
        self.shared.quarantine(&mut self.shared.head.lock(), slot);
    }

    fn checkpoint_if_due(&self) {
        let due = || self.shared.head.lock().tail.checkpoint_is_due(self.shared.checkpoint_bytes);
        if due()
            && let Some(mut checkpointer) = self.shared.checkpointer.try_lock()
        {
            // A failure keeps the old checkpoint and the log, and latches where the device is to blame: nothing is lost by going on.
            let _ = self.shared.run_checkpoint(&mut checkpointer, Patience::None);
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.signal.close();
        self.shared.drain();
        if self.shared.failed.get().is_none() {
            // Without a checkpoint the next open reads more log; nothing acknowledged depends on it. A reader may outlive the
            // store, on this very thread: what a purge could not destroy now is destroyed by the next open.
            let _ = self.shared.run_checkpoint(&mut self.shared.checkpointer.lock(), Patience::None);
        }
    }
}

impl Shared {
    /// Refuses once a failure is latched.
    pub(crate) fn check(&self) -> Result<()> {
        match self.failed.get() {
            Some(reason) => Err(KernelError::Failed { reason: Arc::clone(reason) }),
            None => Ok(()),
        }
    }

    /// Latches the first failure and wakes everybody who waits.
    pub(crate) fn fail(&self, error: &KernelError) {
        let _ = self.failed.set(error.to_string().into());
        let _guard = self.acknowledged.lock();
        self.progress.notify_all();
    }

    /// Latches what is no clean refusal: after any failure of the device but a full one, nothing may be assumed about it.
    pub(crate) fn latch(&self, error: &KernelError) {
        if error.is_device_failure() {
            self.fail(error);
        }
    }

    /// See [`Store::quarantine`].
    fn quarantine(&self, head: &mut Head, slot: u64) {
        head.block(slot);
        let mut published = self.published.write();
        Arc::make_mut(&mut published).block(slot);
    }

    fn commit(&self, committer: &mut FrameWriter, frames: VecDeque<PendingFrame<Arc<View>>>) -> Result<()> {
        let durable = self.durability != Durability::Buffered;
        for mut frame in frames {
            let (len, last_lsn) = (frame.len(), frame.last_lsn());
            committer.write(self.dir.as_ref(), &mut frame, durable)?;
            self.durable_lsn.store(committer.durable_lsn, Ordering::Release);
            *self.published.write() = frame.view;
            self.head.lock().tail.written(len);
            *self.acknowledged.lock() = last_lsn;
            self.progress.notify_all();
        }
        Ok(())
    }

    /// Makes everything written so far durable, whatever the mode.
    pub(crate) fn sync_log(&self) -> Result<()> {
        let mut committer = self.committer.lock();
        let written = self.published.read().lsn;
        committer.sync(self.dir.as_ref()).inspect_err(|error| self.fail(error))?;
        committer.durable_lsn = committer.durable_lsn.max(written);
        self.durable_lsn.store(committer.durable_lsn, Ordering::Release);
        Ok(())
    }
}

/// The picture a frame carries.
pub(crate) fn picture(view: &View) -> Arc<View> {
    Arc::new(view.clone())
}

impl Job for Shared {
    fn drain(&self) {
        if let Durability::Group { max_delay } = self.durability {
            std::thread::sleep(max_delay);
        }
        let mut committer = self.committer.lock();
        loop {
            let frames = {
                let mut head = self.head.lock();
                let head = &mut *head;
                let view = &head.view;
                head.tail.take(&|| picture(view))
            };
            if frames.is_empty() || self.failed.get().is_some() {
                return;
            }
            if let Err(error) = self.commit(&mut committer, frames) {
                self.fail(&error);
                return;
            }
        }
    }

    fn idle(&self) {
        let segments = self.head.lock().tail.segments.clone();
        let _committer = self.committer.lock();
        segments.iter().for_each(|segment| segment.close());
    }
}
