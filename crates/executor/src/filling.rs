//! Fills a page of a listing from candidates that a store reads in the order of the listing.

use crate::entry::Entry;
use windlass_core::engine::{List, ListPlace, ListSpan, Page, SortedBy};
use windlass_core::limits::{LIST_EXAMINED_BYTES_MAX, LIST_EXAMINED_MAX, LIST_PASSED_MAX};
use windlass_core::model::{Job, Part, PartName, PartSet};

/// A page while it is being filled. The filter decides which candidates are part of it, so stores may offer jobs
/// that do not match.
#[derive(Debug)]
pub struct Filling<'a> {
    request: &'a List,
    sorted_by: SortedBy,
    parts: PartSet,
    span: ListSpan,
    rows: Vec<Job>,
    last: ListPlace,
    examined: usize,
    examined_bytes: usize,
    passed: usize,
}

impl<'a> Filling<'a> {
    /// An empty page of the positions in `span`.
    pub fn new(request: &'a List, span: ListSpan) -> Self {
        Self {
            request,
            sorted_by: request.sorted_by(),
            parts: request.filter.parts(),
            span,
            rows: Vec::new(),
            last: span.start,
            examined: 0,
            examined_bytes: 0,
            passed: 0,
        }
    }

    /// The positions that the page may contain.
    pub const fn span(&self) -> ListSpan {
        self.span
    }

    /// The position after which the next candidate is.
    pub const fn last(&self) -> ListPlace {
        self.last
    }

    /// The parts that candidates must have.
    pub const fn parts(&self) -> PartSet {
        self.parts
    }

    /// How many bytes of parts may still be read.
    pub const fn bytes_left(&self) -> usize {
        LIST_EXAMINED_BYTES_MAX.saturating_sub(self.examined_bytes)
    }

    /// Whether no more candidates may be examined: the page is complete, or its work has reached a limit.
    pub fn is_over(&self) -> bool {
        self.wanted() == 0 || self.is_exhausted()
    }

    /// Whether the work for the page has reached a limit.
    pub const fn is_exhausted(&self) -> bool {
        self.examined >= LIST_EXAMINED_MAX
            || self.passed >= LIST_PASSED_MAX
            || self.bytes_left() == 0
    }

    /// How many jobs the page lacks.
    pub fn wanted(&self) -> usize {
        self.request.limit as usize - self.rows.len()
    }

    /// Examines the next candidate.
    pub fn examine(&mut self, entry: &Entry) {
        let job = &entry.job;
        self.examined += 1;
        let read = PartName::ALL.into_iter().filter(|name| self.parts.has(*name));
        let bytes = |part: &Part| part.bytes.len();
        self.examined_bytes +=
            read.filter_map(|name| job.parts.get(name)).map(bytes).sum::<usize>();
        self.last = ListPlace::of(job, self.sorted_by);
        if self.request.filter.fits(job) {
            self.rows.push(entry.summary());
        }
    }

    /// Passes over a candidate that is known not to match without being read.
    pub const fn pass(&mut self, place: ListPlace) {
        self.passed += 1;
        self.last = place;
    }

    /// The page; `is_end`: there are no more candidates.
    pub fn finish(self, is_end: bool) -> Page<Job> {
        let cut_short = !is_end && self.wanted() > 0;
        let next = (!is_end).then(|| self.last.cursor(self.sorted_by));
        let mut page = Page::new(self.rows, next);
        page.cut_short = cut_short;
        page.examined = (self.examined + self.passed) as u64;
        page
    }
}
