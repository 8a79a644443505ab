//! What `remember`, `update` and `reinforce` take and return.
//!
//! Purpose: plain data. Invariant: setters store what they are given; every bound is checked by
//! the call that takes the value, before anything is touched.

use std::collections::BTreeMap;
use std::time::Duration;

use mnemolith_temporal::Timestamp;

use super::{Metadata, Relay, RelayStatus, Source, Tier};

/// A memory to be encoded.
///
/// ```
/// use mnemolith::{RememberRequest, Tier, Timestamp};
///
/// let request = RememberRequest::new("The deploy failed on a missing secret")
///     .id("deploy-17")
///     .tags(["deploy", "failure"])
///     .tier(Tier::Episodic)
///     .session("monday")
///     .at(Timestamp::parse("2026-03-02T09:30:00Z")?)
///     .valence(-60)
///     .urgency(0.8);
/// # Ok::<(), mnemolith::TimeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use = "a request does nothing until it is remembered"]
pub struct RememberRequest {
    pub(crate) text: Option<String>,
    pub(crate) vector: Option<Vec<f32>>,
    pub(crate) id: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) metadata: Metadata,
    pub(crate) tier: Tier,
    pub(crate) session: Option<String>,
    pub(crate) at: Option<Timestamp>,
    pub(crate) valence: Option<i64>,
    pub(crate) arousal: Option<i64>,
    pub(crate) reward: Option<f64>,
    pub(crate) interest: Option<f64>,
    pub(crate) challenge: Option<f64>,
    pub(crate) urgency: Option<f64>,
    pub(crate) soul: Option<Soul>,
    pub(crate) links: Vec<(String, f64)>,
    pub(crate) entities: Vec<String>,
    pub(crate) relations: Vec<StatedRelation>,
    pub(crate) allow_duplicate: bool,
    pub(crate) source: Source,
}

impl RememberRequest {
    /// A memory of a text. The store's embedder, if it has one, makes the vector.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A memory of a vector of the namespace's dimension, of any norm but zero.
    pub fn from_vector(vector: impl Into<Vec<f32>>) -> Self {
        Self { vector: Some(vector.into()), ..Self::default() }
    }

    /// The text: not blank, at most [`Limits::TEXT_BYTES`](crate::Limits::TEXT_BYTES). Kept
    /// exactly as given.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// The vector, in place of one from the embedder.
    pub fn vector(mut self, vector: impl Into<Vec<f32>>) -> Self {
        self.vector = Some(vector.into());
        self
    }

    /// The id: any text that is not empty, at most 1 KiB. Chosen by the store where absent.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// More tags, beside those given before: at most 64 of at most 256 bytes.
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// One more tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// A JSON object kept with the memory, at most 64 KiB as compact JSON.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// The tier; episodic where absent.
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    /// The session, whose memories are chained in time.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// When it happened; now where absent.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }

    /// How good or bad it was, -127..=127. Kept exactly.
    pub fn valence(mut self, valence: impl Into<i64>) -> Self {
        self.valence = Some(valence.into());
        self
    }

    /// How stirring it was, 0..=255.
    pub fn arousal(mut self, arousal: impl Into<i64>) -> Self {
        self.arousal = Some(arousal.into());
        self
    }

    /// The reward that came with it, -1..=1.
    pub fn reward(mut self, reward: f64) -> Self {
        self.reward = Some(reward);
        self
    }

    /// A hint how interesting it is, 0..=1.
    pub fn interest(mut self, interest: f64) -> Self {
        self.interest = Some(interest);
        self
    }

    /// A hint how challenging it is, 0..=1.
    pub fn challenge(mut self, challenge: f64) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// A hint how urgent it is, 0..=1.
    pub fn urgency(mut self, urgency: f64) -> Self {
        self.urgency = Some(urgency);
        self
    }

    /// The persona that encodes it.
    pub fn soul(mut self, soul: Soul) -> Self {
        self.soul = Some(soul);
        self
    }

    /// A link to another memory, of a weight above 0 and at most 10.
    pub fn link(mut self, to: impl Into<String>, weight: f64) -> Self {
        self.links.push((to.into(), weight));
        self
    }

    /// The entities it mentions: no extractor is asked.
    pub fn entities<T: Into<String>>(mut self, entities: impl IntoIterator<Item = T>) -> Self {
        self.entities = entities.into_iter().map(Into::into).collect();
        self
    }

    /// A relation it states.
    pub fn relation(mut self, relation: StatedRelation) -> Self {
        self.relations.push(relation);
        self
    }

    /// Stores it even where the same content was stored just before: for verbatim logs.
    pub fn allow_duplicate(mut self, allow: bool) -> Self {
        self.allow_duplicate = allow;
        self
    }

