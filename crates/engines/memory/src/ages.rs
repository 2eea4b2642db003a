//! Jobs by age, where the limit of age is a setting that may change at any time, or a job's own.

use std::collections::{BTreeMap, BTreeSet};
use windlass_core::model::{Name, State};
use windlass_core::{JobId, Timestamp};

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

    /// The earliest deadline and its job; `limit_ms` gives the setting of a group.
    pub(crate) fn next(
        &self,
        limit_ms: impl Fn(&Name, State) -> Option<u64>,
    ) -> Option<(Timestamp, JobId)> {
        let of_groups = self.by_group.iter().filter_map(|((queue, state), members)| {
            let (since, id) = members.first()?;
            Some((since.plus(limit_ms(queue, *state)?), *id))
        });
        of_groups.chain(self.own.first().copied()).min()
    }
}
