//! Which rows a query admits, as one bitset per slab.
//!
//! What bitsets decide (liveness, tags) is decided for a whole slab before any row is touched. What is written in headers and states
//! (tier, time, valence, whether there is a vector) is looked up only for rows that are left, block by block, right before a scan
//! reads the same headers to score them.
//!
//! Invariant: the answer is exact. Tags come from postings; the Bloom column alone admits nobody.

use std::ops::RangeInclusive;

use mnemolith_simd::Kernels;
use parking_lot::RwLock;
use roaring::RoaringBitmap;

use crate::error::{KernelError, Result};
use crate::format::{EncodingHeader, flags};
use crate::index::SlabIndex;
use crate::view::{Reader, SlabView};

/// Up to so many rows of a word, each is looked up by itself.
const SPARSE_WORD: u32 = 16;

/// What a query demands of a memory. The default demands nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Normal forms of the tags a memory must all have.
    pub tags_all: Vec<String>,
    /// The Bloom mask of `tags_all`, or any part of it: it only narrows where there is no index.
    pub mask: u64,
    /// Normal forms of tags of which a memory must have one; empty where none is needed.
    pub tags_any: Vec<String>,
    /// The tiers admitted; `None` for all.
    pub tiers: Option<[bool; 4]>,
    /// The name of the session a memory must belong to.
    pub session: Option<String>,
    /// The earliest event time admitted.
    pub after_ms: Option<i64>,
    /// The first event time that is too late.
    pub before_ms: Option<i64>,
    /// The current valences admitted.
    pub valence: Option<RangeInclusive<i8>>,
    /// Whether a memory must have a vector.
    pub require_vector: bool,
}

impl Filter {
    /// The filter with tags and session as the numbers that the dictionaries give them.
    pub(crate) fn resolve(&self, number: &dyn Fn(&str) -> Option<u32>, session: &dyn Fn(&str) -> Option<u32>) -> ResolvedFilter {
        let all: Option<Vec<u32>> = self.tags_all.iter().map(|tag| number(tag)).collect();
        let any: Vec<u32> = self.tags_any.iter().filter_map(|tag| number(tag)).collect();
        let session = self.session.as_deref().map(session);
        ResolvedFilter {
            refuted: all.is_none() || session == Some(None),
            all: all.unwrap_or_default(),
            any: (!self.tags_any.is_empty()).then_some(any),
            mask: self.mask,
            tiers: self.tiers,
            session: session.flatten(),
            after_ms: self.after_ms,
            before_ms: self.before_ms,
            valence: self.valence.clone(),
            require_vector: self.require_vector,
        }
    }
}

/// A [`Filter`] that speaks of tags by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedFilter {
    /// Tags are demanded of which no memory has one.
    refuted: bool,
    all: Vec<u32>,
    any: Option<Vec<u32>>,
    mask: u64,
    tiers: Option<[bool; 4]>,
    session: Option<u32>,
    after_ms: Option<i64>,
    before_ms: Option<i64>,
    valence: Option<RangeInclusive<i8>>,
    require_vector: bool,
}

impl ResolvedFilter {
    /// Bits of a slab's rows that are live and have the tags; no bits at all where it is known at once that nobody does.
    ///
    /// # Errors
    /// Where the slab has no index and the payloads that stand in for it are damaged.
    pub(crate) fn slab_bits(
        &self,
        reader: &Reader,
        kernels: &Kernels,
        index: &RwLock<Vec<SlabIndex>>,
        (number, slab): (usize, &SlabView),
    ) -> Result<Vec<u64>> {
        if self.refuted || slab.len == 0 {
            return Ok(Vec::new());
        }
        let mut bits = slab.live_bits();
        if self.all.is_empty() && self.any.is_none() {
            return Ok(bits);
        }
        let indexes = index.read();
        let Some(index) = indexes.get(number) else {
            drop(indexes);
            self.read_tags(reader, kernels, slab, &mut bits)?;
            return Ok(bits);
        };
        let postings: Option<Vec<_>> = self.all.iter().map(|tag| index.posting(*tag)).collect();
        let Some(postings) = postings else {
            return Ok(Vec::new());
        };
        for posting in postings {
            let mut having = vec![0; bits.len()];
            set_rows(&mut having, posting);
            kernels.bits_and(&mut bits, &having);
        }
        if let Some(any) = &self.any {
            let mut having = vec![0; bits.len()];
            any.iter().filter_map(|tag| index.posting(*tag)).for_each(|posting| set_rows(&mut having, posting));
            kernels.bits_and(&mut bits, &having);
        }
        Ok(bits)
    }

