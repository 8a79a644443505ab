//! Recall: plan, scan, hydrate. A recall writes nothing.
//!
//! The answer is one view of the store: whatever writers do meanwhile, every hit, filter and score belongs to one prefix of the log. A hit
//! whose bytes turn out to be damaged is quarantined and the recall repeated without it, so damage costs a hit and never a wrong one.

use mnemolith_kernel::{Filter, KernelError, Query, Reader, Scored};

use super::{Inner, Memory, Sifted, convert, sift};
use crate::Timestamp;
use crate::error::{Error, Result};
use crate::types::{Breakdown, Hit, Plan, Recall, RecallQuery, Tier, Weights, WhyNot};
use crate::validate::{self, CheckedQuery};
use crate::{tags, vector};

impl Memory {
    /// The `k` best live memories for a vector, or for a text through the embedder: filtered, scored on one scale, best first. Writes nothing;
    /// equal recalls at one reading of the clock give equal answers.
    ///
    /// ```
    /// use mnemolith::{Memory, RecallQuery, RememberRequest};
    ///
    /// let memory = Memory::in_memory()?;
    /// memory.remember(RememberRequest::new("backups run at two in the morning").tag("ops"))?;
    /// memory.remember(RememberRequest::new("the cat sleeps on the printer").tag("office"))?;
    /// let recall = memory.recall(RecallQuery::new("when do backups run?").tags_all(["ops"]).k(3))?;
    /// assert_eq!(recall.hits.len(), 1);
    /// let b = recall.hits[0].breakdown;
    /// assert!((b.sim * b.modulation * b.tags * b.mood - recall.hits[0].score).abs() < 1e-5);
    /// # Ok::<(), mnemolith::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first bound broken; [`Error::WrongDimension`] naming both; [`Error::NoEmbedder`] for a text where the namespace has none.
    pub fn recall(&self, query: RecallQuery) -> Result<Recall> {
        let inner = self.inner()?;
        let asked = Asked::new(inner, query)?;
        let started = inner.clock.monotonic();
        let mut reasons = Vec::new();
        let mut query = asked.query();
        loop {
            let reader = inner.store.reader();
            let outcome = reader.scan(&query).map_err(convert::error)?;
            let Sifted { whole: mut hits, damaged } = sift(&outcome.hits, |scored| hit(&reader, scored))?;
            if damaged.is_empty() {
                hits.truncate(asked.checked.k);
                let elapsed = inner.clock.monotonic().saturating_sub(started);
                let plan = Plan {
                    name: "exact".to_owned(),
                    admitted: outcome.admitted,
                    candidates: outcome.candidates,
                    rows_scanned: outcome.rows_scanned,
                    bytes: outcome.bytes,
                    elapsed,
                    kernel: reader.kernel_name(),
                    set_aside: reasons.len() as u64,
                    reasons: asked.plan_reasons(reasons),
                };
                return Ok(Recall { hits, plan });
            }
            drop(reader);
            for (scored, error) in damaged {
                reasons.push(format!("slot {} was set aside: {error}", scored.slot));
                inner.store.quarantine(scored.slot);
            }
            // Each repetition looks twice as far, so that a damaged region costs few of them.
            query.k = query.k.saturating_mul(2);
        }
    }

    /// Why a memory is not among a recall's hits: its exact rank where it is admitted, and what keeps it out where it is not.
    ///
    /// # Errors
    /// As [`Memory::recall`].
    pub fn why_not(&self, id: &str, query: RecallQuery) -> Result<WhyNot> {
        validate::id(id)?;
        let inner = self.inner()?;
        let asked = Asked::new(inner, query)?;
        let reader = inner.store.reader();
        let Some(slot) = reader.find_id(id).map_err(convert::error)? else {
            return Ok(WhyNot { rank: None, reasons: vec!["no live memory has this id".to_owned()] });
        };
        let rank = reader.rank(&asked.query(), slot).map_err(convert::error)?.map(|rank| rank.rank + 1);
        let mut reasons = asked.refusals(&reader, slot)?;
        match rank {
            Some(rank) if rank <= asked.checked.k as u64 => reasons.push(format!("it is among the hits, at rank {rank}")),
            Some(rank) => reasons.push(format!("it is admitted and ranks {rank}, behind the {} asked for", asked.checked.k)),
            None if reasons.is_empty() => reasons.push("the filters do not admit it".to_owned()),
            None => {}
        }
        Ok(WhyNot { rank, reasons })
    }
}

/// A checked query with everything a scan needs.
struct Asked {
    checked: CheckedQuery,
    unit: Vec<f32>,
    filter: Filter,
    optional_tags: u64,
    now_ms: i64,
}

