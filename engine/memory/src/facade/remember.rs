//! The remember pathway: the signal that travels it, and the steps of the four relays that encode.
//!
//! Relays 1 to 3 and the hand-over to the log are one critical section in LSN order: the signal carries the kernel's sequencer from
//! the first relay to the fourth, so that dedup and novelty see every memory sequenced before this one, durable or not.
//!
//! Crash behaviour: nothing is visible before the one record of the memory is durable by policy; after it the memory exists.

use std::sync::Arc;

use mnemolith_kernel::format::{MutableState, Payload, flags};
use mnemolith_kernel::{NewRow, Row, Sequencer, Stored};
use xxhash_rust::xxh3::xxh3_128;

use super::{Inner, Memory, convert};
use crate::Timestamp;
use crate::content;
use crate::error::{Error, RememberError, Result};
use crate::pathway::{Fault, Flow, Outcome, PathwayRecipe, Progress, Step};
use crate::surprise::{Assessment, Statistics, SurpriseInput, Temper, assess};
use crate::tags;
use crate::types::{Enrichment, RememberRequest, RememberResult, Source, Status};
use crate::validate::{self, CheckedMemory};
use crate::vector;

/// Neighbours that surprise looks at.
const NEIGHBOURS: usize = 8;

/// One memory on its way through the relays.
pub(crate) struct RememberSignal {
    inner: Arc<Inner>,
    memory: CheckedMemory,
    at: Timestamp,
    content_hash: u128,
    sequencer: Option<Sequencer>,
    /// The id it gets.
    id: String,
    mask: u64,
    /// The vector at length one, and its length before.
    unit: Option<(Vec<f32>, f32)>,
    assessment: Option<Assessment>,
    /// Where it went, or where the memory it repeats lies.
    place: Option<Stored>,
    duplicate: bool,
}

/// The recipe of `remember`.
pub(crate) fn recipe() -> Result<PathwayRecipe<RememberSignal>> {
    PathwayRecipe::remember(DedupGuard, TagTransduction, DopaminergicSurprise, CorticalWrite)
        .map_err(|error| Error::Internal { place: "remember".to_owned(), message: error.to_string() })
}

fn fault(error: mnemolith_kernel::KernelError) -> Fault {
    Fault::from(convert::error(error))
}

impl RememberSignal {
    /// Everything is validated, and embedded, before the first relay: a rejected input touches no state.
    fn new(inner: &Arc<Inner>, request: RememberRequest) -> Result<Self> {
        let mut memory = validate::memory(request, Some(inner.dimension()))?;
        refuse_what_is_not_built(&memory)?;
        let at = memory.at.unwrap_or_else(|| inner.clock.now());
        if !at.in_memory_range() {
            return Err(Error::TimeOutOfRange { field: "at", value: at });
        }
        if memory.vector.is_none()
            && let Some(text) = &memory.text
        {
            memory.vector = inner.embed(text)?;
        }
        let content_hash = match (&memory.text, &memory.vector) {
            (Some(text), _) => content::text_hash(&inner.namespace, memory.tier, text),
            (None, vector) => content::vector_hash(&inner.namespace, memory.tier, vector.as_deref().unwrap_or_default()),
        };
        Ok(Self {
            inner: Arc::clone(inner),
            id: memory.id.clone().unwrap_or_default(),
            memory,
            at,
            content_hash,
            sequencer: None,
            mask: 0,
            unit: None,
            assessment: None,
            place: None,
            duplicate: false,
        })
    }

    fn sequencer(&mut self) -> Result<&mut Sequencer, Fault> {
        let missing = || Error::Internal { place: "remember".to_owned(), message: "a relay ran outside the critical section".to_owned() };
        self.sequencer.as_mut().ok_or_else(|| Fault::from(missing()))
    }