    /// The tags of a slab without postings: the Bloom column refutes most rows, the payloads of the others decide.
    fn read_tags(&self, reader: &Reader, kernels: &Kernels, slab: &SlabView, bits: &mut [u64]) -> Result<()> {
        let column = slab.rows.masks(&reader.pass).get(..slab.len).ok_or(KernelError::Internal("a tag column above its slab"))?;
        let mut possible = vec![0; bits.len()];
        kernels.mask_all(column, self.mask, &mut possible);
        kernels.bits_and(bits, &possible);
        for (first, word) in (0..).step_by(64).zip(bits) {
            for place in ones(*word) {
                let tags = reader.payload(&reader.row(slab.base + (first + place) as u64)?)?.tags;
                let has = |wanted: &u32| tags.iter().any(|tag| tag.id == *wanted);
                if !self.all.iter().all(has) || self.any.as_ref().is_some_and(|any| !any.iter().any(has)) {
                    *word &= !(1 << place);
                }
            }
        }
        Ok(())
    }

    /// Whether headers or states have a say.
    pub(crate) fn reads_headers(&self) -> bool {
        self.require_vector
            || self.tiers.is_some()
            || self.session.is_some()
            || self.after_ms.is_some()
            || self.before_ms.is_some()
            || self.valence.is_some()
    }

    /// Clears the bits of rows that headers or states refute. `words` and `headers` begin at row `first` of the slab.
    pub(crate) fn refine(&self, slab: &SlabView, headers: &[EncodingHeader], first: usize, words: &mut [u64]) {
        if !self.reads_headers() {
            return;
        }
        let needed = if self.require_vector { flags::HAS_VECTOR } else { 0 };
        let tiers = self.tiers.unwrap_or([true; 4]);
        let tiers = tiers.iter().enumerate().fold(0_u8, |bits, (tier, admitted)| bits | u8::from(*admitted) << tier);
        let after = self.after_ms.unwrap_or(i64::MIN);
        let fits = |header: &EncodingHeader| {
            (header.flags & needed == needed)
                & (tiers >> header.tier() & 1 == 1)
                & self.session.is_none_or(|session| header.session == session)
                & (header.event_time_ms >= after)
                & self.before_ms.is_none_or(|before| header.event_time_ms < before)
        };
        for ((first, word), headers) in (first..).step_by(64).zip(words).zip(headers.chunks(64)) {
            // A header is a cache line: where few rows are left, the others are not worth reading.
            if word.count_ones() > SPARSE_WORD {
                *word &= headers.iter().enumerate().fold(0, |bits, (place, header)| bits | u64::from(fits(header)) << place);
            } else {
                retain(word, |place| headers.get(place).is_some_and(fits));
            }
            if let Some(valences) = &self.valence {
                retain(word, |place| {
                    let encoded = headers.get(place).map(|header| header.valence);
                    let current = slab.state(first + place).map(|state| state.valence).or(encoded);
                    current.is_some_and(|valence| valences.contains(&valence))
                });
            }
        }
    }
}

/// The rows that a filter admits.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// First slots and bits of the slabs that have any, in order.
    slabs: Vec<(u64, Vec<u64>)>,
}

impl Admitted {
    #[cfg(test)]
    /// How many there are.
    pub(crate) fn count(&self, kernels: &Kernels) -> u64 {
        self.slabs.iter().map(|(_, words)| kernels.bits_count(words)).sum()
    }

    /// Their slots, in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        self.slabs.iter().flat_map(|(base, words)| {
            let words = (*base..).step_by(64).zip(words);
            words.flat_map(|(first, word)| ones(*word).map(move |place| first + place as u64))
        })
    }
}

