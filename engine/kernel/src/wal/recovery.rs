//! Reading the log back: scan whole frames in order, then decide what the first bad one means.
//!
//! The decision looks only at what is on disk (the table is [`decide`]):
//!
//! | something vouches for the expected LSN | header block | bytes after the last whole frame | verdict |
//! |---|---|---|---|
//! | yes | any | any | `Corrupt`: acknowledged data is damaged, nothing is changed |
//! | no | damaged, here or in a later segment | anything but zeros behind it | `Corrupt`: frames follow a header only once it is durable |
//! | no | whole or blank | zeros | clean end: go on behind it |
//! | no | any other | any | an unacknowledged tail: cut there, destroy what follows, go on in a new epoch |
//!
//! A segment that names another store or another place, and a first segment that is not there, are refused before that: no crash
//! leaves such a thing.
//!
//! Crash behaviour: later segments are destroyed from the last to the first, then the tail of this one; whatever a crash leaves of
//! that is the same tail again, so recovery repeats to the same end.

use std::sync::Arc;

use mnemolith_backends::Directory;

use super::frame::{self, Frame};
use super::segment::{HeaderBlock, SegmentHeader};
use super::tail::Segment;
use super::{BLOCK, FOLDER};
use crate::error::{KernelError, Result};

/// What the superblock says about the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expectation {
    pub(crate) store_uuid: u128,
    /// Sequence number of the first segment to read.
    pub(crate) first_segment: u64,
    /// Records up to here are in the slabs already.
    pub(crate) checkpoint_lsn: u64,
    /// A sync up to here completed.
    pub(crate) durable_lsn: u64,
}

/// Where the log ends and how to go on.
#[derive(Debug)]
pub(crate) struct LogEnd {
    pub(crate) last_lsn: u64,
    /// Checksum of the last whole frame.
    pub(crate) chain: u32,
    pub(crate) epoch: u64,
    /// Sequence number for the next segment.
    pub(crate) next_sequence: u64,
    /// The segments that were read, in order.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Where the last of them goes on; `None` where a new segment must follow.
    pub(crate) cursor: Option<u64>,
    /// What has to be destroyed before the log may go on.
    pub(crate) cut: Option<Cut>,
    /// Files of segments that the checkpoint already covers.
    pub(crate) obsolete: Vec<String>,
}

/// The unacknowledged tail.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Segments behind the one that holds the bad frame.
    pub(crate) later: Vec<String>,
    /// The file with the bad frame, and where it starts.
    pub(crate) path: String,
    pub(crate) offset: u64,
    /// Nothing but zeros would be destroyed: a segment was added and never started.
    pub(crate) blank: bool,
}

/// What was seen at the first bad frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Observation {
    vouched: bool,
    /// A damaged header, here or later, with anything behind it.
    orphans: bool,
    header_damaged: bool,
    rest_is_zero: bool,
    /// A segment behind this one holds anything.
    later_segments: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Corrupt,
    CleanEnd,
    CutTail,
}

fn decide(seen: Observation) -> Verdict {
    match seen {
        Observation { vouched: true, .. } | Observation { orphans: true, .. } => Verdict::Corrupt,
        Observation { header_damaged: false, rest_is_zero: true, later_segments: false, .. } => Verdict::CleanEnd,
        _ => Verdict::CutTail,
    }
}

struct File {
    path: String,
    first_lsn: u64,
    log: Box<dyn mnemolith_backends::LogFile>,
    header: HeaderBlock,
}

