//! Everything that comes in is checked here, before anything is touched.
//!
//! Purpose: turns a request into a checked form that the relays can trust.
//!
//! Invariants:
//! * a request that is refused has changed nothing, for nothing here knows of a store;
//! * each bound has its own error, and the first that is broken, in the order of the fields as
//!   documented, is the one reported;
//! * a checked form holds every documented bound: relays do not check again.

use mnemolith_temporal::Timestamp;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::surprise::Hints;
use crate::types::{
    Limits, ListQuery, Metadata, RecallQuery, Reinforce, RememberRequest, Soul, Source, StatedRelation, Tier, Update, Weights,
};
use crate::{tags, vector};

/// Levels of nesting that metadata may have: what the JSON reader reads back.
const METADATA_DEPTH: usize = 100;

/// A request to remember that holds every bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CheckedMemory {
    /// As given.
    pub(crate) text: Option<String>,
    /// As given: finite, not zero, of the namespace's dimension, of any length.
    pub(crate) vector: Option<Vec<f32>>,
    pub(crate) id: Option<String>,
    /// In normal form, without repetitions, in the order given.
    pub(crate) tags: Vec<String>,
    /// The same tags in the form they were given in.
    pub(crate) tags_as_given: Vec<String>,
    /// Compact JSON with sorted keys; empty where there is no metadata.
    pub(crate) metadata_json: String,
    pub(crate) tier: Tier,
    pub(crate) session: Option<String>,
    pub(crate) at: Option<Timestamp>,
    pub(crate) valence: Option<i8>,
    pub(crate) arousal: Option<u8>,
    pub(crate) reward: Option<f64>,
    pub(crate) hints: Hints,
    pub(crate) soul: Option<CheckedSoul>,
    pub(crate) links: Vec<(String, f64)>,
    pub(crate) entities: Vec<String>,
    pub(crate) relations: Vec<StatedRelation>,
    pub(crate) allow_duplicate: bool,
    pub(crate) source: Source,
}

/// A persona that holds every bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CheckedSoul {
    pub(crate) version: u16,
    /// By tag in its normal form, in the order of the names given.
    pub(crate) boosts: Vec<(String, f64)>,
    pub(crate) valence_gain: f64,
}

impl CheckedSoul {
    /// The boosts that apply to a memory with these tags in their normal form. Two spellings of
    /// one tag are two boosts.
    pub(crate) fn matching(&self, tags: &[String]) -> Vec<f64> {
        self.boosts.iter().filter(|(tag, _)| tags.contains(tag)).map(|(_, boost)| *boost).collect()
    }
}

/// A query that holds every bound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CheckedQuery {
    pub(crate) text: Option<String>,
    pub(crate) vector: Option<Vec<f32>>,
    pub(crate) k: usize,
    /// In normal form, without repetitions.
    pub(crate) tags_all: Vec<String>,
    /// In normal form, without repetitions.
    pub(crate) tags_any: Vec<String>,
    /// Without repetitions; empty for all.
    pub(crate) tiers: Vec<Tier>,
    pub(crate) session: Option<String>,
    pub(crate) after: Option<Timestamp>,
    pub(crate) before: Option<Timestamp>,
    /// Those of the profile, with `m` = 0 where the query carries no mood.
    pub(crate) weights: Weights,
    /// 0, and without weight, where the query carries none.
    pub(crate) mood: i8,
    pub(crate) exact: bool,
    pub(crate) explain: bool,
}

/// A listing that holds every bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedList {
    pub(crate) tags_all: Vec<String>,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) session: Option<String>,
    pub(crate) after: Option<Timestamp>,
    pub(crate) before: Option<Timestamp>,
    pub(crate) limit: usize,
    pub(crate) cursor: Option<String>,
}

/// An update that holds every bound. What is absent stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CheckedUpdate {
    pub(crate) text: Option<String>,
    /// In normal form, each with the form it was given in.
    pub(crate) tags: Option<Vec<(String, String)>>,
    /// Compact JSON with sorted keys; empty for an empty object.
    pub(crate) metadata_json: Option<String>,
}

/// Checks a request against the bounds, and against the namespace's dimension where one is fixed.
///
/// # Errors
/// The first bound that is broken.
pub(crate) fn memory(request: RememberRequest, dimension: Option<usize>) -> Result<CheckedMemory> {
    content(request.text.as_deref(), request.vector.as_deref(), dimension)?;
    if let Some(given) = &request.id {
        id(given)?;
    }
    let (tags, tags_as_given) = tags::pairs(&request.tags)?.into_iter().unzip();
    let metadata_json = metadata(&request.metadata)?;
    session(request.session.as_deref())?;
    if let Some(value) = request.at
        && !value.in_memory_range()
    {
        return Err(Error::TimeOutOfRange { field: "at", value });
    }
    let valence = request.valence.map(|value| signed("valence", value)).transpose()?;
    let arousal = request.arousal.map(arousal).transpose()?;
    optional("reward", request.reward, -1.0, 1.0)?;
    optional("interest", request.interest, 0.0, 1.0)?;
    optional("challenge", request.challenge, 0.0, 1.0)?;
    optional("urgency", request.urgency, 0.0, 1.0)?;
    let soul = request.soul.as_ref().map(soul).transpose()?;
    links(&request.links)?;
    items("entities", request.entities.len())?;
    for (index, entity) in request.entities.iter().enumerate() {
        name(|| format!("entities[{index}]"), entity, Limits::NAME_BYTES)?;
    }
    relations(&request.relations)?;
    Ok(CheckedMemory {
        text: request.text,
        vector: request.vector,
        id: request.id,
        tags,
        tags_as_given,
        metadata_json,
        tier: request.tier,
        session: request.session,
        at: request.at,
        valence,
        arousal,
        reward: request.reward,
        hints: Hints { interest: request.interest, challenge: request.challenge, urgency: request.urgency },
        soul,
        links: request.links,
        entities: request.entities,
        relations: request.relations,
        allow_duplicate: request.allow_duplicate,
        source: request.source,
    })
}