    /// Where it comes from.
    pub fn source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }
}

/// A persona: what it finds important, and how strongly it feels.
#[derive(Debug, Clone, PartialEq)]
pub struct Soul {
    /// Stamped into the memory.
    pub version: u16,
    /// By tag, in any form that normalises to it: importance is multiplied by the boosts of all
    /// matching tags. Each is 0..=10.
    pub boosts: BTreeMap<String, f64>,
    /// Valence is multiplied by it: -10..=10, 1 for none.
    pub valence_gain: f64,
}

impl Soul {
    /// A persona that changes nothing.
    #[must_use]
    pub fn new(version: u16) -> Self {
        Self { version, boosts: BTreeMap::new(), valence_gain: 1.0 }
    }

    /// Boosts memories with this tag.
    #[must_use]
    pub fn boost(mut self, tag: impl Into<String>, factor: f64) -> Self {
        self.boosts.insert(tag.into(), factor);
        self
    }

    /// Sets the valence gain.
    #[must_use]
    pub fn valence_gain(mut self, gain: f64) -> Self {
        self.valence_gain = gain;
        self
    }
}

/// A relation that a memory states.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StatedRelation {
    /// Who or what, at most 1 KiB.
    pub subject: String,
    /// Does or is what, at most 1 KiB.
    pub predicate: String,
    /// To whom or what, at most 64 KiB.
    pub object: String,
}

impl StatedRelation {
    /// A relation.
    pub fn new(subject: impl Into<String>, predicate: impl Into<String>, object: impl Into<String>) -> Self {
        Self { subject: subject.into(), predicate: predicate.into(), object: object.into() }
    }
}

/// What became of a request to remember.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RememberResult {
    /// The memory's id; for a duplicate, the id of the memory that was there.
    pub id: String,
    /// Where it is; for a duplicate, where the memory that was there is.
    pub location: Location,
    /// Stored, or a duplicate.
    pub status: Status,
    /// In [0.05, 10].
    pub importance: f32,
    /// How many deviations above the usual the novelty was.
    pub surprise_z: f32,
    /// As encoded.
    pub valence: i8,
    /// As encoded.
    pub arousal: u8,
    /// So surprising that it never fades.
    pub flashbulb: bool,
    /// What happens with its entities and relations.
    pub enrichment: Enrichment,
    /// Every relay, in order.
    pub trace: Vec<RelayTrace>,
}

impl RememberResult {
    /// Whether nothing was stored, because the memory was there.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        matches!(self.status, Status::Duplicate { .. })
    }
}

/// Where a memory is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The partition of the namespace.
    pub partition: u32,
    /// The slot in the partition.
    pub slot: u32,
    /// The log sequence number of the write.
    pub lsn: u64,
}

/// Whether something was stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is a new memory.
    Stored,
    /// Nothing was stored.
    Duplicate {
        /// The id of the memory with this content.
        of: String,
    },
}

/// What happens with the entities and relations of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Enrichment {
    /// A durable job waits for the extractor.
    Queued,
    /// The caller's own entities and relations are stored.
    Completed,
    /// The store has no extractor, and the caller gave nothing.
    NotConfigured,
    /// Left aside for the reason given.
    Bypassed(String),
}

/// How one relay went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayTrace {
    /// The relay.
    pub relay: Relay,
    /// How it ended.
    pub status: RelayStatus,
    /// Time spent in it, by the store's monotonic clock.
    pub elapsed: Duration,
    /// For people: what it found, or why it did not run.
    pub detail: String,
}

/// A change of a memory under its id. What is absent stays.
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use = "an update does nothing until it is applied"]
pub struct Update {
    pub(crate) text: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) metadata: Option<Metadata>,
}

impl Update {
    /// A change of nothing, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// The new text; the vector is made anew where the store has an embedder.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// The new tags, in place of all old ones.
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }

    /// The new metadata, in place of the old.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

/// What a memory was good for, in hindsight.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a reinforcement does nothing until it is applied"]
pub struct Reinforce {
    pub(crate) id: String,
    pub(crate) outcome: f64,
    pub(crate) with: Vec<String>,
}

impl Reinforce {
    /// The memory `id` led to `outcome`, -1 (bad) ..= 1 (good).
    pub fn new(id: impl Into<String>, outcome: f64) -> Self {
        Self { id: id.into(), outcome, with: Vec::new() }
    }

    /// The memories that were recalled together with it, whose links to it grow.
    pub fn with<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.with = ids.into_iter().map(Into::into).collect();
        self
    }
}

/// A memory after its reinforcement.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Reinforced {
    /// In [1, 10].
    pub strength: f32,
    /// The current valence.
    pub valence: i8,
    /// How often it was reinforced.
    pub recall_count: u32,
}