    /// Whether a stored memory has this content: a hash never merges two texts.
    fn is_same_content(&self, sequencer: &Sequencer, row: &Row, payload: &Payload) -> Result<bool, Fault> {
        if row.key.content_hash != self.content_hash || row.header.tier() != self.memory.tier.code() {
            return Ok(false);
        }
        Ok(match (&payload.text, &self.memory.text) {
            (Some(stored), Some(given)) => content::same_text(stored, given),
            (None, None) => {
                let (unit, norm) = vector::normalise(self.memory.vector.as_deref().unwrap_or_default());
                sequencer.vector(row).map_err(fault)? == unit && row.header.norm.to_bits() == norm.to_bits()
            }
            _ => false,
        })
    }

    /// The live memory this one repeats: that of its id, else the first of equal content that was seen within the window.
    fn find_original(&self, sequencer: &Sequencer) -> Result<Option<(Row, Payload)>, Fault> {
        if let Some(id) = &self.memory.id
            && let Some(slot) = sequencer.find_id(id).map_err(fault)?
        {
            let (row, payload) = (sequencer.row(slot).map_err(fault)?, sequencer.payload(slot).map_err(fault)?);
            if self.is_same_content(sequencer, &row, &payload)? {
                return Ok(Some((row, payload)));
            }
            return Err(Error::IdConflict { id: id.clone() }.into());
        }
        let window_ms = i64::try_from(self.inner.dedup_window.as_millis()).unwrap_or(i64::MAX);
        if self.memory.allow_duplicate || window_ms == 0 {
            return Ok(None);
        }
        for slot in sequencer.find_content(self.content_hash) {
            let row = sequencer.row(slot).map_err(fault)?;
            let payload = sequencer.payload(slot).map_err(fault)?;
            let apart_ms = self.at.millis().saturating_sub(row.state.last_seen_ms).saturating_abs();
            if apart_ms <= window_ms && self.is_same_content(sequencer, &row, &payload)? {
                return Ok(Some((row, payload)));
            }
        }
        Ok(None)
    }

    /// An id that no memory has: a function of the store and the position in the log, so that equal input gives equal ids.
    fn choose_id(&mut self) -> Result<(), Fault> {
        let uuid = self.inner.store.uuid();
        let sequencer = self.sequencer.as_ref();
        let Some(sequencer) = sequencer.filter(|_| self.memory.id.is_none()) else { return Ok(()) };
        for attempt in 0_u64.. {
            let mut seed = [0; 32];
            let parts = uuid.to_le_bytes().into_iter().chain(sequencer.next_lsn().to_le_bytes()).chain(attempt.to_le_bytes());
            seed.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
            self.id = base32(xxh3_128(&seed));
            if sequencer.find_id(&self.id).map_err(fault)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn result(self, outcome: Outcome) -> Result<RememberResult, RememberError> {
        let trace = outcome.trace;
        let Err(error) = outcome.result.map_err(|fault| fault.error) else {
            return self
                .describe()
                .map(|result| RememberResult { trace: trace.clone(), ..result })
                .map_err(|error| RememberError::new(error, trace));
        };
        Err(RememberError::new(error, trace))
    }

    /// The result as it stands in the store. A memory forgotten in the meantime is described by what was assessed.
    fn describe(&self) -> Result<RememberResult> {
        let place = self.place.ok_or_else(|| Error::Internal { place: "remember".to_owned(), message: "nothing was stored".to_owned() })?;
        let reader = self.inner.store.reader();
        let row = reader.row(place.slot).map_err(convert::error)?;
        let (partition, slot) = reader.location(place.slot).unwrap_or_default();
        Ok(RememberResult {
            id: self.id.clone(),
            location: convert::location(partition, slot, row.key.lsn),
            status: if self.duplicate { Status::Duplicate { of: self.id.clone() } } else { Status::Stored },
            importance: row.header.importance,
            surprise_z: row.header.surprise_z,
            valence: row.header.valence,
            arousal: row.header.arousal,
            flashbulb: row.header.has(flags::FLASHBULB),
            enrichment: Enrichment::NotConfigured,
            trace: Vec::new(),
        })
    }
}

/// What a request may already say and this build does not do is refused, never dropped in silence.
fn refuse_what_is_not_built(memory: &CheckedMemory) -> Result<()> {
    let what = [
        (!memory.links.is_empty(), "linking memories (links)"),
        (!memory.entities.is_empty(), "entities of a memory (entities)"),
        (!memory.relations.is_empty(), "relations of a memory (relations)"),
    ];
    match what.into_iter().find(|(given, _)| *given) {
        Some((_, what)) => Err(Error::Unsupported { what: what.to_owned() }),
        None => Ok(()),
    }
}

/// 128 bits in Crockford's base 32, lower case: 26 characters without look-alikes.
fn base32(mut bits: u128) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut text = Vec::with_capacity(26);
    for _ in 0..26 {
        text.push(DIGITS.get((bits & 31) as usize).copied().unwrap_or(b'0'));
        bits >>= 5;
    }
    text.reverse();
    String::from_utf8(text).unwrap_or_default()
}

/// Relay 1: equal content within the window, or an id that is taken.
struct DedupGuard;

impl Step<RememberSignal> for DedupGuard {
    fn run(&self, signal: &mut RememberSignal) -> Result<Flow, Fault> {
        let mut sequencer = signal.inner.store.sequence().map_err(fault)?;
        let Some((row, payload)) = signal.find_original(&sequencer)? else {
            signal.sequencer = Some(sequencer);
            signal.choose_id()?;
            return Ok(Flow::Done("new content".to_owned()));
        };
        let state = MutableState { last_seen_ms: row.state.last_seen_ms.max(signal.at.millis()), ..row.state };
        // The refreshed record waits behind its original in the log: once it is durable, so is the original.
        let lsn = sequencer.amend(vec![(row.slot, state)]).map_err(fault)?;
        signal.place = Some(Stored { slot: row.slot, lsn });
        signal.id = payload.id;
        signal.duplicate = true;
        Ok(Flow::Suspended)
    }