/// Reads the log, handing every record behind the checkpoint to `apply` in order.
///
/// # Errors
/// `Corrupt` by the table above, `UnsupportedFormat`, or what `apply` and the device answer. Nothing is changed on disk.
pub(crate) fn scan(dir: &dyn Directory, expect: &Expectation, apply: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<LogEnd> {
    let (files, obsolete) = list(dir, expect)?;
    let missing = || {
        let what = format!("log segment {} is missing or shorter than any segment", expect.first_segment);
        KernelError::corrupt(FOLDER, 0, Some(expect.checkpoint_lsn + 1), what)
    };
    files.first().filter(|first| first.first_lsn <= expect.checkpoint_lsn + 1 && first.log.len() >= 2 * BLOCK).ok_or_else(missing)?;
    let mut scan = Scanner { expect, next_lsn: None, chain: None, epoch: 0, sequence: expect.first_segment, segments: Vec::new() };
    let mut files = files.into_iter().peekable();
    while let Some(file) = files.next() {
        let bytes = read_whole(&file)?;
        let offset = match &file.header {
            HeaderBlock::Whole(header) if scan.follows(header, file.first_lsn) => scan.frames(header, &file.path, &bytes, apply)?,
            _ => 0,
        };
        let continues =
            offset > 0 && files.peek().is_some_and(|next| matches!(&next.header, HeaderBlock::Whole(h) if scan.follows(h, next.first_lsn)));
        if continues && let HeaderBlock::Whole(header) = file.header {
            scan.segments.push(Arc::new(Segment::existing(file.path, file.log, header)));
            continue;
        }
        return scan.end(file, &bytes, offset, &files.collect::<Vec<_>>(), obsolete);
    }
    Err(missing())
}

/// The segments in order of their first LSN; those that the checkpoint covers apart.
fn list(dir: &dyn Directory, expect: &Expectation) -> Result<(Vec<File>, Vec<String>)> {
    let mut files = Vec::new();
    for name in dir.list(FOLDER)? {
        let Some(first_lsn) = name.strip_suffix(".wal").and_then(|digits| digits.parse().ok()) else {
            continue;
        };
        let path = format!("{FOLDER}/{name}");
        let log = dir.open_log(&path)?;
        // It is going to be read whole.
        if log.len() > super::MAX_FILE_BYTES {
            let what = format!("the segment has {} bytes, more than any segment has", log.len());
            return Err(KernelError::corrupt(path, super::MAX_FILE_BYTES, Some(first_lsn), what));
        }
        let mut block = vec![0; usize::try_from(log.len().min(BLOCK)).unwrap_or(0)];
        log.read_at(0, &mut block)?;
        let header = SegmentHeader::decode(&block);
        match header {
            HeaderBlock::Newer(found) => {
                return Err(KernelError::UnsupportedFormat { file: path, found, supported: crate::format::FORMAT_VERSION });
            }
            HeaderBlock::Whole(ref whole) if whole.store_uuid != expect.store_uuid || whole.first_lsn != first_lsn => {
                let what = format!("the segment is not the one that starts at LSN {first_lsn} of this store: it was copied or swapped");
                return Err(KernelError::corrupt(path, 0, Some(first_lsn), what));
            }
            header => files.push(File { path, first_lsn, log, header }),
        }
    }
    files.sort_by_key(|file: &File| file.first_lsn);
    let obsolete = files.drain(..first_needed(&files, expect)).map(|file| file.path).collect();
    Ok((files, obsolete))
}

/// Which segment recovery starts at: the one the superblock names. Where its header is not there (never written, or damaged) it is
/// the last one that can hold the record behind the checkpoint. Those before it are obsolete whatever is left of them: a purge that
/// a crash interrupted leaves segments without a header.
fn first_needed(files: &[File], expect: &Expectation) -> usize {
    let named = files.iter().position(|file| matches!(&file.header, HeaderBlock::Whole(header) if header.sequence == expect.first_segment));
    named.or_else(|| files.iter().rposition(|file| file.first_lsn <= expect.checkpoint_lsn + 1)).unwrap_or(0)
}

fn read_whole(file: &File) -> Result<Vec<u8>> {
    let len = usize::try_from(file.log.len()).map_err(|_| KernelError::Internal("a log segment longer than memory"))?;
    let mut bytes = vec![0; len];
    file.log.read_at(0, &mut bytes)?;
    Ok(bytes)
}

struct Scanner<'a> {
    expect: &'a Expectation,
    /// The next LSN; unknown before the first segment.
    next_lsn: Option<u64>,
    chain: Option<u32>,
    epoch: u64,
    sequence: u64,
    segments: Vec<Arc<Segment>>,
}

