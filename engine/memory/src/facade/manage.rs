//! Everything but remember and recall: look up, list, change, reinforce, forget, purge, and care for the namespace.

use std::collections::BTreeMap;

use mnemolith_kernel::format::{MutableState, flags};
use mnemolith_kernel::{Filter, NewRow, Reader};

use super::{Inner, Memory, Sifted, convert, sift};
use crate::Timestamp;
use crate::content;
use crate::error::{Error, Result};
use crate::types::{CheckpointReport, Limits, ListQuery, MemoryRecord, Page, Reinforce, Reinforced, Stats, Tier, Update, VerifyReport};
use crate::validate::{self, CheckedUpdate};
use crate::{tags, vector};

const MAX_STRENGTH: f64 = 10.0;

impl Memory {
    /// The memory of an id; `None` where there is none or it was forgotten.
    ///
    /// # Errors
    /// [`Error::BlankId`], [`Error::IdTooLong`]; [`Error::Corrupt`] where what is stored of it is damaged.
    pub fn get(&self, id: &str) -> Result<Option<MemoryRecord>> {
        validate::id(id)?;
        let reader = self.inner()?.store.reader();
        find(&reader, id)
    }

    /// Memories in the order they were remembered, filtered, a page at a time. An updated memory keeps its place. A memory that turns
    /// out to be damaged is set aside, as [`Memory::recall`] does.
    ///
    /// # Errors
    /// The first bound broken; [`Error::InvalidCursor`].
    pub fn list(&self, query: ListQuery) -> Result<Page> {
        let inner = self.inner()?;
        let query = validate::list(query)?;
        let after_lsn = query.cursor.as_deref().map_or(Ok(0), |cursor| parse_cursor(inner, cursor))?;
        let filter = Filter {
            mask: tags::mask(&query.tags_all),
            tags_all: query.tags_all,
            tiers: super::recall::tier_flags(&query.tiers),
            after_ms: query.after.map(Timestamp::millis),
            before_ms: query.before.map(Timestamp::millis),
            session: query.session,
            ..Filter::default()
        };
        loop {
            let reader = inner.store.reader();
            let (slots, more) = reader.page(&filter, after_lsn, query.limit).map_err(convert::error)?;
            let read = |&slot: &u64| reader.row(slot).and_then(|row| convert::record(&reader, &row));
            let Sifted { whole: memories, damaged } = sift(&slots, read)?;
            if damaged.is_empty() {
                let cursor = memories.last().filter(|_| more).map(|last| format!("{:08x}-{:x}", store_mark(inner), last.location.lsn));
                return Ok(Page { memories, cursor });
            }
            drop(reader);
            // The next page is made without them.
            damaged.into_iter().for_each(|(slot, _)| inner.store.quarantine(*slot));
        }
    }

    /// Changes text, tags or metadata of a memory under its id: a new row in one record; times, order, session, strength and what surprise
    /// made of it stay. An update of nothing writes nothing. A new text is embedded again where there is an embedder, else the vector stays. Durable when it returns.
    ///
    /// ```
    /// use mnemolith::{Memory, RememberRequest, Update};
    ///
    /// let memory = Memory::in_memory()?;
    /// memory.remember(RememberRequest::new("the gate code is 4711").id("gate").tag("home"))?;
    /// let changed = memory.update("gate", Update::new().text("the gate code is 4712"))?;
    /// assert_eq!((changed.text.as_deref(), changed.tags.as_slice()), (Some("the gate code is 4712"), &["home".to_owned()][..]));
    /// # Ok::<(), mnemolith::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`], or the first bound broken; [`Error::Corrupt`] where what stays is damaged: nothing was changed.
    pub fn update(&self, id: &str, update: Update) -> Result<MemoryRecord> {
        validate::id(id)?;
        let inner = self.inner()?;
        let update = validate::update(update)?;
        if update == CheckedUpdate::default() {
            return self.get(id)?.ok_or_else(|| Error::NotFound { id: id.to_owned() });
        }
        let embedded = update.text.as_deref().map(|text| inner.embed(text)).transpose()?.flatten();
        let fresh = embedded.as_deref().map(vector::normalise);
        let mut sequencer = inner.store.sequence().map_err(convert::error)?;
        let not_found = || Error::NotFound { id: id.to_owned() };
        let slot = sequencer.find_id(id).map_err(convert::error)?.ok_or_else(not_found)?;
        let (row, old) = (sequencer.row(slot).map_err(convert::error)?, sequencer.payload(slot).map_err(convert::error)?);
        // A vector that stays is copied, and must not take damage along under a new checksum.
        let kept = if fresh.is_some() { Vec::new() } else { sequencer.vector(slot).map_err(convert::error)?.to_vec() };
        let tier = convert::tier(&row);
        let text = update.text.as_deref().or(old.text.as_deref());
        let pairs =
            update.tags.unwrap_or_else(|| old.tags.iter().map(|tag| (tags::normalise(&tag.display), tag.display.clone())).collect());
        let normals: Vec<&str> = pairs.iter().map(|(normal, _)| normal.as_str()).collect();
        let header = &row.header;
        let stored = sequencer.store(&NewRow {
            replaces: Some(slot),
            id,
            content_hash: match &update.text {
                Some(text) => content::text_hash(&inner.namespace, tier, text),
                None => row.key.content_hash,
            },
            text,
            tags: &pairs,
            tag_mask: tags::mask(&normals),
            metadata: update.metadata_json.as_deref().map_or(old.metadata.as_slice(), str::as_bytes),
            vector: fresh.as_ref().map(|(unit, _)| unit.as_slice()).or_else(|| (!kept.is_empty()).then_some(kept.as_slice())),
            norm: fresh.as_ref().map_or(header.norm, |(_, norm)| *norm),
            tier: tier.code(),
            flags: header.flags & (flags::PINNED | flags::FLASHBULB | flags::INFERRED),
            valence: header.valence,
            arousal: header.arousal,
            importance: header.importance,
            surprise_z: header.surprise_z,
            event_time_ms: header.event_time_ms,
            soul_version: header.soul_version,
            source: header.source,
            state: Some(row.state),
            ..NewRow::default()
        });
        let stored = stored.map_err(convert::error)?;
        drop(sequencer);
        inner.store.wait(stored.lsn).map_err(convert::error)?;
        let reader = inner.store.reader();
        find(&reader, id)?.ok_or_else(not_found)
    }