    fn settle(&self, signal: &mut RememberSignal) -> Result<Flow, Fault> {
        wait(signal)?;
        Ok(Flow::Bypass(format!("duplicate of {:?}; its last-seen time was refreshed", signal.id)))
    }
}

/// Relay 2: tags to a Bloom mask, the vector to length one.
struct TagTransduction;

impl Step<RememberSignal> for TagTransduction {
    fn run(&self, signal: &mut RememberSignal) -> Result<Flow, Fault> {
        signal.mask = tags::mask(&signal.memory.tags);
        signal.unit = signal.memory.vector.as_deref().map(vector::normalise);
        Ok(Flow::Done(format!("{} tags, mask {:016x}", signal.memory.tags.len(), signal.mask)))
    }
}

/// Relay 3: novelty, prediction error, importance, valence, arousal, flashbulb.
struct DopaminergicSurprise;

impl Step<RememberSignal> for DopaminergicSurprise {
    fn run(&self, signal: &mut RememberSignal) -> Result<Flow, Fault> {
        let tier = signal.memory.tier.code();
        let window = signal.inner.novelty_window;
        let unit = signal.unit.take();
        let sequencer = signal.sequencer()?;
        let neighbours = unit.as_ref().map_or_else(Vec::new, |(unit, _)| sequencer.nearest(tier, unit, window, NEIGHBOURS));
        let before = statistics(sequencer.register(tier))?;
        signal.unit = unit;
        let boosts = signal.memory.soul.as_ref().map(|soul| (soul.matching(&signal.memory.tags), soul.valence_gain));
        let assessment = assess(
            &SurpriseInput {
                neighbours: &neighbours,
                has_vector: signal.unit.is_some(),
                hints: signal.memory.hints,
                reward: signal.memory.reward,
                valence: signal.memory.valence,
                arousal: signal.memory.arousal,
                temper: boosts.as_ref().map(|(boosts, valence_gain)| Temper { boosts, valence_gain: *valence_gain }),
            },
            before,
        );
        signal.assessment = Some(assessment);
        let novelty = assessment.novelty.map_or_else(|| "no vector".to_owned(), |novelty| format!("novelty {novelty:.3}"));
        Ok(Flow::Done(format!("{novelty}, z {:.2}, importance {:.2}", assessment.z, assessment.importance)))
    }
}

/// The statistics as the last record left them.
fn statistics(register: Option<&[u8]>) -> Result<Statistics, Fault> {
    let Some(bytes) = register else { return Ok(Statistics::default()) };
    let read = <&[u8; Statistics::BYTES]>::try_from(bytes).ok().and_then(Statistics::from_bytes);
    let unreadable = || Error::Internal { place: "surprise".to_owned(), message: "stored statistics cannot be read".to_owned() };
    read.ok_or_else(|| Fault::from(unreadable()))
}

/// Relay 4: one self-contained record, durable by policy, then the slab, then visible.
struct CorticalWrite;

impl Step<RememberSignal> for CorticalWrite {
    fn run(&self, signal: &mut RememberSignal) -> Result<Flow, Fault> {
        let unassessed = || Error::Internal { place: "remember".to_owned(), message: "the write ran before the assessment".to_owned() };
        let assessment = signal.assessment.ok_or_else(|| Fault::from(unassessed()))?;
        let sequencer = signal.sequencer.take();
        let memory = &signal.memory;
        let pairs: Vec<(String, String)> = memory.tags.iter().cloned().zip(memory.tags_as_given.iter().cloned()).collect();
        let row = NewRow {
            replaces: None,
            id: &signal.id,
            content_hash: signal.content_hash,
            text: memory.text.as_deref(),
            tags: &pairs,
            tag_mask: signal.mask,
            metadata: memory.metadata_json.as_bytes(),
            session: memory.session.as_deref(),
            vector: signal.unit.as_ref().map(|(unit, _)| unit.as_slice()),
            norm: signal.unit.as_ref().map_or(0.0, |(_, norm)| *norm),
            tier: memory.tier.code(),
            flags: row_flags(&assessment, memory.source),
            valence: assessment.valence,
            arousal: assessment.arousal,
            importance: assessment.importance,
            surprise_z: assessment.z,
            event_time_ms: signal.at.millis(),
            soul_version: memory.soul.as_ref().map_or(0, |soul| soul.version),
            source: memory.source.code(),
            state: None,
            registers: vec![(memory.tier.code(), assessment.after.to_bytes().to_vec())],
        };
        let missing = || Error::Internal { place: "remember".to_owned(), message: "the write ran outside the critical section".to_owned() };
        let mut sequencer = sequencer.ok_or_else(|| Fault::from(missing()))?;
        let stored = sequencer.store(&row).map_err(fault)?;
        signal.place = Some(stored);
        Ok(Flow::Suspended)
    }

