//! Fills a page of a listing from candidates that a store reads in the order of the listing.

use crate::entry::Entry;
use windlass_core::engine::{List, ListPlace, Page, SortedBy};
use windlass_core::limits::{LIST_EXAMINED_MAX, LIST_PASSED_MAX};
use windlass_core::model::Job;

/// A page while it is being filled. The filter decides which candidates are part of it, so stores may offer jobs
/// that do not match.
#[derive(Debug)]
pub struct Filling<'a> {
    request: &'a List,
    sorted_by: SortedBy,
    rows: Vec<Job>,
    last: Option<ListPlace>,
    examined: usize,
    passed: usize,
}

impl<'a> Filling<'a> {
    /// An empty page; `after` is the position of its cursor.
    pub const fn new(request: &'a List, after: Option<ListPlace>) -> Self {
        let sorted_by = request.sorted_by();
        Self { request, sorted_by, rows: Vec::new(), last: after, examined: 0, passed: 0 }
    }

    /// The position after which the next candidate is.
    pub const fn last(&self) -> Option<ListPlace> {
        self.last
    }

    /// Whether no more candidates may be examined: the page is complete, or its work has reached a limit.
    pub fn is_over(&self) -> bool {
        self.wanted() == 0 || self.is_exhausted()
    }

    /// Whether the work for the page has reached a limit.
    pub const fn is_exhausted(&self) -> bool {
        self.examined >= LIST_EXAMINED_MAX || self.passed >= LIST_PASSED_MAX
    }

    /// How many jobs the page lacks.
    pub fn wanted(&self) -> usize {
        self.request.limit as usize - self.rows.len()
    }

    /// Examines the next candidate.
    pub fn examine(&mut self, entry: &Entry) {
        let job = &entry.job;
        self.examined += 1;
        self.last = Some(ListPlace::of(job, self.sorted_by));
        if self.request.filter.fits(&job.header, job.state) {
            self.rows.push(entry.summary());
        }
    }

    /// Passes over a candidate that is known not to match without being read.
    pub const fn pass(&mut self, place: ListPlace) {
        self.passed += 1;
        self.last = Some(place);
    }

    /// The page; `is_end`: there are no more candidates.
    pub fn finish(self, is_end: bool) -> Page<Job> {
        let next = self.last.filter(|_| !is_end).map(|place| place.cursor(self.sorted_by));
        let mut page = Page::new(self.rows, next);
        page.examined = (self.examined + self.passed) as u64;
        page
    }
}
