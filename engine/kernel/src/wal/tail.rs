//! The writing end of the log: the open frame that records gather in, the sealed frames on their way to the device, the segments.
//!
//! [`LogTail`] belongs to the sequencer: room is made *before* a record gets its LSN, so a full disk is a clean refusal.
//! [`FrameWriter`] belongs to whoever commits: it completes each frame with the chain and the durable LSN, and writes it.

use std::collections::VecDeque;
use std::sync::Arc;

use mnemolith_backends::{Directory, LogFile, StorageErrorKind};
use parking_lot::Mutex;

use super::frame::{self, FrameHeader, HEADER_BYTES};
use super::segment::SegmentHeader;
use super::{BLOCK, FIRST_SEGMENT_BYTES, FOLDER, MAX_FRAME_BYTES, MAX_SEGMENT_BYTES, segment_path};
use crate::error::{KernelError, Result};

/// One segment: its file, opened when needed, and its header once written.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: String,
    pub(crate) sequence: u64,
    pub(crate) first_lsn: u64,
    pub(crate) epoch: u64,
    pub(crate) len: u64,
    state: Mutex<SegmentState>,
}

#[derive(Debug)]
struct SegmentState {
    file: Option<Arc<dyn LogFile>>,
    header: Option<SegmentHeader>,
}

impl Segment {
    /// A segment found on disk with its header.
    pub(crate) fn existing(path: String, file: Box<dyn LogFile>, header: SegmentHeader) -> Self {
        Self::new(path, file, header.sequence, header.first_lsn, header.epoch, Some(header))
    }

    /// A segment whose header is still to be written.
    pub(crate) fn blank(path: String, file: Box<dyn LogFile>, sequence: u64, first_lsn: u64, epoch: u64) -> Self {
        Self::new(path, file, sequence, first_lsn, epoch, None)
    }

    fn new(path: String, file: Box<dyn LogFile>, sequence: u64, first_lsn: u64, epoch: u64, header: Option<SegmentHeader>) -> Self {
        let len = file.len();
        Self { path, sequence, first_lsn, epoch, len, state: Mutex::new(SegmentState { file: Some(Arc::from(file)), header }) }
    }