/// Checks a query. `k` has no bound: what there is bounds it.
///
/// # Errors
/// The first bound that is broken.
pub(crate) fn query(query: RecallQuery, dimension: Option<usize>) -> Result<CheckedQuery> {
    content(query.text.as_deref(), query.vector.as_deref(), dimension)?;
    let tags_all = tags::normalise_all(&query.tags_all)?;
    let tags_any = tags::normalise_all(&query.tags_any)?;
    session(query.session.as_deref())?;
    let mood = query.mood.map(|value| signed("mood", value)).transpose()?;
    let mut weights = query.profile.weights();
    if mood.is_none() {
        weights.m = 0.0;
    }
    Ok(CheckedQuery {
        text: query.text,
        vector: query.vector,
        k: query.k,
        tags_all,
        tags_any,
        tiers: distinct(query.tiers),
        session: query.session,
        after: query.after,
        before: query.before,
        weights,
        mood: mood.unwrap_or(0),
        exact: query.exact,
        explain: query.explain,
    })
}

/// Checks a listing.
///
/// # Errors
/// The first bound that is broken.
pub(crate) fn list(query: ListQuery) -> Result<CheckedList> {
    let tags_all = tags::normalise_all(&query.tags_all)?;
    session(query.session.as_deref())?;
    range("limit", query.limit as f64, 1.0, Limits::PAGE as f64)?;
    Ok(CheckedList {
        tags_all,
        tiers: distinct(query.tiers),
        session: query.session,
        after: query.after,
        before: query.before,
        limit: query.limit,
        cursor: query.cursor,
    })
}

/// Checks an update.
///
/// # Errors
/// The first bound that is broken.
pub(crate) fn update(update: Update) -> Result<CheckedUpdate> {
    if let Some(given) = &update.text {
        text(given)?;
    }
    Ok(CheckedUpdate {
        tags: update.tags.as_deref().map(tags::pairs).transpose()?,
        metadata_json: update.metadata.as_ref().map(metadata).transpose()?,
        text: update.text,
    })
}

/// Checks a reinforcement.
///
/// # Errors
/// The first bound that is broken.
pub(crate) fn reinforce(reinforce: Reinforce) -> Result<Reinforce> {
    id(&reinforce.id)?;
    range("outcome", reinforce.outcome, -1.0, 1.0)?;
    items("with", reinforce.with.len())?;
    for (index, other) in reinforce.with.iter().enumerate() {
        id_in(|| format!("with[{index}]"), other)?;
    }
    Ok(reinforce)
}

/// Checks an id: anything but nothing.
///
/// # Errors
/// [`Error::BlankId`], [`Error::IdTooLong`].
pub(crate) fn id(id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::BlankId);
    }
    if id.len() > Limits::ID_BYTES {
        return Err(Error::IdTooLong { len: id.len(), max: Limits::ID_BYTES });
    }
    Ok(())
}

/// Checks the name of a namespace, which is the name of its directory.
///
/// # Errors
/// [`Error::InvalidName`].
pub(crate) fn namespace(name: &str) -> Result<()> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    if (1..=Limits::NAMESPACE_BYTES).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    // Long enough to recognise it by, and no longer.
    Err(Error::InvalidName { namespace: name.chars().take(100).collect() })
}

fn content(given_text: Option<&str>, given_vector: Option<&[f32]>, dimension: Option<usize>) -> Result<()> {
    if given_text.is_none() && given_vector.is_none() {
        return Err(Error::MissingContent);
    }
    if let Some(given) = given_text {
        text(given)?;
    }
    given_vector.map_or(Ok(()), |given| vector::check(given, dimension))
}

fn text(text: &str) -> Result<()> {
    if text.len() > Limits::TEXT_BYTES {
        return Err(Error::TextTooLong { len: text.len(), max: Limits::TEXT_BYTES });
    }
    if text.trim().is_empty() {
        return Err(Error::BlankText);
    }
    Ok(())
}

