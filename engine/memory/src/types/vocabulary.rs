//! The closed vocabularies: tiers, sources, profiles, relays, durability, and the limits.
//!
//! Purpose: one enum per concept, each with its printed name.
//!
//! Invariants: names are lower case (relays: upper case) and `parse` accepts exactly what
//! `as_str` returns, in any ASCII case; the codes that reach the disk never change.

use std::time::Duration;

use crate::error::{Error, Result};

/// The bounds that every input is held to. Bytes are bytes of UTF-8.
#[derive(Debug, Clone, Copy)]
pub struct Limits;

impl Limits {
    /// Bytes of an id.
    pub const ID_BYTES: usize = 1024;
    /// Bytes of a text.
    pub const TEXT_BYTES: usize = 1024 * 1024;
    /// Tags of one memory or one query field.
    pub const TAGS: usize = 64;
    /// Bytes of a tag, as given and in its normal form.
    pub const TAG_BYTES: usize = 256;
    /// Bytes of the metadata as compact JSON.
    pub const METADATA_BYTES: usize = 64 * 1024;
    /// Dimension of a vector.
    pub const DIMENSION: usize = 65_535;
    /// Bytes of a session, an entity, a subject or a predicate.
    pub const NAME_BYTES: usize = 1024;
    /// Bytes of the object of a relation, which may be a literal.
    pub const LITERAL_BYTES: usize = 64 * 1024;
    /// Links, entities, relations or boosts of one request.
    pub const ITEMS: usize = 256;
    /// The greatest weight of a link; the least is above 0.
    pub const LINK_WEIGHT: f64 = 10.0;
    /// The greatest boost of a persona; the least is 0.
    pub const BOOST: f64 = 10.0;
    /// The greatest valence gain of a persona, and its least with a minus sign.
    pub const VALENCE_GAIN: f64 = 10.0;
    /// The greatest valence, mood included, and its least with a minus sign.
    pub const VALENCE: i64 = 127;
    /// The greatest arousal; the least is 0.
    pub const AROUSAL: i64 = 255;
    /// Memories on one page of a listing.
    pub const PAGE: usize = 1000;
    /// Bytes of a namespace's name.
    pub const NAMESPACE_BYTES: usize = 63;
}

/// Which kind of memory it is. Each tier has its own surprise statistics and duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Tier {
    /// What is being worked on now.
    Working,
    /// What happened.
    #[default]
    Episodic,
    /// What is known.
    Semantic,
    /// How something is done.
    Procedural,
}

impl Tier {
    /// Every tier, in the order of [`Tier::code`].
    pub const ALL: [Self; 4] = [Self::Working, Self::Episodic, Self::Semantic, Self::Procedural];

    /// The printed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Episodic => "episodic",
            Self::Semantic => "semantic",
            Self::Procedural => "procedural",
        }
    }

    /// Reads a printed name, in any ASCII case.
    ///
    /// # Errors
    /// [`Error::UnknownTier`].
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|tier| name.eq_ignore_ascii_case(tier.as_str()))
            .ok_or_else(|| Error::UnknownTier { name: name.to_owned() })
    }

    /// The two bits that stand for the tier on disk.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Working => 0,
            Self::Episodic => 1,
            Self::Semantic => 2,
            Self::Procedural => 3,
        }
    }

    /// The tier that `code` stands for.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Working),
            1 => Some(Self::Episodic),
            2 => Some(Self::Semantic),
            3 => Some(Self::Procedural),
            _ => None,
        }
    }
}

/// Where a memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Source {
    /// Nobody said.
    #[default]
    Unspecified,
    /// A person said it.
    User,
    /// The agent said or did it.
    Agent,
    /// A tool returned it.
    Tool,
    /// It was read in a document.
    Document,
    /// It was concluded and not observed.
    Inferred,
    /// It was imported from another store.
    Imported,
}

impl Source {
    /// Every source, in the order of [`Source::code`].
    pub const ALL: [Self; 7] = [Self::Unspecified, Self::User, Self::Agent, Self::Tool, Self::Document, Self::Inferred, Self::Imported];

