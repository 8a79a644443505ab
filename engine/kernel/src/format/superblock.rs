//! The superblock: two alternating copies that say what a checkpoint covers.
//!
//! The newer whole copy counts. A copy torn by a crash leaves the other one valid, with everything it refers to still in place,
//! because a checkpoint removes what the older copy needs only after the newer one is durable.

use super::{Encoder, FORMAT_VERSION, Input, crc};
use crate::error::{KernelError, Result};

/// Bytes of one copy; the file holds two.
pub(crate) const COPY_BYTES: usize = 64 * 1024;
const MAGIC: &[u8; 8] = b"MNEMOLIT";
const FILE: &str = "superblock";

/// A slab or payload segment: how much it can hold and how much of it the checkpoint covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Slots, or bytes.
    pub(crate) capacity: u64,
    /// Slots, or bytes, that are filled.
    pub(crate) len: u64,
}

/// What one copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Counts checkpoints; its parity is the copy it lies in.
    pub(crate) sequence: u64,
    pub(crate) store_uuid: u128,
    pub(crate) namespace: String,
    pub(crate) embedder: String,
    pub(crate) dimension: u32,
    /// Every record up to here is in the slabs and the state snapshot.
    pub(crate) checkpoint_lsn: u64,
    /// A sync up to here completed.
    pub(crate) durable_lsn: u64,
    /// The sequence number of the first log segment that recovery reads.
    pub(crate) first_segment: u64,
    /// Checksum of the state snapshot of this sequence.
    pub(crate) state_crc: u32,
    /// A purge is recorded whose bytes are not destroyed yet.
    pub(crate) scrub_pending: bool,
    pub(crate) slabs: Vec<Extent>,
    pub(crate) payloads: Vec<Extent>,
}

impl Superblock {
    /// Byte offset of its copy in the file.
    pub(crate) fn offset(&self) -> u64 {
        (self.sequence % 2) * COPY_BYTES as u64
    }

    /// One whole copy.
    ///
    /// # Errors
    /// `TooLarge` where the lists outgrow a copy.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(COPY_BYTES);
        let mut out = Encoder(&mut bytes);
        out.bytes(MAGIC);
        out.u32(FORMAT_VERSION);
        out.u32(self.dimension);
        out.u64(self.sequence);
        out.bytes(&self.store_uuid.to_le_bytes());
        out.u64(self.checkpoint_lsn);
        out.u64(self.durable_lsn);
        out.u64(self.first_segment);
        out.u32(self.state_crc);
        out.u32(u32::from(self.scrub_pending));
        out.run(self.namespace.as_bytes());
        out.run(self.embedder.as_bytes());
        for extents in [&self.slabs, &self.payloads] {
            out.u32(u32::try_from(extents.len()).unwrap_or(u32::MAX));
            for extent in extents {
                out.u64(extent.capacity);
                out.u64(extent.len);
            }
        }
        let max = COPY_BYTES - 4;
        if bytes.len() > max {
            return Err(KernelError::TooLarge { what: "the superblock's list of slabs", len: bytes.len() as u64, max: max as u64 });
        }
        bytes.resize(max, 0);
        let sum = crc(0, &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Ok(bytes)
    }

    fn decode(copy: &[u8]) -> Option<Self> {
        let (body, sum) = copy.split_at_checked(COPY_BYTES - 4)?;
        if crc(0, body).to_le_bytes() != *sum {
            return None;
        }
        let mut input = Input::new(body);
        input.take(12)?;
        let dimension = input.u32()?;
        let sequence = input.u64()?;
        let store_uuid = u128::from_le_bytes(input.take(16)?.try_into().ok()?);
        let (checkpoint_lsn, durable_lsn, first_segment) = (input.u64()?, input.u64()?, input.u64()?);
        let (state_crc, scrub_pending) = (input.u32()?, input.u32()? != 0);
        let namespace = input.text()?.to_owned();
        let embedder = input.text()?.to_owned();
        let mut extents = || -> Option<Vec<Extent>> {
            let count = input.u32()? as usize;
            (count * 16 <= input.remaining()).then_some(())?;
            (0..count).map(|_| Some(Extent { capacity: input.u64()?, len: input.u64()? })).collect()
        };
        let (slabs, payloads) = (extents()?, extents()?);
        Some(Self {
            sequence,
            store_uuid,
            namespace,
            embedder,
            dimension,
            checkpoint_lsn,
            durable_lsn,
            first_segment,
            state_crc,
            scrub_pending,
            slabs,
            payloads,
        })
    }
}

