//! Jobs by age, where the limit of age is a setting that may change at any time, or a job's own.

use std::collections::{BTreeMap, BTreeSet};
use windlass_core::model::{Name, State};
use windlass_core::{JobId, Timestamp};
use windlass_executor::Due;

/// Jobs of one queue that share a limit: by queue, and by the state that chooses the setting.
type Group = (Name, State);

/// Jobs that will be too old one day.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ages {
    /// Those with a deadline of their own.
    own: BTreeSet<(Timestamp, JobId)>,
    /// Those that go by a setting, since when.
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

    /// The first `limit` jobs by their deadlines; `limit_ms` gives the setting of a group.
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