    /// The file, opened again where it was closed.
    pub(crate) fn file(&self, dir: &dyn Directory) -> Result<Arc<dyn LogFile>> {
        let mut state = self.state.lock();
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        let file: Arc<dyn LogFile> = Arc::from(dir.open_log(&self.path)?);
        state.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Gives the descriptor back until it is needed again.
    pub(crate) fn close(&self) {
        self.state.lock().file = None;
    }
}

/// A frame that is complete but for its place in the chain.
#[derive(Debug)]
pub(crate) struct PendingFrame<V> {
    pub(crate) segment: Arc<Segment>,
    offset: u64,
    bytes: Vec<u8>,
    first_lsn: u64,
    record_count: u32,
    /// What readers see once it is durable.
    pub(crate) view: V,
}

impl<V> PendingFrame<V> {
    pub(crate) fn last_lsn(&self) -> u64 {
        self.first_lsn + u64::from(self.record_count) - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[derive(Debug)]
struct OpenFrame {
    segment: Arc<Segment>,
    offset: u64,
    bytes: Vec<u8>,
    first_lsn: u64,
    record_count: u32,
}

/// Where the log goes on.
#[derive(Debug)]
pub(crate) struct LogTail<V> {
    dir: Arc<dyn Directory>,
    /// Every segment that still lies on disk, the last one current.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Where the next frame starts in the current segment; `None` asks for a new segment.
    cursor: Option<u64>,
    next_sequence: u64,
    epoch: u64,
    open: Option<OpenFrame>,
    sealed: VecDeque<PendingFrame<V>>,
    pending_bytes: usize,
    /// Record bytes since the last checkpoint.
    pub(crate) bytes_since_checkpoint: u64,
    /// Bytes of whole frames since then: many more, where each record came alone.
    pub(crate) frame_bytes_since_checkpoint: u64,
}

impl<V> LogTail<V> {
    pub(crate) fn new(dir: Arc<dyn Directory>, segments: Vec<Arc<Segment>>, cursor: Option<u64>, next_sequence: u64, epoch: u64) -> Self {
        Self {
            dir,
            segments,
            cursor,
            next_sequence,
            epoch,
            open: None,
            sealed: VecDeque::new(),
            pending_bytes: 0,
            bytes_since_checkpoint: 0,
            frame_bytes_since_checkpoint: 0,
        }
    }

    /// Makes room for a record of `len` bytes that will be `lsn`; afterwards [`LogTail::push`] cannot fail.
    ///
    /// # Errors
    /// `TooLarge`, or `NoSpace` where a new segment does not fit on the device: nothing has changed.
    pub(crate) fn reserve(&mut self, len: usize, lsn: u64, view: &dyn Fn() -> V) -> Result<()> {
        if len > super::MAX_RECORD_BYTES {
            return Err(KernelError::TooLarge { what: "a log record", len: len as u64, max: super::MAX_RECORD_BYTES as u64 });
        }
        let needed = len + 4;
        if let Some(open) = &self.open {
            let body_len = open.bytes.len() - HEADER_BYTES + needed;
            let fits = body_len <= MAX_FRAME_BYTES && open.offset + frame::padded_len(body_len) <= open.segment.len;
            if fits {
                return Ok(());
            }
            self.seal(view);
        }
        let current = self.segments.last().filter(|_| self.cursor.is_some());
        let (segment, offset) = match current.zip(self.cursor) {
            Some((segment, offset)) if offset + frame::padded_len(needed) <= segment.len => (Arc::clone(segment), offset),
            _ => (self.add_segment(lsn, frame::padded_len(needed))?, BLOCK),
        };
        self.cursor = Some(offset);
        self.open = Some(OpenFrame { segment, offset, bytes: vec![0; HEADER_BYTES], first_lsn: lsn, record_count: 0 });
        Ok(())
    }

    fn add_segment(&mut self, first_lsn: u64, frame_len: u64) -> Result<Arc<Segment>> {
        if let Some(unused) = self.segments.last().filter(|_| self.cursor == Some(BLOCK)).cloned() {
            return self.enlarge(&unused, BLOCK + frame_len);
        }
        let doubled = self.segments.last().map_or(FIRST_SEGMENT_BYTES, |segment| segment.len.saturating_mul(2));
        let least = FIRST_SEGMENT_BYTES.max(BLOCK + frame_len);
        let len = doubled.clamp(FIRST_SEGMENT_BYTES, MAX_SEGMENT_BYTES).max(least);
        let path = segment_path(first_lsn);
        let file = self.create_log(&path, len, least)?;
        let segment = Arc::new(Segment::blank(path, file, self.next_sequence, first_lsn, self.epoch));
        self.next_sequence += 1;
        self.segments.push(Arc::clone(&segment));
        Ok(segment)
    }

    /// A log file of `len` bytes, or of less where there is no room for so much: a device that is nearly full takes what fits on it.
    fn create_log(&self, path: &str, len: u64, least: u64) -> Result<Box<dyn LogFile>> {
        let mut len = len;
        loop {
            match self.dir.create_log(path, len) {
                Err(error) if error.kind == StorageErrorKind::NoSpace && len > least => len = (len / 2).next_multiple_of(BLOCK).max(least),
                made => return Ok(made?),
            }
        }
    }

    /// Makes a segment that no frame lies in long enough for one. A second segment would start at the same LSN, hence have the same
    /// name; and the short one must stay as it is where there is no room for a longer one.
    fn enlarge(&mut self, unused: &Segment, len: u64) -> Result<Arc<Segment>> {
        let zeros = usize::try_from(len.next_multiple_of(BLOCK)).map_err(|_| KernelError::Internal("a log segment longer than memory"))?;
        self.dir.replace(&unused.path, &vec![0; zeros])?;
        let file = self.dir.open_log(&unused.path)?;
        let segment = Arc::new(Segment::blank(unused.path.clone(), file, unused.sequence, unused.first_lsn, unused.epoch));
        if let Some(last) = self.segments.last_mut() {
            *last = Arc::clone(&segment);
        }
        Ok(segment)
    }

    /// Appends a record to the open frame; room was reserved.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<()> {
        let open = self.open.as_mut().ok_or(KernelError::Internal("a record was pushed without room"))?;
        open.bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        open.bytes.extend_from_slice(record);
        open.record_count += 1;
        self.pending_bytes += record.len() + 4;
        self.bytes_since_checkpoint += record.len() as u64 + 4;
        Ok(())
    }

    /// Closes the open frame, if it holds a record.
    pub(crate) fn seal(&mut self, view: &dyn Fn() -> V) {
        let Some(open) = self.open.take_if(|open| open.record_count > 0) else {
            return;
        };
        let body_len = open.bytes.len() - HEADER_BYTES;
        self.frame_bytes_since_checkpoint += frame::padded_len(body_len);
        self.cursor = Some(open.offset + frame::padded_len(body_len));
        self.sealed.push_back(PendingFrame {
            segment: open.segment,
            offset: open.offset,
            bytes: open.bytes,
            first_lsn: open.first_lsn,
            record_count: open.record_count,
            view: view(),
        });
    }

    /// Starts the next record in a new segment, so that the older ones can go.
    pub(crate) fn rotate(&mut self, next_lsn: u64, view: &dyn Fn() -> V) -> Result<()> {
        self.seal(view);
        self.open = None;
        let unused = self.cursor == Some(BLOCK);
        if !unused {
            self.add_segment(next_lsn, 0)?;
            self.cursor = Some(BLOCK);
        }
        Ok(())
    }

    /// Whether the log since the last checkpoint is worth one: by its records, or by the frames they lie in.
    pub(crate) fn checkpoint_is_due(&self, record_bytes: u64) -> bool {
        const FRAMES_TO_RECORDS: u64 = 4;
        let frame_bytes = record_bytes.saturating_mul(FRAMES_TO_RECORDS);
        self.bytes_since_checkpoint >= record_bytes || self.frame_bytes_since_checkpoint >= frame_bytes
    }

    /// Whether more than the header block of the current segment is used.
    pub(crate) fn current_is_used(&self) -> bool {
        self.cursor != Some(BLOCK)
    }

    /// Hands over everything there is to write.
    pub(crate) fn take(&mut self, view: &dyn Fn() -> V) -> VecDeque<PendingFrame<V>> {
        self.seal(view);
        std::mem::take(&mut self.sealed)
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.sealed.is_empty() || self.open.as_ref().is_some_and(|open| open.record_count > 0)
    }

    /// Bytes handed in and not yet written.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(crate) fn written(&mut self, bytes: usize) {
        self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
    }
}

/// The committing side: the chain and what is durable.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    store_uuid: u128,
    salt_seed: u64,
    chain: u32,
    pub(crate) durable_lsn: u64,
    /// Segments written without a sync, in the modes that allow it.
    unsynced: Vec<Arc<Segment>>,
    /// How the last write was made, for reports.
    pub(crate) method: &'static str,
}