/// Every row that a filter admits, for lists without a vector.
///
/// # Errors
/// As [`ResolvedFilter::slab_bits`].
pub(crate) fn list(reader: &Reader, kernels: &Kernels, index: &RwLock<Vec<SlabIndex>>, filter: &ResolvedFilter) -> Result<Admitted> {
    let mut admitted = Admitted::default();
    for (number, slab) in reader.view.slabs.iter().enumerate() {
        let mut bits = filter.slab_bits(reader, kernels, index, (number, slab))?;
        if bits.iter().all(|&word| word == 0) {
            continue;
        }
        let headers = slab.rows.headers(&reader.pass).get(..slab.len).ok_or(KernelError::Internal("headers above their slab"))?;
        filter.refine(slab, headers, 0, &mut bits);
        admitted.slabs.push((slab.base, bits));
    }
    Ok(admitted)
}

/// Sets the bits of a posting's rows. Rows that the view does not count in yet lie beyond the bits, or are masked by the caller.
fn set_rows(bits: &mut [u64], posting: &RoaringBitmap) {
    for row in posting {
        let Some(word) = bits.get_mut(row as usize / 64) else {
            return;
        };
        *word |= 1 << (row % 64);
    }
}

/// The places of a word's set bits.
#[inline]
pub(crate) fn ones(mut word: u64) -> impl Iterator<Item = usize> + Clone {
    std::iter::from_fn(move || {
        let place = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (place < 64).then_some(place as usize)
    })
}

/// Clears the bits whose place a predicate refuses.
#[inline]
fn retain(word: &mut u64, keep: impl Fn(usize) -> bool) {
    for place in ones(*word) {
        if !keep(place) {
            *word &= !(1 << place);
        }
    }
}

#[cfg(test)]
mod tests {
    use mnemolith_simd::available;
    use proptest::prelude::*;

    use super::*;
    use crate::scan::fixture::{Memory, NOW_MS, Random, World, bloom, random_world};

    const HOUR: i64 = 3_600_000;

    fn number(word: &str) -> Option<u32> {
        word.parse().ok()
    }

    fn words(tags: &[u32]) -> Vec<String> {
        tags.iter().map(u32::to_string).collect()
    }

    fn admitted(world: &World, kernels: &Kernels, filter: &Filter) -> Vec<u64> {
        let admitted = list(&world.reader, kernels, &world.index, &filter.resolve(&number, &|_| None)).unwrap();
        let slots: Vec<u64> = admitted.slots().collect();
        assert_eq!(admitted.count(kernels), slots.len() as u64);
        slots
    }

    fn expected(world: &World, fits: impl Fn(&Memory) -> bool) -> Vec<u64> {
        world.rows.iter().filter(|memory| memory.is_live() && fits(memory)).map(|memory| memory.slot).collect()
    }

    /// Asks every kernel, with and without an index, and wants an answer that is neither nothing nor everything.
    fn check(world: &World, filter: &Filter, fits: impl Fn(&Memory) -> bool) {
        let expected = expected(world, fits);
        assert!(!expected.is_empty() && (expected.len() as u64) < world.reader.live(), "{filter:?} tells nothing");
        for kernels in available() {
            assert_eq!(admitted(world, kernels, filter), expected, "{filter:?}");
        }
    }

    fn sample() -> World {
        random_world(&mut Random(11), 16, 2000)
    }

    #[test]
    fn each_condition_alone() {
        let world = sample();
        let has = |memory: &Memory, tag: u32| memory.tags.contains(&tag);
        let none = Filter::default();
        assert_eq!(admitted(&world, available()[0], &none), expected(&world, |_| true));
        check(&world, &Filter { tags_all: words(&[2]), ..none.clone() }, |row| has(row, 2));
        check(&world, &Filter { tags_all: words(&[2, 7]), ..none.clone() }, |row| has(row, 2) && has(row, 7));
        check(&world, &Filter { tags_any: words(&[2, 7]), ..none.clone() }, |row| has(row, 2) || has(row, 7));
        let partly = Filter { tags_any: vec!["2".to_owned(), "unknown".to_owned(), "77".to_owned()], ..none.clone() };
        check(&world, &partly, |row| has(row, 2));
        let tier = |row: &Memory| (row.flags & flags::TIER_MASK) >> flags::TIER_SHIFT;
        check(&world, &Filter { tiers: Some([false, true, false, true]), ..none.clone() }, |row| tier(row) % 2 == 1);
        check(&world, &Filter { require_vector: true, ..none.clone() }, |row| row.flags & flags::HAS_VECTOR != 0);
        check(&world, &Filter { valence: Some(-20..=60), ..none.clone() }, |row| (-20..=60).contains(&row.valence_now()));
        // Both bounds are times that rows have.
        let time = NOW_MS - 100 * HOUR;
        assert!(world.rows.iter().any(|row| row.is_live() && row.event_time_ms == time));
        check(&world, &Filter { after_ms: Some(time), ..none.clone() }, |row| row.event_time_ms >= time);
        check(&world, &Filter { before_ms: Some(time), ..none.clone() }, |row| row.event_time_ms < time);
    }