/// Reads the file of two copies: the newer whole one, and whether the other is damaged too (neither whole nor blank).
///
/// # Errors
/// `UnsupportedFormat` naming both versions; `Corrupt` where no copy is whole.
pub(crate) fn choose(file: &[u8]) -> Result<(Superblock, bool)> {
    if file.len() != 2 * COPY_BYTES {
        let what = format!("it has {} bytes instead of {}", file.len(), 2 * COPY_BYTES);
        return Err(KernelError::corrupt(FILE, file.len().min(2 * COPY_BYTES) as u64, None, what));
    }
    let mut best: Option<Superblock> = None;
    let mut damaged = false;
    for copy in file.chunks(COPY_BYTES) {
        let mut input = Input::new(copy);
        let (magic, version) = (input.take(8), input.u32());
        if magic == Some(MAGIC.as_slice())
            && let Some(found) = version
            && found > FORMAT_VERSION
            && whole(copy)
        {
            return Err(KernelError::UnsupportedFormat { file: FILE.into(), found, supported: FORMAT_VERSION });
        }
        match Superblock::decode(copy).filter(|_| magic == Some(MAGIC.as_slice()) && version == Some(FORMAT_VERSION)) {
            Some(block) if best.as_ref().is_none_or(|best| best.sequence < block.sequence) => best = Some(block),
            Some(_) => {}
            None => damaged |= copy.iter().any(|&byte| byte != 0),
        }
    }
    best.map(|block| (block, damaged)).ok_or_else(|| KernelError::corrupt(FILE, 0, None, "neither copy is whole"))
}

fn whole(copy: &[u8]) -> bool {
    copy.split_at_checked(COPY_BYTES - 4).is_some_and(|(body, sum)| crc(0, body).to_le_bytes() == *sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(sequence: u64) -> Superblock {
        Superblock {
            sequence,
            store_uuid: 7,
            namespace: "n".into(),
            embedder: "hash".into(),
            dimension: 16,
            checkpoint_lsn: 5,
            durable_lsn: 6,
            first_segment: 1,
            state_crc: 9,
            scrub_pending: true,
            slabs: vec![Extent { capacity: 64, len: 3 }],
            payloads: vec![Extent { capacity: 4096, len: 100 }],
        }
    }

    fn file(blocks: &[Superblock]) -> Vec<u8> {
        let mut file = vec![0; 2 * COPY_BYTES];
        for block in blocks {
            let at = block.offset() as usize;
            file[at..at + COPY_BYTES].copy_from_slice(&block.encode().unwrap());
        }
        file
    }

    #[test]
    fn the_newer_whole_copy_counts() {
        let both = file(&[block(4), block(5)]);
        assert_eq!(choose(&both).unwrap(), (block(5), false));
        let mut torn = both.clone();
        torn[COPY_BYTES + 100] ^= 1;
        assert_eq!(choose(&torn).unwrap(), (block(4), true));
        torn[100] ^= 1;
        assert!(matches!(choose(&torn), Err(KernelError::Corrupt { .. })));
        for len in [0, 1, COPY_BYTES, 2 * COPY_BYTES - 1] {
            assert!(matches!(choose(&both[..len]), Err(KernelError::Corrupt { .. })), "{len} bytes");
        }
        assert_eq!(choose(&file(&[block(5)])).unwrap(), (block(5), false), "a blank copy is no damage");
    }

    #[test]
    fn a_newer_version_is_refused_with_both_numbers() {
        let mut copy = block(5).encode().unwrap();
        copy[8] = 9;
        let sum = crc(0, &copy[..COPY_BYTES - 4]).to_le_bytes();
        copy[COPY_BYTES - 4..].copy_from_slice(&sum);
        let mut file = vec![0; 2 * COPY_BYTES];
        file[COPY_BYTES..].copy_from_slice(&copy);
        assert!(matches!(choose(&file), Err(KernelError::UnsupportedFormat { found: 9, supported: 1, .. })));
    }
}
