//! The index entries of a job. They follow from the job and from the setting of its queue alone: saving a job writes the
//! difference between two sets of them, and a check compares them with what is stored.

use super::small;
use crate::keys::Keys;
use std::collections::BTreeMap;
use windlass_core::engine::{ListPlace, SortedBy};
use windlass_core::model::{Placement, State};
use windlass_executor::{Entry, LaneKey};
use windlass_workset::{Deadline, Place};

/// Members of sorted sets with their scores, by key and member.
pub(crate) type Places = BTreeMap<(Vec<u8>, Vec<u8>), i64>;

/// The lane of a job.
pub(crate) fn lane(entry: &Entry) -> LaneKey {
    (entry.job.header.queue.clone(), entry.job.header.kind.clone())
}

/// The index entries of a job; `ages`: its queue limits how long jobs wait.
pub(crate) fn places(keys: &Keys, entry: &Entry, ages: bool) -> Places {
    let (header, state, place) = (&entry.job.header, entry.job.state, Place::of(entry));
    let (lane, id) = (lane(entry), header.id.as_bytes().to_vec());
    let mut places = Places::new();
    places.insert((keys.all(&lane), id.clone()), 0);
    let listed_at = ListPlace::of(&entry.job, SortedBy::of(Some(state))).at.as_millis();
    match state.placement() {
        Placement::Ready => {
            places.insert((keys.ready(&lane), small::ready(entry)), entry.rank);
        }
        Placement::Scheduled => {
            let due = small::entered(entry.seq, header.id);
            places.insert((keys.one("due"), due), place.run_at);
            places.insert((keys.state(state, false, &lane), id.clone()), listed_at);
        }
        Placement::Aside | Placement::Leased => {
            places.insert((keys.state(state, false, &lane), id.clone()), listed_at);
        }
        Placement::Ended => {
            let own = place.deadline.is_some() || entry.job.is_read();
            places.insert((keys.state(state, own, &lane), id.clone()), listed_at);
        }
    }
    if entry.job.is_unresolved() {
        places.insert((keys.one("unresolved"), id.clone()), 0);
    }
    if let Some(leased) = &entry.leased {
        let held = small::held(leased.claim_no, header.id);
        places.insert((keys.held(leased.session.as_str()), held), 0);
    }
    match place.deadline {
        Some(Deadline::Expires(at)) => drop(places.insert((keys.one("expire"), id.clone()), at)),
        Some(Deadline::Removed(at)) => drop(places.insert((keys.one("remove"), id.clone()), at)),
        None => {}
    }
    if place.ages && ages {
        places.insert((keys.aging(&header.queue), id), place.run_at);
    }
    if let Some(key) = header.key.as_ref().filter(|_| place.in_line) {
        let member = small::entered(entry.seq, header.id);
        places.insert((keys.line(&header.queue, key), member), 0);
    }
    if let Some(member) = small::group_line(entry) {
        places.insert((keys.group_line(&lane, header.limit_group()), member), 0);
    }
    places
}

/// The states of jobs that have ended.
pub(crate) fn ended() -> impl Iterator<Item = State> {
    State::ALL.into_iter().filter(|state| state.is_terminal())
}

/// The indexes of a lane that contain the jobs of a state.
pub(crate) fn indexes(keys: &Keys, state: State, lane: &LaneKey) -> Vec<Vec<u8>> {
    match state.placement() {
        Placement::Ready => vec![keys.ready(lane)],
        Placement::Ended => [false, true].map(|own| keys.state(state, own, lane)).to_vec(),
        Placement::Scheduled | Placement::Aside | Placement::Leased => {
            vec![keys.state(state, false, lane)]
        }
    }
}
