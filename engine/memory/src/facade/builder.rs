//! Opening a namespace.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mnemolith_backends::{Backend, FileBackend, MemoryBackend};
use mnemolith_kernel::{Store, StoreOptions};

use super::{Inner, Memory, convert, remember};
use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::embed::{Embedder, HashingEmbedder};
use crate::error::{Error, Result};
use crate::types::Durability;
use crate::{validate, vector};

const DEFAULT_NAMESPACE: &str = "default";
const DEFAULT_DIMENSION: usize = 384;
const DEFAULT_DEDUP_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_NOVELTY_WINDOW: usize = 512;
const DEFAULT_CHECKPOINT_BYTES: u64 = 64 << 20;

/// Which embedder a namespace is opened with.
enum Choice {
    /// The one that made the namespace if it is built in, the hashing embedder for a new one.
    Default,
    None,
    Given(Arc<dyn Embedder>),
}

/// How to open a namespace. Without a path or a backend it lies in private memory.
///
/// ```
/// use mnemolith::{Durability, Memory};
///
/// let folder = tempfile::tempdir()?;
/// let memory = Memory::builder().path(folder.path()).namespace("notes").dimension(64).durability(Durability::Buffered).open()?;
/// assert_eq!(memory.namespaces()?, ["notes"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    path: Option<PathBuf>,
    backend: Option<Arc<dyn Backend>>,
    namespace: String,
    dimension: Option<usize>,
    embedder: Choice,
    durability: Durability,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    dedup_window: Duration,
    novelty_window: usize,
    checkpoint_bytes: u64,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            path: None,
            backend: None,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            dimension: None,
            embedder: Choice::Default,
            durability: Durability::Sync,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            dedup_window: DEFAULT_DEDUP_WINDOW,
            novelty_window: DEFAULT_NOVELTY_WINDOW,
            checkpoint_bytes: DEFAULT_CHECKPOINT_BYTES,
        }
    }

    /// The directory that holds the namespaces.
    pub fn path(mut self, path: impl AsRef<Path>) -> Self {
        self.path = Some(path.as_ref().to_path_buf());
        self
    }

    /// Another place for the bytes than a directory; it wins over a path.
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.backend = Some(backend);
        self
    }

    /// The namespace: 1 to 63 characters of a-z, 0-9, `-` and `_`. Default `default`.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = name.into();
        self
    }

    /// The dimension of its vectors, 1..=65,535. Default: what the namespace has, the given embedder's, or 384.
    pub fn dimension(mut self, dimension: usize) -> Self {
        self.dimension = Some(dimension);
        self
    }

    /// The embedder for texts. A namespace remembers it by identity and refuses another. Default: the hashing embedder.
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Choice::Given(embedder);
        self
    }

    /// No embedder: vectors are the caller's, and a text without one is stored without.
    pub fn no_embedder(mut self) -> Self {
        self.embedder = Choice::None;
        self
    }

    /// When a write is acknowledged. Default [`Durability::Sync`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The clock. Default: the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The source of randomness. Default: the system's.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// How long after its last sight equal content is a duplicate; zero turns the guard off. Default 24 hours.
    pub fn dedup_window(mut self, window: Duration) -> Self {
        self.dedup_window = window;
        self
    }

    /// How many of a tier's most recent memories novelty is measured against. Default 512.
    pub fn novelty_window(mut self, memories: usize) -> Self {
        self.novelty_window = memories;
        self
    }

    /// Log bytes after which a checkpoint is written. Default 64 MiB.
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.checkpoint_bytes = bytes;
        self
    }

    /// Opens the namespace, creating it where it is missing.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::OutOfRange`] for the dimension, [`Error::DimensionMismatch`] and [`Error::EmbedderMismatch`] against
    /// what is stored, [`Error::AlreadyOpen`], [`Error::Corrupt`], [`Error::UnsupportedFormat`], or what the device answers.
    pub fn open(self) -> Result<Memory> {
        validate::namespace(&self.namespace)?;
        let given_dimension = match &self.embedder {
            Choice::Given(embedder) => Some(self.agreed_dimension(embedder.as_ref())?),
            _ => self.dimension,
        };
        if let Some(dimension) = given_dimension {
            vector::check_dimension(dimension)?;
        }
        let options = self.store_options(given_dimension)?;
        let backend = self.backend.unwrap_or_else(|| match &self.path {
            Some(path) => Arc::new(FileBackend::new(path)),
            None => Arc::new(MemoryBackend::new()),
        });
        let directory = backend.open(&self.namespace).map_err(convert::storage_error)?;
        let store = Store::open(directory, &options).map_err(convert::error)?;
        let embedder = match self.embedder {
            Choice::Default => built_in(store.embedder(), store.dimension() as usize)?,
            Choice::None => None,
            Choice::Given(embedder) => Some(embedder),
        };
        Ok(Memory {
            inner: Arc::new(Inner {
                store,
                backend,
                namespace: self.namespace,
                embedder,
                clock: self.clock,
                dedup_window: self.dedup_window,
                novelty_window: self.novelty_window,
                recipe: remember::recipe()?,
                closed: AtomicBool::new(false),
            }),
        })
    }

    fn agreed_dimension(&self, embedder: &dyn Embedder) -> Result<usize> {
        let made = embedder.dimension();
        match self.dimension {
            Some(asked) if asked != made => Err(Error::InvalidField {
                field: "dimension".to_owned(),
                message: format!("{asked} was asked for, and embedder {:?} makes vectors of {made}", embedder.identity()),
            }),
            _ => Ok(made),
        }
    }

    fn store_options(&self, dimension: Option<usize>) -> Result<StoreOptions> {
        let mut entropy = [0; 24];
        self.entropy.fill(&mut entropy)?;
        let new_dimension = dimension.unwrap_or(DEFAULT_DIMENSION);
        let narrow = |dimension: usize| u32::try_from(dimension).unwrap_or(u32::MAX);
        Ok(StoreOptions {
            dimension: dimension.map(narrow),
            embedder: match &self.embedder {
                Choice::Default => None,
                Choice::None => Some(String::new()),
                Choice::Given(embedder) => Some(embedder.identity()),
            },
            new_dimension: narrow(new_dimension),
            new_embedder: HashingEmbedder::new(new_dimension)?.identity(),
            durability: convert::durability(self.durability),
            checkpoint_bytes: self.checkpoint_bytes,
            entropy,
            ..StoreOptions::new(self.namespace.clone())
        })
    }
}

/// The built-in embedder of an identity; none for a namespace without one.
fn built_in(identity: &str, dimension: usize) -> Result<Option<Arc<dyn Embedder>>> {
    if identity.is_empty() {
        return Ok(None);
    }
    let hashing = HashingEmbedder::new(dimension)?;
    if hashing.identity() == identity {
        return Ok(Some(Arc::new(hashing)));
    }
    Err(Error::EmbedderMismatch { stored: identity.to_owned(), given: hashing.identity() })
}
