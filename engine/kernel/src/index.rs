//! Indexes by slab: id hash, content hash and tag postings.
//!
//! A slab's index holds every row of the slab but the purged, forgotten ones included: liveness belongs to the view. A lookup gives candidates by 64
//! bits of the hash; the caller compares the whole key. Each slab's index is one checksummed file written at a checkpoint when the slab
//! changed, and rebuilt from keys and payloads when it does not check out.

use std::collections::{BTreeMap, BTreeSet};

use roaring::RoaringBitmap;

use crate::format::{Encoder, Input, KeyRecord, crc};

/// The folder of the index files.
pub(crate) const FOLDER: &str = "index";
const MAGIC: &[u8; 8] = b"MNEMOIDX";

/// The file of a slab's index.
pub(crate) fn index_path(number: usize) -> String {
    format!("{FOLDER}/{number:08}.idx")
}

/// Pairs of hash and row: a sorted array once read from a file, a tree while rows are added.
#[derive(Debug, Clone)]
enum Pairs {
    Growing(BTreeSet<(u64, u32)>),
    Settled(Box<[(u64, u32)]>),
}

impl Pairs {
    fn insert(&mut self, hash: u64, row: u32) {
        if let Self::Settled(pairs) = self {
            *self = Self::Growing(pairs.iter().copied().collect());
        }
        if let Self::Growing(pairs) = self {
            pairs.insert((hash, row));
        }
    }

    fn rows(&self, hash: u64) -> Vec<u32> {
        match self {
            Self::Growing(pairs) => pairs.range((hash, 0)..=(hash, u32::MAX)).map(|pair| pair.1).collect(),
            Self::Settled(pairs) => {
                let from = pairs.partition_point(|pair| pair.0 < hash);
                pairs.iter().skip(from).take_while(|pair| pair.0 == hash).map(|pair| pair.1).collect()
            }
        }
    }

    /// Drops the pairs of some rows.
    fn remove(&mut self, rows: &BTreeSet<u32>) {
        match self {
            Self::Growing(pairs) => pairs.retain(|pair| !rows.contains(&pair.1)),
            Self::Settled(pairs) => *pairs = pairs.iter().filter(|pair| !rows.contains(&pair.1)).copied().collect(),
        }
    }

    fn settle(&mut self) {
        if let Self::Growing(pairs) = self {
            *self = Self::Settled(pairs.iter().copied().collect());
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Growing(pairs) => pairs.len(),
            Self::Settled(pairs) => pairs.len(),
        }
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        out.u32(self.len() as u32);
        let mut put = |pair: &(u64, u32)| {
            out.u64(pair.0);
            out.u32(pair.1);
        };
        match self {
            Self::Growing(pairs) => pairs.iter().for_each(&mut put),
            Self::Settled(pairs) => pairs.iter().for_each(&mut put),
        }
    }

    /// Reads pairs of rows below `len`; a later replay adds the others again.
    fn decode(input: &mut Input<'_>, len: u32) -> Option<Self> {
        let count = input.u32()? as usize;
        (count.checked_mul(12)? <= input.remaining()).then_some(())?;
        let pairs = (0..count).map(|_| Some((input.u64()?, input.u32()?))).collect::<Option<Vec<_>>>()?;
        let pairs: Vec<_> = pairs.into_iter().filter(|pair| pair.1 < len).collect();
        pairs.is_sorted().then_some(Self::Settled(pairs.into_boxed_slice()))
    }
}

/// The index of one slab.
#[derive(Debug, Clone)]
pub(crate) struct SlabIndex {
    /// Rows it speaks of, from the first; purged ones among them have no entry.
    covered: u32,
    ids: Pairs,
    contents: Pairs,
    postings: BTreeMap<u32, RoaringBitmap>,
}

impl Default for SlabIndex {
    fn default() -> Self {
        Self { covered: 0, ids: Pairs::Growing(BTreeSet::new()), contents: Pairs::Growing(BTreeSet::new()), postings: BTreeMap::new() }
    }
}

impl SlabIndex {
    pub(crate) fn insert(&mut self, row: u32, key: &KeyRecord, tag_ids: &[u32]) {
        self.covered = self.covered.max(row + 1);
        self.ids.insert(key.id_hash as u64, row);
        self.contents.insert(key.content_hash as u64, row);
        for tag in tag_ids {
            self.postings.entry(*tag).or_default().insert(row);
        }
    }

    /// A row that is purged: it is covered, and nothing is known of it.
    pub(crate) fn skip(&mut self, row: u32) {
        self.covered = self.covered.max(row + 1);
    }

    /// Drops all that is known of some rows.
    pub(crate) fn remove(&mut self, rows: &BTreeSet<u32>) {
        self.ids.remove(rows);
        self.contents.remove(rows);
        for posting in self.postings.values_mut() {
            *posting -= rows.iter().copied().collect::<RoaringBitmap>();
        }
        self.postings.retain(|_, posting| !posting.is_empty());
    }

    /// Rows whose id may have this hash, in order.
    pub(crate) fn by_id(&self, hash: u128) -> Vec<u32> {
        self.ids.rows(hash as u64)
    }