    /// The printed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Document => "document",
            Self::Inferred => "inferred",
            Self::Imported => "imported",
        }
    }

    /// Reads a printed name, in any ASCII case.
    ///
    /// # Errors
    /// [`Error::UnknownSource`].
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|source| name.eq_ignore_ascii_case(source.as_str()))
            .ok_or_else(|| Error::UnknownSource { name: name.to_owned() })
    }

    /// The byte that stands for the source on disk.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Unspecified => 0,
            Self::User => 1,
            Self::Agent => 2,
            Self::Tool => 3,
            Self::Document => 4,
            Self::Inferred => 5,
            Self::Imported => 6,
        }
    }

    /// The source that `code` stands for.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// How much a recall lets importance, context and mood weigh beside similarity.
///
/// A profile sets four weights and perhaps a window of valence, and never replaces a filter of
/// the caller. The score is defined in [`Weights`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The defaults.
    #[default]
    Balanced,
    /// Look widely: age and importance hardly matter.
    Exploring,
    /// What matters most: importance weighs most, and fades little with age.
    Critical,
    /// Bring back an episode: tags and mood, the retrieval context, weigh most.
    Recalling,
    /// Find out what went wrong: recent memories that did not go well.
    Debugging,
    /// The cosine alone.
    Similarity,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 6] = [Self::Balanced, Self::Exploring, Self::Critical, Self::Recalling, Self::Debugging, Self::Similarity];

    /// The printed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Exploring => "exploring",
            Self::Critical => "critical",
            Self::Recalling => "recalling",
            Self::Debugging => "debugging",
            Self::Similarity => "similarity",
        }
    }

    /// Reads a printed name, in any ASCII case.
    ///
    /// # Errors
    /// [`Error::UnknownProfile`].
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|profile| name.eq_ignore_ascii_case(profile.as_str()))
            .ok_or_else(|| Error::UnknownProfile { name: name.to_owned() })
    }

    /// The weights of the profile.
    ///
    /// * Balanced: b 0.20, g 0.10, floor 0.35 are the score's defaults; m 0.10 is half of b, so
    ///   that a mood breaks ties and does not beat importance.
    /// * Exploring: b 0.05 and floor 0.70, so that an old, unimportant memory loses at most
    ///   5 % to a new, important one; g and m at half of Balanced.
    /// * Critical: b 0.50, so that importance is worth up to a third of the score, and floor
    ///   0.60, because what was critical stays so.
    /// * Recalling: g 0.25 and m 0.20, for episodes come back by their context (encoding
    ///   specificity, Tulving and Thomson 1973) and mood (Bower 1981).
    /// * Debugging: floor 0.10, because a failure is looked for among recent events; b 0.30; and
    ///   the window -127..=0, which leaves out what went well and keeps what carries no valence.
    /// * Similarity: all 0, and the score is the similarity; the floor then weighs nothing.
    #[must_use]
    pub const fn weights(self) -> Weights {
        match self {
            Self::Balanced => Weights { b: 0.20, g: 0.10, m: 0.10, floor: 0.35, valence_window: None },
            Self::Exploring => Weights { b: 0.05, g: 0.05, m: 0.05, floor: 0.70, valence_window: None },
            Self::Critical => Weights { b: 0.50, g: 0.10, m: 0.10, floor: 0.60, valence_window: None },
            Self::Recalling => Weights { b: 0.20, g: 0.25, m: 0.20, floor: 0.35, valence_window: None },
            Self::Debugging => Weights { b: 0.30, g: 0.10, m: 0.10, floor: 0.10, valence_window: Some((-127, 0)) },
            Self::Similarity => Weights { b: 0.0, g: 0.0, m: 0.0, floor: 0.35, valence_window: None },
        }
    }
}

/// The weights of a recall's score:
///
/// ```text
/// score = sim * mod * tags * mood
/// decay = pinned ? 1 : floor + (1 - floor) * (1 + age / (7 * strength))^-0.5
/// mod   = (1 + b * importance/10 * decay) / (1 + b)
/// tags  = 1 + g * popcount(mask & q) / popcount(q)
/// mood  = 1 - m * |mood - current valence| / 255
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Weight of importance, at least 0.
    pub b: f64,
    /// Weight of the optional tags, at least 0.
    pub g: f64,
    /// Weight of the mood, in [0, 1]. It acts only where the query carries a mood.
    pub m: f64,
    /// What is left of importance after endless time, in [0, 1].
    pub floor: f64,
    /// Admits only memories whose current valence lies in this range, ends included.
    pub valence_window: Option<(i8, i8)>,
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// After the device has it: acknowledged means that it survives power loss.
    #[default]
    Sync,
    /// As `Sync`, with the sync put off by at most `max_delay` so that more writes share it.
    Group {
        /// The longest a write waits for company.
        max_delay: Duration,
    },
    /// After the operating system has it: survives a killed process, not power loss.
    Buffered,
}

