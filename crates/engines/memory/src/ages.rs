//! Jobs ordered by age, where the age limit is a queue setting that may change at any time, or the job's own.

use std::collections::{BTreeMap, BTreeSet};
use windlass_core::model::{Name, State};
use windlass_core::{JobId, Timestamp};
use windlass_executor::Due;

/// Jobs of one queue that share an age limit: the queue, and the state that selects the setting.
type Group = (Name, State);

/// Jobs with an age limit.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ages {
    /// Jobs with their own deadline, by deadline.
    own: BTreeSet<(Timestamp, JobId)>,
    /// Jobs whose limit is a setting, by the time from which on they age.
    by_group: BTreeMap<Group, BTreeSet<(Timestamp, JobId)>>,
}

impl Ages {
    pub(crate) fn insert(
        &mut self,
        group: Group,
        since: Timestamp,
        own_ms: Option<u64>,
        id: JobId,
    ) {
        match own_ms {
            Some(ms) => self.own.insert((since.plus(ms), id)),
            None => self.by_group.entry(group).or_default().insert((since, id)),
        };
    }

    pub(crate) fn remove(
        &mut self,
        group: Group,
        since: Timestamp,
        own_ms: Option<u64>,
        id: JobId,
    ) {
        match own_ms {
            Some(ms) => {
                self.own.remove(&(since.plus(ms), id));
            }
            None => {
                let Some(members) = self.by_group.get_mut(&group) else { return };
                members.remove(&(since, id));
                if members.is_empty() {
                    self.by_group.remove(&group);
                }
            }
        }
    }

    /// The oldest jobs of a group beyond its newest `most`, at most `limit`.
    pub(crate) fn surplus(&self, group: &Group, most: u64, limit: usize) -> Vec<Due> {
        let Some(members) = self.by_group.get(group) else { return Vec::new() };
        let surplus = members.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
        members.iter().take(surplus.min(limit)).copied().collect()
    }

    /// The first `limit` jobs by deadline; `limit_ms` returns the setting of a group.
    pub(crate) fn first(
        &self,
        limit_ms: impl Fn(&Name, State) -> Option<u64>,
        limit: usize,
    ) -> Vec<Due> {
        let mut due: Vec<Due> = self.own.iter().take(limit).copied().collect();
        for ((queue, state), members) in &self.by_group {
            if let Some(ms) = limit_ms(queue, *state) {
                due.extend(members.iter().take(limit).map(|(since, id)| (since.plus(ms), *id)));
            }
        }
        due.sort_unstable();
        due.truncate(limit);
        due
    }
}