    fn settle(&self, signal: &mut RememberSignal) -> Result<Flow, Fault> {
        let lsn = wait(signal)?;
        Ok(Flow::Done(format!("LSN {lsn}")))
    }
}

fn row_flags(assessment: &Assessment, source: Source) -> u8 {
    let flashbulb = if assessment.flashbulb { flags::FLASHBULB | flags::PINNED } else { 0 };
    let inferred = if source == Source::Inferred { flags::INFERRED } else { 0 };
    flashbulb | inferred
}

fn wait(signal: &RememberSignal) -> Result<u64, Fault> {
    let lsn = signal.place.map_or(0, |place| place.lsn);
    signal.inner.store.wait(lsn).map_err(fault)?;
    Ok(lsn)
}

/// A memory handed over to the log. Dropping it gives up the wait, not the write.
#[must_use = "the memory is not known to be durable before it was waited for"]
pub struct PendingRemember {
    signal: RememberSignal,
    progress: Progress,
}

impl std::fmt::Debug for PendingRemember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingRemember").field("id", &self.signal.id).finish_non_exhaustive()
    }
}

impl PendingRemember {
    /// The id the memory has, or that of the memory it repeats.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.signal.id
    }

    /// Waits until the memory is durable by the namespace's [`Durability`](crate::Durability) and visible to the next recall.
    ///
    /// # Errors
    /// The failure of the relay that failed, with the trace.
    pub fn wait(mut self) -> Result<RememberResult, RememberError> {
        let inner = Arc::clone(&self.signal.inner);
        let outcome = inner.recipe.finish(self.progress, &mut self.signal, inner.clock.as_ref());
        self.signal.result(outcome)
    }
}