impl Asked {
    fn new(inner: &Inner, query: RecallQuery) -> Result<Self> {
        let mut checked = validate::query(query, Some(inner.dimension()))?;
        let vector = match (checked.vector.take(), &checked.text) {
            (Some(vector), _) => vector,
            (None, Some(text)) if inner.embedder.is_some() => inner.embed(text)?.ok_or_else(|| Error::Unavailable {
                service: "the embedder".to_owned(),
                message: "it did not answer, and without a vector there is nothing to compare".to_owned(),
            })?,
            (None, _) => return Err(Error::NoEmbedder),
        };
        let filter = Filter {
            mask: tags::mask(&checked.tags_all),
            tags_all: checked.tags_all.clone(),
            tags_any: checked.tags_any.clone(),
            tiers: tier_flags(&checked.tiers),
            session: checked.session.clone(),
            after_ms: checked.after.map(Timestamp::millis),
            before_ms: checked.before.map(Timestamp::millis),
            valence: checked.weights.valence_window.map(|(from, to)| from..=to),
            require_vector: true,
        };
        Ok(Self {
            unit: vector::normalise(&vector).0,
            optional_tags: tags::mask(&checked.tags_any),
            now_ms: inner.clock.now().millis(),
            filter,
            checked,
        })
    }

    fn query(&self) -> Query<'_> {
        Query {
            vector: &self.unit,
            k: self.checked.k,
            filter: &self.filter,
            weights: kernel_weights(&self.checked.weights),
            optional_tags: self.optional_tags,
            mood: (self.checked.weights.m > 0.0).then_some(self.checked.mood),
            now_ms: self.now_ms,
        }
    }

    fn plan_reasons(&self, mut reasons: Vec<String>) -> Vec<String> {
        if self.checked.explain {
            let asked = if self.checked.exact { "asked for" } else { "the only plan of this build" };
            reasons.push(format!("exact scan: {asked}"));
        }
        reasons
    }

    /// What keeps a live memory out, filter by filter.
    fn refusals(&self, reader: &Reader, slot: u64) -> Result<Vec<String>> {
        let row = reader.row(slot).map_err(convert::error)?;
        let payload = reader.payload(&row).map_err(convert::error)?;
        let has: Vec<String> = payload.tags.iter().map(|tag| tags::normalise(&tag.display)).collect();
        let (at, tier) = (row.header.event_time_ms, convert::tier(&row));
        let filter = &self.filter;
        let mut reasons = Vec::new();
        let missing = filter.tags_all.iter().filter(|tag| !has.contains(tag));
        reasons.extend(missing.map(|tag| format!("it lacks the tag {tag:?}")));
        let checks = [
            (!filter.tags_any.is_empty() && !filter.tags_any.iter().any(|tag| has.contains(tag)), "it has none of tags_any".to_owned()),
            (!self.checked.tiers.is_empty() && !self.checked.tiers.contains(&tier), format!("its tier is {tier}")),
            (filter.session.is_some() && filter.session != payload.session, "it belongs to another session".to_owned()),
            (filter.after_ms.is_some_and(|after| at < after), format!("it happened at {}, before `after`", Timestamp::from_millis(at))),
            (
                filter.before_ms.is_some_and(|before| at >= before),
                format!("it happened at {}, not before `before`", Timestamp::from_millis(at)),
            ),
            (
                filter.valence.as_ref().is_some_and(|window| !window.contains(&row.state.valence)),
                format!("its valence {} lies outside the profile's window", row.state.valence),
            ),
            (!row.header.has(mnemolith_kernel::format::flags::HAS_VECTOR), "it has no vector yet".to_owned()),
        ];
        reasons.extend(checks.into_iter().filter(|(refused, _)| *refused).map(|(_, reason)| reason));
        Ok(reasons)
    }
}

/// The tiers as flags; `None` where all are meant.
pub(super) fn tier_flags(tiers: &[Tier]) -> Option<[bool; 4]> {
    (!tiers.is_empty()).then(|| Tier::ALL.map(|tier| tiers.contains(&tier)))
}

fn kernel_weights(weights: &Weights) -> mnemolith_kernel::Weights {
    mnemolith_kernel::Weights { importance: weights.b, tags: weights.g, mood: weights.m, floor: weights.floor }
}

/// Id, text and the rest of one answer, every checksum checked.
fn hit(reader: &Reader, scored: &Scored) -> std::result::Result<Hit, KernelError> {
    let row = reader.row(scored.slot)?;
    reader.vector(&row)?;
    let payload = reader.payload(&row)?;
    let parts = &scored.breakdown;
    Ok(Hit {
        score: scored.score,
        cosine: scored.cosine,
        tags: convert::tags(&payload),
        metadata: convert::metadata(&payload),
        id: payload.id,
        text: payload.text,
        at: Timestamp::from_millis(row.header.event_time_ms),
        tier: convert::tier(&row),
        session: payload.session,
        importance: row.header.importance,
        strength: row.state.strength,
        valence: row.state.valence,
        breakdown: Breakdown { sim: parts.sim, modulation: parts.modulation, tags: parts.tags, mood: parts.mood },
    })
}
