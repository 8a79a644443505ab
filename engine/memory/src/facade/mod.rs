//! The facade: one handle on one namespace, the only public way to the engine.
//!
//! Purpose: each public call is validate, then at most one critical section in the kernel, then hydrate. Meaning lives here and
//! bytes live below: the kernel neither knows what a tag is nor what surprise means.
//!
//! Invariants: a rejected input touches no state; a reader is never held while a writer's turn is awaited (a purge that is due
//! would wait for the reader, and the writer for the purge).

mod builder;
mod convert;
mod manage;
mod recall;
mod remember;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mnemolith_backends::Backend;
use mnemolith_kernel::{KernelError, Store};

pub use builder::Builder;
pub use remember::PendingRemember;

use crate::clock::Clock;
use crate::embed::Embedder;
use crate::error::{Error, Result};
use crate::pathway::PathwayRecipe;
use remember::RememberSignal;

/// A namespace of memories, open.
///
/// A handle is cheap to clone and may be shared among threads; the namespace closes, with a checkpoint, when the last one is dropped.
///
/// ```
/// use mnemolith::{Memory, RecallQuery, RememberRequest};
///
/// let memory = Memory::in_memory()?;
/// memory.remember(RememberRequest::new("The deployment key is rotated every Friday").tag("ops"))?;
/// let recall = memory.recall(RecallQuery::new("when is the key rotated?").k(1))?;
/// assert_eq!(recall.hits[0].text.as_deref(), Some("The deployment key is rotated every Friday"));
/// # Ok::<(), mnemolith::Error>(())
/// ```
#[derive(Clone)]
pub struct Memory {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("namespace", &self.inner.namespace).finish_non_exhaustive()
    }
}

/// What every handle shares.
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) namespace: String,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Equal content within this of its last sight is a duplicate; zero turns that off.
    pub(crate) dedup_window: Duration,
    /// How many recent memories novelty is measured against.
    pub(crate) novelty_window: usize,
    pub(crate) recipe: PathwayRecipe<RememberSignal>,
    closed: AtomicBool,
}

impl Inner {
    pub(crate) fn dimension(&self) -> usize {
        self.store.dimension() as usize
    }

    /// The embedding of a text, checked; `None` where there is no embedder or it cannot be reached now.
    pub(crate) fn embed(&self, text: &str) -> Result<Option<Vec<f32>>> {
        let Some(embedder) = &self.embedder else { return Ok(None) };
        match embedder.embed(text) {
            Ok(vector) => {
                crate::vector::check(&vector, Some(self.dimension()))
                    .map_err(|error| Error::BadEmbedding { embedder: embedder.identity(), message: error.to_string() })?;
                Ok(Some(vector))
            }
            Err(Error::Unavailable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What came of reading some items.
struct Sifted<'a, I, T> {
    whole: Vec<T>,
    /// With what was found of each.
    damaged: Vec<(&'a I, KernelError)>,
}

/// Reads items, and tells the whole from the damaged. Another error ends it.
fn sift<I, T>(items: &[I], read: impl Fn(&I) -> std::result::Result<T, KernelError>) -> Result<Sifted<'_, I, T>> {
    let mut sifted = Sifted { whole: Vec::with_capacity(items.len()), damaged: Vec::new() };
    for item in items {
        match read(item) {
            Ok(value) => sifted.whole.push(value),
            Err(error @ KernelError::Corrupt { .. }) => sifted.damaged.push((item, error)),
            Err(error) => return Err(convert::error(error)),
        }
    }
    Ok(sifted)
}

impl Memory {
    /// Opens the namespace `default` under a directory, creating both where missing, with the built-in hashing embedder.
    ///
    /// # Errors
    /// [`Error::AlreadyOpen`] while another process or handle has it; [`Error::Corrupt`]; what the device answers.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().path(path).open()
    }

    /// A namespace in private memory, gone with its last handle.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn in_memory() -> Result<Self> {
        Self::builder().open()
    }

    /// All the ways to open a namespace.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Writes a checkpoint and refuses further calls on every handle; the lock is released with the last handle.
    ///
    /// # Errors
    /// As [`Memory::checkpoint`]; what was acknowledged is safe either way.
    pub fn close(self) -> Result<()> {
        self.checkpoint()?;
        self.inner.closed.store(true, Ordering::Release);
        Ok(())
    }

    /// The inside, unless it was closed.
    fn inner(&self) -> Result<&Arc<Inner>> {
        if self.inner.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(&self.inner) }
    }
}

/// The scoring kernels this machine will use: `scalar`, `portable`, `avx2` or `avx512`.
///
/// # Errors
/// [`Error::InvalidField`] where `MNEMOLITH_SIMD` asks for one that is unknown or that this CPU lacks.
pub fn simd_kernel() -> Result<&'static str> {
    mnemolith_kernel::kernel_name().map_err(convert::error)
}