/// Compact JSON with sorted keys, within the bound on its bytes; empty for an empty object.
fn metadata(metadata: &Metadata) -> Result<String> {
    if metadata.is_empty() {
        return Ok(String::new());
    }
    check_depth(metadata)?;
    let json = serde_json::to_string(metadata)
        .map_err(|error| Error::InvalidField { field: "metadata".to_owned(), message: error.to_string() })?;
    if json.len() > Limits::METADATA_BYTES {
        return Err(Error::MetadataTooLong { len: json.len(), max: Limits::METADATA_BYTES });
    }
    Ok(json)
}

/// Walks level by level and not by recursion, since the depth is what is in doubt.
fn check_depth(metadata: &Metadata) -> Result<()> {
    let mut level: Vec<&Value> = metadata.values().collect();
    for _ in 0..METADATA_DEPTH {
        let mut below = Vec::new();
        for value in level {
            match value {
                Value::Array(values) => below.extend(values),
                Value::Object(object) => below.extend(object.values()),
                _ => {}
            }
        }
        level = below;
    }
    if level.is_empty() {
        return Ok(());
    }
    Err(Error::InvalidField {
        field: "metadata".to_owned(),
        message: format!("it is nested deeper than {METADATA_DEPTH} levels; flatten it"),
    })
}

fn session(session: Option<&str>) -> Result<()> {
    session.map_or(Ok(()), |given| name(|| "session".to_owned(), given, Limits::NAME_BYTES))
}

fn soul(soul: &Soul) -> Result<CheckedSoul> {
    items("soul.boosts", soul.boosts.len())?;
    let mut boosts = Vec::with_capacity(soul.boosts.len());
    for (tag, boost) in &soul.boosts {
        let field = || format!("soul.boosts[{tag:?}]");
        let normal = tags::normalise(tag);
        name(|| "a tag of soul.boosts".to_owned(), &normal, Limits::TAG_BYTES)?;
        ranged(field, *boost, 0.0, Limits::BOOST)?;
        boosts.push((normal, *boost));
    }
    let gain = Limits::VALENCE_GAIN;
    range("soul.valence_gain", soul.valence_gain, -gain, gain)?;
    Ok(CheckedSoul { version: soul.version, boosts, valence_gain: soul.valence_gain })
}

fn links(links: &[(String, f64)]) -> Result<()> {
    items("links", links.len())?;
    for (index, (to, weight)) in links.iter().enumerate() {
        id_in(|| format!("links[{index}].to"), to)?;
        let field = || format!("links[{index}].weight");
        ranged(field, *weight, f64::MIN_POSITIVE, Limits::LINK_WEIGHT)?;
    }
    Ok(())
}

fn relations(relations: &[StatedRelation]) -> Result<()> {
    items("relations", relations.len())?;
    for (index, relation) in relations.iter().enumerate() {
        let field = |part: &str| format!("relations[{index}].{part}");
        name(|| field("subject"), &relation.subject, Limits::NAME_BYTES)?;
        name(|| field("predicate"), &relation.predicate, Limits::NAME_BYTES)?;
        name(|| field("object"), &relation.object, Limits::LITERAL_BYTES)?;
    }
    Ok(())
}

fn items(field: &'static str, found: usize) -> Result<()> {
    if found > Limits::ITEMS {
        return Err(Error::TooManyItems { field, found, max: Limits::ITEMS });
    }
    Ok(())
}

fn name(field: impl FnOnce() -> String, name: &str, max: usize) -> Result<()> {
    if name.len() > max {
        return Err(Error::FieldTooLong { field: field(), len: name.len(), max });
    }
    if name.trim().is_empty() {
        return Err(Error::BlankField { field: field() });
    }
    Ok(())
}

/// An id that is not the memory's own, so that its error names where it stood.
fn id_in(field: impl FnOnce() -> String, id: &str) -> Result<()> {
    if id.len() > Limits::ID_BYTES {
        return Err(Error::FieldTooLong { field: field(), len: id.len(), max: Limits::ID_BYTES });
    }
    if id.is_empty() {
        return Err(Error::BlankField { field: field() });
    }
    Ok(())
}

fn optional(field: &'static str, value: Option<f64>, min: f64, max: f64) -> Result<()> {
    value.map_or(Ok(()), |value| range(field, value, min, max))
}

fn range(field: &'static str, value: f64, min: f64, max: f64) -> Result<()> {
    ranged(|| field.to_owned(), value, min, max)
}

/// NaN is in no range.
fn ranged(field: impl FnOnce() -> String, value: f64, min: f64, max: f64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::OutOfRange { field: field(), value, min, max })
}

fn signed(field: &'static str, value: i64) -> Result<i8> {
    let max = Limits::VALENCE as f64;
    let out = || Error::OutOfRange { field: field.to_owned(), value: value as f64, min: -max, max };
    i8::try_from(value).ok().filter(|v| *v >= -127).ok_or_else(out)
}

fn arousal(value: i64) -> Result<u8> {
    let (field, max) = ("arousal".to_owned(), Limits::AROUSAL as f64);
    u8::try_from(value).map_err(|_| Error::OutOfRange { field, value: value as f64, min: 0.0, max })
}

fn distinct(tiers: Vec<Tier>) -> Vec<Tier> {
    Tier::ALL.into_iter().filter(|tier| tiers.contains(tier)).collect()
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