impl FrameWriter {
    pub(crate) fn new(store_uuid: u128, salt_seed: u64, chain: u32, durable_lsn: u64, method: &'static str) -> Self {
        Self { store_uuid, salt_seed, chain, durable_lsn, unsynced: Vec::new(), method }
    }

    /// Writes a frame; with `durable` it survives power loss when this returns.
    ///
    /// # Errors
    /// Any error leaves the log's end unknown: the caller must latch.
    pub(crate) fn write<V>(&mut self, dir: &dyn Directory, frame: &mut PendingFrame<V>, durable: bool) -> Result<()> {
        let header = self.start_segment(dir, &frame.segment)?;
        let file = frame.segment.file(dir)?;
        self.method = file.method();
        let frame_header = FrameHeader {
            epoch: header.epoch,
            first_lsn: frame.first_lsn,
            durable_lsn: self.durable_lsn,
            record_count: frame.record_count,
            body_len: (frame.bytes.len() - HEADER_BYTES) as u32,
            previous_crc: self.chain,
        };
        self.chain = frame::seal(&mut frame.bytes, &header, frame.offset, &frame_header);
        if durable {
            self.sync(dir)?;
            file.write_durable_at(frame.offset, &frame.bytes)?;
            self.durable_lsn = frame.last_lsn();
        } else {
            file.write_at(frame.offset, &frame.bytes)?;
            self.remember_unsynced(&frame.segment);
        }
        Ok(())
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&mut self, dir: &dyn Directory) -> Result<()> {
        for segment in &self.unsynced {
            segment.file(dir)?.sync()?;
        }
        self.unsynced.clear();
        Ok(())
    }

    fn remember_unsynced(&mut self, segment: &Arc<Segment>) {
        if !self.unsynced.iter().any(|known| Arc::ptr_eq(known, segment)) {
            self.unsynced.push(Arc::clone(segment));
        }
    }

    /// The segment's header, written first where it is not there yet. It is durable in every mode: once a frame lies behind it, a
    /// header that is not whole is damage and not a torn write.
    fn start_segment(&mut self, dir: &dyn Directory, segment: &Arc<Segment>) -> Result<SegmentHeader> {
        if let Some(header) = segment.state.lock().header {
            return Ok(header);
        }
        let salt = [self.salt_seed, segment.sequence, segment.epoch, self.store_uuid as u64];
        let header = SegmentHeader {
            store_uuid: self.store_uuid,
            epoch: segment.epoch,
            salt: xxhash_rust::xxh3::xxh3_64(bytemuck::bytes_of(&salt)),
            sequence: segment.sequence,
            first_lsn: segment.first_lsn,
            durable_lsn: self.durable_lsn,
            previous_crc: self.chain,
        };
        segment.file(dir)?.write_durable_at(0, &header.encode())?;
        segment.state.lock().header = Some(header);
        Ok(header)
    }
}

/// Removes segments that a checkpoint covers; with `zero` their bytes are destroyed first.
pub(crate) fn remove_segments(dir: &dyn Directory, segments: &[Arc<Segment>], zero: bool) -> Result<()> {
    for segment in segments {
        segment.close();
    }
    remove_files(dir, segments.iter().map(|segment| segment.path.as_str()), zero)
}

/// As [`remove_segments`], by name; a file that is gone already, because an earlier attempt stopped half-way, is none to worry about.
pub(crate) fn remove_files<'a>(dir: &dyn Directory, paths: impl Iterator<Item = &'a str>, zero: bool) -> Result<()> {
    let mut removed = false;
    for path in paths {
        if zero {
            match super::recovery::zero_from(dir, path, 0) {
                Err(KernelError::Storage(error)) if error.kind == StorageErrorKind::NotFound => {}
                other => other?,
            }
        }
        removed |= dir.remove_file(path)?;
    }
    if removed {
        dir.sync_folder(FOLDER)?;
    }
    Ok(())
}
