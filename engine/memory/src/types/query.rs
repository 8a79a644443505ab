//! What `recall`, `get`, `list` and `why_not` take and return.
//!
//! Purpose: plain data. Invariant: setters store what they are given; every bound is checked by
//! the call that takes the value.

use std::time::Duration;

use mnemolith_temporal::Timestamp;

use super::{Location, Metadata, Profile, Source, Tier};

/// What to look for.
///
/// ```
/// use mnemolith::{Profile, RecallQuery};
///
/// let query = RecallQuery::new("why did the deploy fail?")
///     .k(5)
///     .tags_all(["deploy"])
///     .profile(Profile::Debugging);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a query does nothing until it is recalled"]
pub struct RecallQuery {
    pub(crate) text: Option<String>,
    pub(crate) vector: Option<Vec<f32>>,
    pub(crate) k: usize,
    pub(crate) tags_all: Vec<String>,
    pub(crate) tags_any: Vec<String>,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) session: Option<String>,
    pub(crate) after: Option<Timestamp>,
    pub(crate) before: Option<Timestamp>,
    pub(crate) profile: Profile,
    pub(crate) mood: Option<i64>,
    pub(crate) exact: bool,
    pub(crate) explain: bool,
}

impl Default for RecallQuery {
    /// A query for nothing: give it a text or a vector.
    fn default() -> Self {
        Self {
            text: None,
            vector: None,
            k: Self::DEFAULT_K,
            tags_all: Vec::new(),
            tags_any: Vec::new(),
            tiers: Vec::new(),
            session: None,
            after: None,
            before: None,
            profile: Profile::default(),
            mood: None,
            exact: false,
            explain: false,
        }
    }
}

impl RecallQuery {
    /// How many memories come back where the query does not say.
    pub const DEFAULT_K: usize = 10;

    /// Looks for a text. It is data: no character in it is an operator.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Looks for the neighbours of a vector of the namespace's dimension.
    pub fn from_vector(vector: impl Into<Vec<f32>>) -> Self {
        Self { vector: Some(vector.into()), ..Self::default() }
    }

    /// The text to look for.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// The vector to look for, in place of one from the embedder.
    pub fn vector(mut self, vector: impl Into<Vec<f32>>) -> Self {
        self.vector = Some(vector.into());
        self
    }

    /// How many memories at most; 0 gives none, and more than there are gives all.
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// Only memories that carry every one of these tags.
    pub fn tags_all<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags_all = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Only memories that carry at least one of these tags; those that carry more of them rank
    /// higher.
    pub fn tags_any<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags_any = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Only memories of these tiers; of all where empty.
    pub fn tiers(mut self, tiers: impl IntoIterator<Item = Tier>) -> Self {
        self.tiers = tiers.into_iter().collect();
        self
    }

    /// Only memories of this session.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Only memories of this instant or later.
    pub fn after(mut self, after: Timestamp) -> Self {
        self.after = Some(after);
        self
    }

    /// Only memories from before this instant.
    pub fn before(mut self, before: Timestamp) -> Self {
        self.before = Some(before);
        self
    }

    /// The weights of the score.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// The mood to match with the memories' current valence, -127..=127.
    pub fn mood(mut self, mood: impl Into<i64>) -> Self {
        self.mood = Some(mood.into());
        self
    }

    /// Forces the exact scan.
    pub fn exact(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    /// Asks for the plan's reasons too.
    pub fn explain(mut self, explain: bool) -> Self {
        self.explain = explain;
        self
    }
}

/// One memory found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// The memory's id.
    pub id: String,
    /// The score: the product of the breakdown.
    pub score: f64,
    /// The cosine of query and memory; 0 where either has no vector.
    pub cosine: f64,
    /// The text as given.
    pub text: Option<String>,
    /// The tags as they were given, without repetitions.
    pub tags: Vec<String>,
    /// When it happened.
    pub at: Timestamp,
    /// The tier.
    pub tier: Tier,
    /// The session.
    pub session: Option<String>,
    /// The metadata.
    pub metadata: Metadata,
    /// As encoded, in [0.05, 10].
    pub importance: f32,
    /// Now, in [1, 10].
    pub strength: f32,
    /// Now.
    pub valence: i8,
    /// The factors of the score.
    pub breakdown: Breakdown,
}