    /// Rows whose content may have this hash, in order.
    pub(crate) fn by_content(&self, hash: u128) -> Vec<u32> {
        self.contents.rows(hash as u64)
    }

    /// Rows that carry a tag.
    pub(crate) fn posting(&self, tag: u32) -> Option<&RoaringBitmap> {
        self.postings.get(&tag)
    }

    /// The slab is full: trees become arrays.
    pub(crate) fn settle(&mut self) {
        self.ids.settle();
        self.contents.settle();
    }

    /// The file's bytes.
    pub(crate) fn encode(&self, number: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.ids.len() * 24);
        let mut out = Encoder(&mut bytes);
        out.bytes(MAGIC);
        out.u32(crate::format::FORMAT_VERSION);
        out.u32(number as u32);
        out.u32(self.covered);
        self.ids.encode(&mut out);
        self.contents.encode(&mut out);
        out.u32(self.postings.len() as u32);
        for (tag, rows) in &self.postings {
            let mut posting = Vec::with_capacity(rows.serialized_size());
            // Writing to a vector does not fail; a short posting would be caught by the checksum's reader as a mismatch.
            let _ = rows.serialize_into(&mut posting);
            out.u32(*tag);
            out.run(&posting);
        }
        let sum = crc(0, &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a file for a slab of which `len` rows count; `None` where it has to be rebuilt.
    pub(crate) fn decode(bytes: &[u8], number: usize, len: u32) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        (crc(0, body).to_le_bytes() == *sum).then_some(())?;
        let mut input = Input::new(body);
        let known = input.take(8)? == MAGIC && input.u32()? == crate::format::FORMAT_VERSION && input.u32()? as usize == number;
        known.then_some(())?;
        (input.u32()? >= len).then_some(())?;
        let ids = Pairs::decode(&mut input, len)?;
        let contents = Pairs::decode(&mut input, len)?;
        let count = input.u32()? as usize;
        (count.checked_mul(8)? <= input.remaining()).then_some(())?;
        let mut postings = BTreeMap::new();
        for _ in 0..count {
            let tag = input.u32()?;
            let mut rows = RoaringBitmap::deserialize_from(input.run()?).ok()?;
            rows.remove_range(len..);
            if !rows.is_empty() {
                postings.insert(tag, rows);
            }
        }
        (input.remaining() == 0).then_some(Self { covered: len, ids, contents, postings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    fn sample() -> SlabIndex {
        let mut index = SlabIndex::default();
        for row in 0..100_u32 {
            let key = KeyRecord { id_hash: u128::from(row % 40) * 77, content_hash: u128::from(row) << 60, ..KeyRecord::zeroed() };
            index.insert(row, &key, &[row % 3, 9]);
        }
        index
    }

    #[test]
    fn file_round_trips_and_forgets_rows_that_do_not_count_yet() {
        let index = sample();
        let bytes = index.encode(4);
        let whole = SlabIndex::decode(&bytes, 4, 100).unwrap();
        assert_eq!(whole.by_id(77 * 5), [5, 45, 85]);
        assert_eq!(whole.by_id(78), Vec::<u32>::new());
        assert_eq!(whole.posting(2).unwrap().len(), 33);
        assert_eq!(whole.encode(4), bytes);
        let prefix = SlabIndex::decode(&bytes, 4, 50).unwrap();
        assert_eq!(prefix.by_id(77 * 5), [5, 45]);
        assert_eq!(prefix.posting(9).unwrap().len(), 50);
        assert!(SlabIndex::decode(&bytes, 4, 101).is_none(), "rows are missing");
        assert!(SlabIndex::decode(&bytes, 5, 100).is_none(), "another slab's");
    }

    #[test]
    fn nothing_is_known_of_removed_rows_and_they_still_count() {
        let mut index = sample();
        index.remove(&BTreeSet::from([5, 99]));
        let read = SlabIndex::decode(&index.encode(4), 4, 100).unwrap();
        for index in [index, read] {
            assert_eq!(index.by_id(77 * 5), [45, 85]);
            assert_eq!(
                index.by_content(5 << 60),
                sample().by_content(5 << 60).into_iter().filter(|&row| row != 5 && row != 99).collect::<Vec<_>>()
            );
            assert_eq!(index.posting(9).unwrap().len(), 98);
        }
    }

    #[test]
    fn settled_and_growing_answer_alike() {
        let growing = sample();
        let mut settled = growing.clone();
        settled.settle();
        for id in 0..45 {
            assert_eq!(growing.by_id(id * 77), settled.by_id(id * 77));
        }
        settled.insert(100, &KeyRecord { id_hash: 77, ..KeyRecord::zeroed() }, &[]);
        assert_eq!(settled.by_id(77), [1, 41, 81, 100]);
    }

    #[test]
    fn every_damage_asks_for_a_rebuild() {
        let bytes = sample().encode(0);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(SlabIndex::decode(&flipped, 0, 100).is_none(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(SlabIndex::decode(&bytes[..len], 0, 100).is_none());
        }
    }
}