    /// Learns from use: strength grows by 0.1 (1 + max(0, outcome)) / strength up to 10, valence moves three tenths of the way to
    /// 127 outcome, the recall counts. Durable when it returns; a read never does this by itself.
    ///
    /// ```
    /// use mnemolith::{Memory, Reinforce, RememberRequest};
    ///
    /// let memory = Memory::in_memory()?;
    /// memory.remember(RememberRequest::new("restart the worker, then the queue").id("fix"))?;
    /// let learned = memory.reinforce(Reinforce::new("fix", 1.0))?;
    /// assert_eq!((learned.strength, learned.valence, learned.recall_count), (1.2, 38, 1));
    /// # Ok::<(), mnemolith::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::OutOfRange`] for an outcome outside [-1, 1].
    pub fn reinforce(&self, reinforce: Reinforce) -> Result<Reinforced> {
        let inner = self.inner()?;
        let reinforce = validate::reinforce(reinforce)?;
        if !reinforce.with.is_empty() {
            return Err(Error::Unsupported { what: "linking memories (reinforce with)".to_owned() });
        }
        let now = inner.clock.now();
        let mut sequencer = inner.store.sequence().map_err(convert::error)?;
        let slot = sequencer.find_id(&reinforce.id).map_err(convert::error)?;
        let slot = slot.ok_or_else(|| Error::NotFound { id: reinforce.id.clone() })?;
        let state = reinforced(&sequencer.row(slot).map_err(convert::error)?.state, reinforce.outcome, now);
        let lsn = sequencer.amend(vec![(slot, state)]).map_err(convert::error)?;
        drop(sequencer);
        inner.store.wait(lsn).map_err(convert::error)?;
        Ok(Reinforced { strength: state.strength, valence: state.valence, recall_count: state.recall_count })
    }

    /// Forgets a memory: gone from every read at once, durably. Its bytes stay on disk until they are purged or compacted. Whether there was one.
    ///
    /// ```
    /// use mnemolith::{Memory, RememberRequest};
    ///
    /// let memory = Memory::in_memory()?;
    /// let id = memory.remember(RememberRequest::new("a detour"))?.id;
    /// assert!(memory.forget(&id)?);
    /// assert!(memory.get(&id)?.is_none() && !memory.forget(&id)?);
    /// # Ok::<(), mnemolith::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BlankId`], [`Error::IdTooLong`]; what the device answers.
    pub fn forget(&self, id: &str) -> Result<bool> {
        validate::id(id)?;
        let inner = self.inner()?;
        let mut sequencer = inner.store.sequence().map_err(convert::error)?;
        let Some(slot) = sequencer.find_id(id).map_err(convert::error)? else { return Ok(false) };
        let lsn = sequencer.forget(slot).map_err(convert::error)?;
        drop(sequencer);
        inner.store.wait(lsn).map_err(convert::error)?;
        Ok(true)
    }

    /// Destroys everything an id ever held, forgotten and updated versions included: gone from every read at once, and its bytes (text,
    /// vector, tags that only it had) overwritten by the next checkpoint. Whether anything of it was left.
    ///
    /// ```
    /// use mnemolith::{Memory, RememberRequest};
    ///
    /// let memory = Memory::in_memory()?;
    /// let id = memory.remember(RememberRequest::new("a secret"))?.id;
    /// assert!(memory.purge(&id)?);
    /// assert_eq!(memory.checkpoint()?.rows_destroyed, 1);
    /// # Ok::<(), mnemolith::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Memory::forget`].
    pub fn purge(&self, id: &str) -> Result<bool> {
        validate::id(id)?;
        let inner = self.inner()?;
        let mut sequencer = inner.store.sequence().map_err(convert::error)?;
        let Some(lsn) = sequencer.purge(id).map_err(convert::error)? else { return Ok(false) };
        drop(sequencer);
        inner.store.wait(lsn).map_err(convert::error)?;
        Ok(true)
    }