impl Scanner<'_> {
    /// Whether a segment is the next one of the chain.
    fn follows(&self, header: &SegmentHeader, name_lsn: u64) -> bool {
        header.store_uuid == self.expect.store_uuid
            && header.sequence == self.sequence
            && header.first_lsn == name_lsn
            && header.epoch >= self.epoch
            && self.next_lsn.map_or(name_lsn <= self.expect.checkpoint_lsn + 1, |lsn| lsn == name_lsn)
            && self.chain.is_none_or(|chain| chain == header.previous_crc)
    }

    /// Applies the whole frames of a segment; where the first that is not whole starts.
    fn frames(&mut self, header: &SegmentHeader, path: &str, bytes: &[u8], apply: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<u64> {
        self.epoch = header.epoch;
        self.sequence = header.sequence + 1;
        let mut next_lsn = header.first_lsn;
        let mut chain = header.previous_crc;
        let mut offset = BLOCK;
        while let Some(found) = at(bytes, offset).and_then(|rest| frame::decode(rest, header, offset)) {
            let fits = found.header.epoch == header.epoch && found.header.first_lsn == next_lsn && found.header.previous_crc == chain;
            if !fits {
                break;
            }
            self.apply(&found, path, offset, apply)?;
            next_lsn += u64::from(found.header.record_count);
            chain = found.crc;
            offset += found.padded_len;
        }
        self.next_lsn = Some(next_lsn);
        self.chain = Some(chain);
        Ok(offset)
    }

    fn apply(&self, found: &Frame<'_>, path: &str, offset: u64, apply: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let framing = || KernelError::corrupt(path, offset, Some(found.header.first_lsn), "a whole frame's records do not add up");
        for (lsn, record) in frame::records(found).ok_or_else(framing)? {
            if lsn > self.expect.checkpoint_lsn {
                apply(lsn, record)?;
            }
        }
        Ok(())
    }

    /// The verdict at the first bad frame.
    fn end(mut self, file: File, bytes: &[u8], offset: u64, later: &[File], obsolete: Vec<String>) -> Result<LogEnd> {
        let expected = self.next_lsn.unwrap_or(file.first_lsn.min(self.expect.checkpoint_lsn + 1));
        let started = offset > 0;
        let search_from = if started { offset } else { BLOCK };
        let rest_is_zero = is_zero_from(bytes, search_from);
        let mut vouched = self.expect.durable_lsn >= expected || vouches(&file.header, bytes, search_from, expected);
        let mut orphans = None;
        for segment in later {
            let bytes = read_whole(segment)?;
            vouched |= vouches(&segment.header, &bytes, BLOCK, expected);
            if segment.header == HeaderBlock::Damaged && !is_zero_from(&bytes, BLOCK) {
                orphans = orphans.or(Some(segment));
            }
        }
        // A whole header that does not follow the chain is as bad as a damaged one: frames of its own may lie behind it.
        let header_damaged = !started && file.header != HeaderBlock::Blank;
        let seen = Observation {
            vouched,
            orphans: orphans.is_some() || (header_damaged && !rest_is_zero),
            header_damaged,
            rest_is_zero,
            later_segments: !later.is_empty(),
        };
        let verdict = decide(seen);
        if verdict == Verdict::Corrupt {
            let (path, offset) = match orphans {
                Some(orphans) if started && rest_is_zero => (orphans.path.clone(), 0),
                _ => (file.path, offset),
            };
            return Err(KernelError::corrupt(path, offset, Some(expected), "what is expected here is not whole, but it was acknowledged"));
        }
        let cut = (verdict == Verdict::CutTail).then(|| Cut {
            later: later.iter().rev().map(|segment| segment.path.clone()).collect(),
            path: file.path.clone(),
            offset,
            blank: rest_is_zero && later.iter().all(|segment| segment.header == HeaderBlock::Blank),
        });
        let empty = offset <= BLOCK;
        self.epoch += u64::from(cut.is_some() && !empty);
        // An empty segment is used again as it is: nothing in it survives a cut. Otherwise a cut goes on in a new segment.
        let cursor = (cut.is_none() || empty).then_some(offset.max(BLOCK));
        let segment = match file.header {
            HeaderBlock::Whole(header) if started => Segment::existing(file.path, file.log, header),
            _ => {
                self.sequence += 1;
                Segment::blank(file.path, file.log, self.sequence - 1, expected, self.epoch)
            }
        };
        self.segments.push(Arc::new(segment));
        Ok(LogEnd {
            last_lsn: expected - 1,
            chain: self.chain.unwrap_or(0),
            epoch: self.epoch,
            next_sequence: self.sequence,
            segments: self.segments,
            cursor,
            cut,
            obsolete,
        })
    }
}