impl Memory {
    /// Remembers one memory: validates it, runs it through the relays, and returns when it is durable by policy and visible to the
    /// next recall.
    ///
    /// ```
    /// use mnemolith::{Memory, RememberRequest, Status};
    ///
    /// let memory = Memory::in_memory()?;
    /// let first = memory.remember(RememberRequest::new("Alice moved to Lisbon").tag("people").session("s1"))?;
    /// assert_eq!(first.status, Status::Stored);
    /// let again = memory.remember(RememberRequest::new("Alice  moved to Lisbon"))?;
    /// assert_eq!(again.status, Status::Duplicate { of: first.id });
    /// # Ok::<(), mnemolith::Error>(())
    /// ```
    ///
    /// # Errors
    /// A rejected input has its own variant of [`Error`] and touched nothing. [`Error::IdConflict`] where the id names other content.
    /// [`Error::NoSpace`] left nothing behind and works again once there is room. [`Error::Failed`] asks for reopening.
    pub fn remember(&self, request: RememberRequest) -> Result<RememberResult, RememberError> {
        self.remember_begin(request)?.wait()
    }

    /// Hands a memory over to the log without waiting for the device: the way to many memories a second from one thread. Memories
    /// become durable and visible in the order they were begun.
    ///
    /// ```
    /// use mnemolith::{Memory, RememberRequest};
    ///
    /// let memory = Memory::in_memory()?;
    /// let pending: Vec<_> =
    ///     (0..100).map(|n| memory.remember_begin(RememberRequest::new(format!("line {n}")))).collect::<Result<_, _>>()?;
    /// for ticket in pending {
    ///     ticket.wait()?;
    /// }
    /// assert_eq!(memory.stats()?.live, 100);
    /// # Ok::<(), mnemolith::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Memory::remember`], up to the hand-over.
    pub fn remember_begin(&self, request: RememberRequest) -> Result<PendingRemember, RememberError> {
        let inner = self.inner()?;
        let mut signal = RememberSignal::new(inner, request)?;
        let progress = inner.recipe.begin(&mut signal, inner.clock.as_ref());
        if progress.is_suspended() {
            return Ok(PendingRemember { signal, progress });
        }
        signal.sequencer = None;
        let outcome = inner.recipe.finish(progress, &mut signal, inner.clock.as_ref());
        let trace = outcome.trace.clone();
        signal.result(outcome)?;
        let unsettled = Error::Internal { place: "remember".to_owned(), message: "the pathway ended without a write".to_owned() };
        Err(RememberError::new(unsettled, trace))
    }

    /// Remembers many memories, as the same calls in sequence would: a result each, a durable prefix, not atomic. They share syncs.
    ///
    /// ```
    /// use mnemolith::{Memory, RememberRequest};
    ///
    /// let memory = Memory::in_memory()?;
    /// let results = memory.remember_batch(["one", "  ", "two"].map(RememberRequest::new));
    /// assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    /// # Ok::<(), mnemolith::Error>(())
    /// ```
    pub fn remember_batch(&self, requests: impl IntoIterator<Item = RememberRequest>) -> Vec<Result<RememberResult, RememberError>> {
        let pending: Vec<_> = requests.into_iter().map(|request| self.remember_begin(request)).collect();
        pending.into_iter().map(|pending| pending.and_then(PendingRemember::wait)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_and_tickets_travel_between_threads() {
        fn sendable<T: Send>() {}
        fn shareable<T: Send + Sync>() {}
        sendable::<PendingRemember>();
        shareable::<Memory>();
    }

    #[test]
    fn ids_are_26_digits_in_the_order_of_the_bits() {
        assert_eq!(base32(0), "0".repeat(26));
        assert_eq!(base32(u128::MAX), format!("7{}", "z".repeat(25)));
        assert!(base32(1 << 100) > base32(u128::MAX >> 30));
    }
}