/// A step of the remember pathway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relay {
    /// Refuses what is stored already, and reserves the id.
    DedupGuard,
    /// Turns tags into their normal form and their mask.
    TagTransduction,
    /// Weighs how surprising the memory is.
    DopaminergicSurprise,
    /// Writes the log and the slab.
    CorticalWrite,
    /// Links the memory with its neighbours in time.
    GraphLinking,
    /// Extracts entities and relations.
    KgEnrichment,
}

impl Relay {
    /// Every relay, in the order of the pathway.
    pub const ALL: [Self; 6] =
        [Self::DedupGuard, Self::TagTransduction, Self::DopaminergicSurprise, Self::CorticalWrite, Self::GraphLinking, Self::KgEnrichment];

    /// The printed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DedupGuard => "DEDUP_GUARD",
            Self::TagTransduction => "TAG_TRANSDUCTION",
            Self::DopaminergicSurprise => "DOPAMINERGIC_SURPRISE",
            Self::CorticalWrite => "CORTICAL_WRITE",
            Self::GraphLinking => "GRAPH_LINKING",
            Self::KgEnrichment => "KG_ENRICHMENT",
        }
    }
}

/// How a relay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RelayStatus {
    /// It did all it had to do.
    Completed,
    /// It had nothing to do, or was not reached.
    Skipped,
    /// It failed, and the memory stands without it.
    Degraded,
    /// It failed, and so did the call.
    Failed,
}

impl RelayStatus {
    /// The printed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::Skipped => "Skipped",
            Self::Degraded => "Degraded",
            Self::Failed => "Failed",
        }
    }
}

macro_rules! printed_by_name {
    ($($name:ty),+) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}
printed_by_name!(Tier, Source, Profile, Relay, RelayStatus);

macro_rules! parsed_by_name {
    ($($name:ty),+) => {$(
        impl std::str::FromStr for $name {
            type Err = Error;
            fn from_str(name: &str) -> Result<Self> {
                Self::parse(name)
            }
        }
    )+};
}
parsed_by_name!(Tier, Source, Profile);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_read_back_and_nothing_else_does() {
        for tier in Tier::ALL {
            assert_eq!(tier.as_str().to_uppercase().parse(), Ok(tier));
            assert_eq!(Tier::from_code(tier.code()), Some(tier));
        }
        for source in Source::ALL {
            assert_eq!(Source::parse(source.as_str()), Ok(source));
            assert_eq!(Source::from_code(source.code()), Some(source));
        }
        for profile in Profile::ALL {
            assert_eq!(Profile::parse(&profile.to_string()), Ok(profile));
        }
        assert_eq!((Tier::from_code(4), Source::from_code(7)), (None, None));
        for wrong in ["", "episodic ", "long-term"] {
            assert_eq!(Tier::parse(wrong), Err(Error::UnknownTier { name: wrong.to_owned() }));
            assert!(Profile::parse(wrong).is_err() && Source::parse(wrong).is_err());
        }
    }

    #[test]
    fn the_codes_on_disk_never_change() {
        assert_eq!(Tier::ALL.map(Tier::code), [0, 1, 2, 3]);
        assert_eq!(Source::ALL.map(Source::code), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(Tier::default(), Tier::Episodic);
    }

    #[test]
    fn profiles_differ_and_keep_the_score_positive() {
        let balanced = Profile::Balanced.weights();
        assert_eq!((balanced.b, balanced.g, balanced.floor), (0.20, 0.10, 0.35));
        for (index, profile) in Profile::ALL.into_iter().enumerate() {
            let weights = profile.weights();
            assert!(weights.b >= 0.0 && weights.g >= 0.0);
            assert!((0.0..=1.0).contains(&weights.m) && (0.0..=1.0).contains(&weights.floor));
            for other in Profile::ALL.into_iter().skip(index + 1) {
                assert_ne!(weights, other.weights(), "{profile} and {other}");
            }
        }
        let plain = Profile::Similarity.weights();
        assert_eq!((plain.b, plain.g, plain.m, plain.valence_window), (0.0, 0.0, 0.0, None));
        // The claim of the documentation of Exploring.
        let weights = Profile::Exploring.weights();
        assert!(1.0 / (1.0 + weights.b) > 0.95);
    }
}
