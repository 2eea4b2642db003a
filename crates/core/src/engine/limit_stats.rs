//! Statistics of limits.

use crate::growing::growing;
use crate::model::Name;
use crate::time::Timestamp;

growing! {
    /// The jobs under a limit, and what it allows now.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LimitStats as LimitStatsFields {
        /// Its name.
        pub name: Name,
        /// Running jobs that it counts, of all groups.
        pub running: u64,
        /// Jobs of its queues and kinds that are ready or in the line of their group.
        pub waiting: u64,
        /// Tokens that jobs could take now. `None` for a limit without a rate, and for one by group.
        pub tokens: Option<u64>,
        /// Until when a report holds it. `None` for a limit by group.
        pub held_until: Option<Timestamp>,
        /// Of a limit by group, the groups with the most jobs, at most
        /// [`LIMIT_GROUPS_LISTED_MAX`](crate::limits::LIMIT_GROUPS_LISTED_MAX). The jobs of all others are the
        /// difference to [`running`](Self::running) and [`waiting`](Self::waiting).
        ///
        /// To keep the cost independent of the number of groups, at most
        /// [`LIMIT_LINES_EXAMINED_MAX`](crate::limits::LIMIT_LINES_EXAMINED_MAX) of them are compared.
        pub groups: Vec<GroupStats>,
    }
}

growing! {
    /// The jobs of one group under a limit, and what it allows the group now.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GroupStats as GroupStatsFields {
        /// The group; empty for jobs without a group and a tenant.
        pub group: String,
        /// Its running jobs that the limit counts.
        pub running: u64,
        /// Its jobs that are ready or in line.
        pub waiting: u64,
        /// Tokens that its jobs could take now; `None` without a rate.
        pub tokens: Option<u64>,
        /// Until when a report holds it.
        pub held_until: Option<Timestamp>,
    }
}

impl LimitStats {
    /// Running jobs of groups that are not listed.
    pub fn other_running(&self) -> u64 {
        self.running.saturating_sub(self.groups.iter().map(|group| group.running).sum())
    }

    /// Waiting jobs of groups that are not listed.
    pub fn other_waiting(&self) -> u64 {
        self.waiting.saturating_sub(self.groups.iter().map(|group| group.waiting).sum())
    }
}
