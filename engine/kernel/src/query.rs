//! What a caller asks of a [`Reader`]: the scan, a rank, a page.

use crate::admission::{self, Filter, ResolvedFilter};
use crate::error::Result;
use crate::scan::{self, Rank, ScanOutcome, ScanRequest};
use crate::score::Weights;
use crate::view::Reader;

/// A scored query.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// L2-normalised, of the store's dimension.
    pub vector: &'a [f32],
    /// How many are wanted.
    pub k: usize,
    /// Whom to admit.
    pub filter: &'a Filter,
    /// How much each part of a score weighs.
    pub weights: Weights,
    /// Bloom mask of the optional tags; 0 where there are none.
    pub optional_tags: u64,
    /// The query's valence.
    pub mood: Option<i8>,
    /// The clock's reading, milliseconds since the epoch.
    pub now_ms: i64,
}

impl Reader {
    /// The best of what the filter admits, by the canonical score.
    ///
    /// # Errors
    /// `Internal` where the query's dimension is not the store's.
    pub fn scan(&self, query: &Query<'_>) -> Result<ScanOutcome> {
        let filter = self.resolve(query.filter);
        scan::scan(self, self.kernels, &self.index, &request(query, &filter))
    }

    /// The exact rank of a memory under a query; `None` where it is not admitted.
    ///
    /// # Errors
    /// As [`Reader::scan`].
    pub fn rank(&self, query: &Query<'_>, slot: u64) -> Result<Option<Rank>> {
        let filter = self.resolve(query.filter);
        scan::rank_of(self, self.kernels, &self.index, &request(query, &filter), slot)
    }

    /// The first `limit` slots a filter admits whose memories were stored after an LSN, in the order they were stored, and whether
    /// there are more.
    ///
    /// # Errors
    /// `Corrupt` where a row's keys are not what was written.
    pub fn page(&self, filter: &Filter, after_lsn: u64, limit: usize) -> Result<(Vec<u64>, bool)> {
        let admitted = admission::list(self, self.kernels, &self.index, &self.resolve(filter))?;
        let mut found = Vec::new();
        for slot in admitted.slots() {
            let lsn = self.row(slot)?.key.lsn;
            if lsn > after_lsn {
                found.push((lsn, slot));
            }
        }
        found.sort_unstable();
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found.into_iter().map(|(_, slot)| slot).collect(), more))
    }

    /// The number of a tag in its normal form, if anything ever carried it and was not purged.
    pub fn tag_number(&self, tag: &str) -> Option<u32> {
        self.words.read().tags.number(tag)
    }

    /// The number of a session, if any row that was not purged belongs to it.
    pub fn session_number(&self, name: &str) -> Option<u32> {
        self.words.read().sessions.number(name)
    }

    /// The name of the scoring kernels in use.
    pub fn kernel_name(&self) -> &'static str {
        self.kernels.name()
    }

    fn resolve(&self, filter: &Filter) -> ResolvedFilter {
        let words = self.words.read();
        filter.resolve(&|tag| words.tags.number(tag), &|session| words.sessions.number(session))
    }
}

fn request<'a>(query: &Query<'a>, filter: &'a ResolvedFilter) -> ScanRequest<'a> {
    ScanRequest {
        query: query.vector,
        k: query.k,
        filter,
        weights: query.weights,
        optional_tags: query.optional_tags,
        mood: query.mood,
        now_ms: query.now_ms,
    }
}