fn at(bytes: &[u8], offset: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)
}

fn is_zero_from(bytes: &[u8], offset: u64) -> bool {
    at(bytes, offset).is_none_or(|rest| rest.iter().all(|&byte| byte == 0))
}

/// Whether anything whole in a segment, from a 4 KiB boundary on, says that `lsn` was durable.
fn vouches(header: &HeaderBlock, bytes: &[u8], from: u64, lsn: u64) -> bool {
    let HeaderBlock::Whole(header) = header else {
        return false;
    };
    if header.durable_lsn >= lsn {
        return true;
    }
    let mut offset = from;
    while let Some(rest) = at(bytes, offset).filter(|rest| !rest.is_empty()) {
        let whole = frame::decode(rest, header, offset).filter(|found| found.header.epoch == header.epoch);
        if whole.is_some_and(|found| found.header.durable_lsn >= lsn) {
            return true;
        }
        offset += BLOCK;
    }
    false
}

/// Destroys an unacknowledged tail, durably.
///
/// # Errors
/// What the device answers; calling it again finishes the work.
pub(crate) fn destroy(dir: &dyn Directory, cut: &Cut) -> Result<()> {
    for path in &cut.later {
        dir.remove_file(path)?;
        dir.sync_folder(FOLDER)?;
    }
    zero_from(dir, &cut.path, cut.offset)
}

/// Overwrites a segment with zeros from `offset` to its end, durably.
pub(crate) fn zero_from(dir: &dyn Directory, path: &str, mut offset: u64) -> Result<()> {
    let log = dir.open_log(path)?;
    let zeros = vec![0; 1 << 20];
    while offset < log.len() {
        let len = usize::try_from(log.len() - offset).unwrap_or(usize::MAX).min(zeros.len());
        log.write_durable_at(offset, zeros.get(..len).unwrap_or_default())?;
        offset += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of the decision table.
    #[test]
    fn decision_table() {
        for bits in 0..32_u8 {
            let [vouched, orphans, header_damaged, rest_is_zero, later_segments] = [1, 2, 4, 8, 16].map(|bit| bits & bit != 0);
            let expected = if vouched || orphans {
                Verdict::Corrupt
            } else if !header_damaged && rest_is_zero && !later_segments {
                Verdict::CleanEnd
            } else {
                Verdict::CutTail
            };
            assert_eq!(decide(Observation { vouched, orphans, header_damaged, rest_is_zero, later_segments }), expected, "{bits:05b}");
        }
        let clean = Observation { vouched: false, orphans: false, header_damaged: false, rest_is_zero: true, later_segments: false };
        assert_eq!(decide(clean), Verdict::CleanEnd);
        assert_eq!(decide(Observation { vouched: true, ..clean }), Verdict::Corrupt);
        assert_eq!(decide(Observation { rest_is_zero: false, ..clean }), Verdict::CutTail);
        assert_eq!(decide(Observation { later_segments: true, ..clean }), Verdict::CutTail);
        assert_eq!(decide(Observation { header_damaged: true, ..clean }), Verdict::CutTail, "a header torn while it was written");
        assert_eq!(decide(Observation { orphans: true, ..clean }), Verdict::Corrupt);
    }
}