    /// The namespaces beside this one, sorted, itself included.
    ///
    /// # Errors
    /// What the device answers.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        self.inner()?.backend.namespaces().map_err(convert::storage_error)
    }

    /// Removes another namespace with all it holds, durably. Whether there was one.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::AlreadyOpen`] while anybody has it open, this handle included.
    pub fn drop_namespace(&self, name: &str) -> Result<bool> {
        validate::namespace(name)?;
        self.inner()?.backend.remove(name).map_err(convert::storage_error)
    }

    /// Writes a checkpoint: slabs and snapshots cover the log so far, older log is removed, purged bytes are destroyed.
    ///
    /// # Errors
    /// [`Error::NoSpace`] keeps the old checkpoint and the log: nothing is lost. Another device error latches [`Error::Failed`].
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        let inner = self.inner()?;
        let started = inner.clock.monotonic();
        let done = inner.store.checkpoint().map_err(convert::error)?;
        Ok(CheckpointReport {
            checkpoint_lsn: done.lsn,
            pages: done.pages,
            segments_removed: done.segments_removed,
            rows_destroyed: done.rows_destroyed,
            elapsed: inner.clock.monotonic().saturating_sub(started),
        })
    }

    /// Checks every checksum of the namespace and what must agree with what. Damage is in the report, not an error.
    ///
    /// # Errors
    /// What the device answers.
    pub fn verify(&self) -> Result<VerifyReport> {
        let inner = self.inner()?;
        let found = inner.store.verify().map_err(convert::error)?;
        let describe = |problem: mnemolith_kernel::Problem| {
            let slot = problem.slot.map(|slot| format!(" (slot {slot})")).unwrap_or_default();
            format!("{} at byte {}{slot}: {}", problem.file, problem.offset, problem.what)
        };
        Ok(VerifyReport {
            memories: inner.store.reader().live(),
            rows: found.rows,
            pages: found.pages,
            index_files: found.index_files,
            log_records: found.log_records,
            problems: found.problems.into_iter().map(describe).collect(),
        })
    }

    /// Figures about the namespace.
    ///
    /// # Errors
    /// What the device answers.
    pub fn stats(&self) -> Result<Stats> {
        let inner = self.inner()?;
        let found = inner.store.stats().map_err(convert::error)?;
        let mut per_tier: BTreeMap<&'static str, u64> = Tier::ALL.iter().map(|tier| (tier.as_str(), 0)).collect();
        let reader = inner.store.reader();
        let stored = reader.memories();
        for tier in reader.live_slots(0).filter_map(|slot| reader.row(slot).ok()).map(|row| convert::tier(&row)) {
            *per_tier.entry(tier.as_str()).or_default() += 1;
        }
        Ok(Stats {
            namespace: inner.namespace.clone(),
            live: found.live,
            stored,
            forgotten: stored.saturating_sub(reader.live() + found.quarantined),
            per_tier,
            tags: found.tags,
            sessions: found.sessions,
            quarantined: found.quarantined,
            slabs: found.slabs,
            disk_bytes: found.disk_bytes,
            payload_bytes: found.payload_bytes,
            lsn: found.lsn,
            durable_lsn: found.durable_lsn,
            checkpoint_lsn: found.checkpoint_lsn,
            journal: found.journal.to_owned(),
            kernel: found.kernel,
            dimension: inner.dimension(),
            embedder: convert::embedder(inner.store.embedder()),
        })
    }
}

fn find(reader: &Reader, id: &str) -> Result<Option<MemoryRecord>> {
    let Some(slot) = reader.find_id(id).map_err(convert::error)? else { return Ok(None) };
    let row = reader.row(slot).map_err(convert::error)?;
    convert::record(reader, &row).map(Some).map_err(convert::error)
}

fn reinforced(old: &MutableState, outcome: f64, now: Timestamp) -> MutableState {
    let strength = f64::from(old.strength);
    let valence = 0.7 * f64::from(old.valence) + 0.3 * Limits::VALENCE as f64 * outcome;
    MutableState {
        strength: (strength + 0.1 * (1.0 + outcome.max(0.0)) / strength).min(MAX_STRENGTH) as f32,
        valence: valence.round().clamp(-(Limits::VALENCE as f64), Limits::VALENCE as f64) as i8,
        recall_count: old.recall_count.saturating_add(1),
        last_recall_ms: now.millis(),
        last_seen_ms: old.last_seen_ms,
    }
}

/// Tells cursors of different stores apart.
fn store_mark(inner: &Inner) -> u32 {
    inner.store.uuid() as u32
}

fn parse_cursor(inner: &Inner, cursor: &str) -> Result<u64> {
    let (mark, lsn) = cursor.split_once('-').ok_or(Error::InvalidCursor)?;
    let mark = u32::from_str_radix(mark, 16).map_err(|_| Error::InvalidCursor)?;
    let lsn = u64::from_str_radix(lsn, 16).map_err(|_| Error::InvalidCursor)?;
    if mark == store_mark(inner) { Ok(lsn) } else { Err(Error::InvalidCursor) }
}