    #[test]
    fn tags_that_nobody_has_admit_nobody() {
        let world = sample();
        let none = Filter::default();
        for filter in [
            Filter { tags_all: vec!["2".to_owned(), "unknown".to_owned()], ..none.clone() },
            Filter { tags_any: vec!["unknown".to_owned()], ..none.clone() },
            Filter { tags_all: words(&[77]), ..none.clone() },
            Filter { tags_any: words(&[77]), ..none.clone() },
            Filter { tiers: Some([false; 4]), ..none.clone() },
            Filter { before_ms: Some(i64::MIN), ..none },
        ] {
            assert_eq!(admitted(&world, available()[0], &filter), Vec::<u64>::new(), "{filter:?}");
        }
    }

    #[test]
    fn payloads_stand_in_for_an_index_that_is_missing() {
        let world = sample();
        // Tag 7 has the same bit as tag 2, so the column alone would admit too many.
        let filter = Filter { tags_all: words(&[2]), tags_any: words(&[1, 3]), mask: bloom(&[2]), ..Filter::default() };
        let fits = |row: &Memory| row.tags.contains(&2) && (row.tags.contains(&1) || row.tags.contains(&3));
        world.index.write().truncate(1);
        check(&world, &filter, fits);
        world.index.write().clear();
        check(&world, &filter, fits);
        check(&world, &Filter { mask: 0, ..filter }, fits);
    }

    #[test]
    fn set_bits_are_listed_in_order() {
        for word in [0, 1, 1 << 63, u64::MAX, 0x8000_0100_0000_0401] {
            assert_eq!(ones(word).collect::<Vec<_>>(), (0..64).filter(|place| word >> place & 1 == 1).collect::<Vec<_>>());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn conditions_together_admit_what_each_admits(seed: u64) {
            let mut random = Random(seed);
            let rows = 1 + random.below(1500) as usize;
            let world = random_world(&mut random, 16, rows);
            for _ in 0..8 {
                let mut some = |most: u64| (0..random.below(most)).map(|_| 1 + random.below(9) as u32).collect::<Vec<_>>();
                let (all, any) = (some(3), some(4));
                let tiers = random.one_in(2).then(|| [(); 4].map(|()| random.one_in(2)));
                let after = random.one_in(3).then(|| NOW_MS - random.below(300) as i64 * HOUR);
                let before = random.one_in(3).then(|| NOW_MS - random.below(300) as i64 * HOUR);
                let valence = random.one_in(3).then(|| random.below(120) as i8..=random.below(128) as i8);
                let vector = random.one_in(2);
                let filter = Filter {
                    tags_all: words(&all),
                    tags_any: words(&any),
                    mask: bloom(&all),
                    tiers,
                    session: None,
                    after_ms: after,
                    before_ms: before,
                    valence: valence.clone(),
                    require_vector: vector,
                };
                let expected = expected(&world, |row| {
                    all.iter().all(|tag| row.tags.contains(tag))
                        && (any.is_empty() || any.iter().any(|tag| row.tags.contains(tag)))
                        && tiers.is_none_or(|tiers| tiers[usize::from(row.flags >> 1 & 3)])
                        && after.is_none_or(|after| row.event_time_ms >= after)
                        && before.is_none_or(|before| row.event_time_ms < before)
                        && valence.as_ref().is_none_or(|valence| valence.contains(&row.valence_now()))
                        && (!vector || row.flags & flags::HAS_VECTOR != 0)
                });
                for kernels in available() {
                    prop_assert_eq!(&admitted(&world, kernels, &filter), &expected);
                }
            }
        }
    }
}