/// The factors whose product is the score.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Breakdown {
    /// Similarity.
    pub sim: f64,
    /// Importance and age.
    pub modulation: f64,
    /// Optional tags.
    pub tags: f64,
    /// Mood.
    pub mood: f64,
}

/// What a recall found, and how.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Recall {
    /// The best first.
    pub hits: Vec<Hit>,
    /// How they were found.
    pub plan: Plan,
}

/// How a recall was carried out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Such as `exact` or `lexical`.
    pub name: String,
    /// Memories that passed the filters.
    pub admitted: u64,
    /// Memories that were scored canonically.
    pub candidates: u64,
    /// Vector rows or codes that were read.
    pub rows_scanned: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The whole call, by the store's monotonic clock.
    pub elapsed: Duration,
    /// The vector kernel in use.
    pub kernel: &'static str,
    /// Memories that were found damaged and are kept out of this and every later answer.
    pub set_aside: u64,
    /// Why this plan; empty unless the query asked to explain.
    pub reasons: Vec<String>,
}

/// Everything the store knows of one memory.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MemoryRecord {
    /// The id.
    pub id: String,
    /// The text as given.
    pub text: Option<String>,
    /// The tags as they were given, without repetitions.
    pub tags: Vec<String>,
    /// The metadata.
    pub metadata: Metadata,
    /// The tier.
    pub tier: Tier,
    /// The session.
    pub session: Option<String>,
    /// When it happened.
    pub at: Timestamp,
    /// As encoded.
    pub valence: i8,
    /// After reinforcement.
    pub current_valence: i8,
    /// As encoded.
    pub arousal: u8,
    /// As encoded.
    pub importance: f32,
    /// As encoded.
    pub surprise_z: f32,
    /// So surprising when it was encoded that it never fades.
    pub flashbulb: bool,
    /// Does not fade with age.
    pub pinned: bool,
    /// Now, in [1, 10].
    pub strength: f32,
    /// How often it was reinforced.
    pub recall_count: u32,
    /// When it was last reinforced.
    pub last_recall: Option<Timestamp>,
    /// When its content was last remembered, duplicates included.
    pub last_seen: Timestamp,
    /// Where it is.
    pub location: Location,
    /// The memory before it in its session.
    pub predecessor: Option<String>,
    /// Whether it has a vector.
    pub has_vector: bool,
    /// Where it comes from.
    pub source: Source,
    /// The version of the persona that encoded it; 0 for none.
    pub soul_version: u16,
}

/// Which memories to list, in the order they were stored.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a query does nothing until it is listed"]
pub struct ListQuery {
    pub(crate) tags_all: Vec<String>,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) session: Option<String>,
    pub(crate) after: Option<Timestamp>,
    pub(crate) before: Option<Timestamp>,
    pub(crate) limit: usize,
    pub(crate) cursor: Option<String>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl ListQuery {
    /// How many memories a page has where the query does not say.
    pub const DEFAULT_LIMIT: usize = 100;

    /// Every memory.
    pub fn new() -> Self {
        Self { tags_all: Vec::new(), tiers: Vec::new(), session: None, after: None, before: None, limit: Self::DEFAULT_LIMIT, cursor: None }
    }

    /// Only memories that carry every one of these tags.
    pub fn tags_all<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags_all = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Only memories of these tiers; of all where empty.
    pub fn tiers(mut self, tiers: impl IntoIterator<Item = Tier>) -> Self {
        self.tiers = tiers.into_iter().collect();
        self
    }

    /// Only memories of this session.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Only memories of this instant or later.
    pub fn after(mut self, after: Timestamp) -> Self {
        self.after = Some(after);
        self
    }

    /// Only memories from before this instant.
    pub fn before(mut self, before: Timestamp) -> Self {
        self.before = Some(before);
        self
    }

    /// Memories on a page, 1..=1000.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Goes on where the page with this cursor ended.
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// The memories, in the order they were stored.
    pub memories: Vec<MemoryRecord>,
    /// For the next page; `None` on the last.
    pub cursor: Option<String>,
}

/// Why a recall did not return a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WhyNot {
    /// Its place among all admitted memories, from 1; `None` where it was not admitted.
    pub rank: Option<u64>,
    /// For people: each filter that kept it out, or what ranked above it.
    pub reasons: Vec<String>,
}
