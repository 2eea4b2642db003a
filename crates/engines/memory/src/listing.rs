//! Pages of jobs, merged from the sorted sets of the lanes that a filter selects.

use crate::index::Lane;
use crate::rows::MemoryRows;
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound;
use windlass_core::Result;
use windlass_core::engine::{Filter, List, ListOrder, ListPlace, ListSpan, Page};
use windlass_core::model::Job;
use windlass_executor::{Filling, LaneKey};

type Places<'a> = Box<dyn Iterator<Item = ListPlace> + 'a>;

impl MemoryRows {
    /// Returns one page of jobs.
    pub(crate) fn list(&self, request: &List) -> Result<Page<Job>> {
        request.check()?;
        let span = request.span()?;
        let mut page = Filling::new(request, span);
        let mut places = self.places(request, span);
        while !page.is_over()
            && let Some(place) = places.next()
        {
            match self.jobs.get(&place.id) {
                Some(entry) => page.examine(entry),
                None => page.pass(place),
            }
        }
        let is_end = places.next().is_none();
        Ok(page.finish(is_end))
    }

    /// The jobs of the selected lanes and state, in order.
    fn places<'a>(&'a self, request: &'a List, span: ListSpan) -> Places<'a> {
        let (filter, order) = (&request.filter, request.order);
        let (lowest, highest) = span.bounds();
        // `range` of a set panics if the ends are the wrong way round.
        if lowest >= highest {
            return Box::new(std::iter::empty());
        }
        let within = (Bound::Excluded(lowest), Bound::Excluded(highest));
        let all_jobs = filter.state.is_none() && filter.queue.is_none() && filter.kind.is_none();
        if all_jobs {
            let ids = (Bound::Excluded(lowest.id), Bound::Excluded(highest.id));
            let ids = self.jobs.range(ids).map(|(id, _)| ListPlace::enqueued(*id));
            return match order {
                ListOrder::Newest => Box::new(ids.rev()),
                ListOrder::Oldest => Box::new(ids),
            };
        }
        let set = |lane: &'a Lane| match filter.state {
            Some(state) => lane.listed(state),
            None => &lane.all,
        };
        let lanes = self.selected(filter).map(|(_, lane)| sorted(set(lane), within, order));
        Box::new(Merged::new(lanes, order))
    }

    fn selected<'a>(
        &'a self,
        filter: &'a Filter,
    ) -> Box<dyn Iterator<Item = (&'a LaneKey, &'a Lane)> + 'a> {
        let lanes: Box<dyn Iterator<Item = (&LaneKey, &Lane)>> = match &filter.queue {
            Some(queue) => Box::new(self.index.lanes_of(queue)),
            None => Box::new(self.index.lanes.iter()),
        };
        Box::new(lanes.filter(|((_, kind), _)| filter.kind.as_ref().is_none_or(|it| it == kind)))
    }
}

/// The positions of a set within a range, in the order of the listing.
fn sorted(
    set: &BTreeSet<ListPlace>,
    within: (Bound<ListPlace>, Bound<ListPlace>),
    order: ListOrder,
) -> Places<'_> {
    let places = set.range(within).copied();
    match order {
        ListOrder::Newest => Box::new(places.rev()),
        ListOrder::Oldest => Box::new(places),
    }
}

/// The next position of one lane.
struct Head {
    place: ListPlace,
    lane: usize,
    order: ListOrder,
}

impl Ord for Head {
    /// The heap returns the greatest first, which must be the first of the listing.
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&other.place, &self.place)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Head {}

/// Merges sorted lanes.
struct Merged<'a> {
    heads: BinaryHeap<Head>,
    rest: Vec<Places<'a>>,
    order: ListOrder,
}

impl<'a> Merged<'a> {
    fn new(lanes: impl Iterator<Item = Places<'a>>, order: ListOrder) -> Self {
        let mut merged = Self { heads: BinaryHeap::new(), rest: lanes.collect(), order };
        for lane in 0..merged.rest.len() {
            merged.refill(lane);
        }
        merged
    }

    fn refill(&mut self, lane: usize) {
        if let Some(place) = self.rest.get_mut(lane).and_then(Iterator::next) {
            self.heads.push(Head { place, lane, order: self.order });
        }
    }
}

impl Iterator for Merged<'_> {
    type Item = ListPlace;

    fn next(&mut self) -> Option<ListPlace> {
        let Head { place, lane, .. } = self.heads.pop()?;
        self.refill(lane);
        Some(place)
    }
}
