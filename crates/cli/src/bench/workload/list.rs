//! The workloads: names, descriptions and properties. Knows nothing of how they are run.

use super::super::profile::Profile;
use crate::connect::Url;
use serde::{Deserialize, Serialize};

/// W5deep: the rate at which even a slow machine fills a store, in jobs per millisecond.
const FILLED_PER_MS_MIN: u64 = 5;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Workload {
    /// Single enqueues, one after the other.
    W1seq,
    /// Single enqueues by 64 concurrent callers.
    W1c64,
    /// Single enqueues by 512 concurrent callers.
    W1c512,
    /// Single enqueues by 64 callers, each with its own engine and connections, like 64 processes.
    W1p64,
    /// Many jobs by the fastest bulk path.
    W2,
    /// Drain waiting jobs with one worker process.
    W3,
    /// The reference of `W3lanes`: the same with ten idle lanes.
    W3lanes0,
    /// Drain waiting jobs of a queue that has 9,900 idle lanes.
    W3lanes,
    /// Drain waiting jobs under a limit over all jobs that is never reached.
    W3limit,
    /// Drain waiting jobs of 1,000 groups under a limit by group that is never reached.
    W3groups,
    /// Drain waiting jobs of many groups with one slot each.
    W5group0,
    /// The same beside a group that is 1,000 times deeper.
    W5group,
    /// Drain waiting jobs with 64 claims at a time.
    C64,
    /// The same with 256 claims at a time.
    C256,
    /// The same with 64 engines that have their own connections, like 64 processes.
    C64apart,
    /// The same with 256 of them.
    C256apart,
    /// The same with 64 engines, each with its own queue: no contention between them.
    C64own,
    /// The same with 256 of them.
    C256own,
    /// Latency from the call of enqueue to the start of the handler, on an idle queue.
    W4,
    /// Latency from the commit of an application's transaction to the start of the handler, while another
    /// transaction stays open.
    W4commit,
    /// The reference of `W5same`: the same jobs in one lane, with no others waiting.
    W5same0,
    /// Drain jobs from the head of a long lane.
    W5same,
    /// The reference of `W5lanes`: the same jobs over 20 lanes, with no others waiting.
    W5lanes0,
    /// Drain jobs from the heads of 20 long lanes.
    W5lanes,
    /// Drain jobs and promote due ones in an otherwise empty store.
    W5deep0,
    /// The same with millions of others ready and scheduled; also measures queries over them.
    W5deep,
    /// Enqueue, run and complete at the same time.
    W6,
    /// The same while another session holds an old snapshot.
    W7snapshot,
    /// The same while another session holds an old snapshot and has read our views.
    W7reader,
    /// The same while another session has a transaction open that has written something.
    W7writer,
    /// The same while `pg_dump` saves our schema.
    W7dump,
    /// 256 producers and 256 workers of single jobs, each job claimed in one call and completed in another.
    P256,
    /// The same, completing a job and claiming the next in one call.
    P256next,
    /// Open a directory with many waiting jobs.
    Open,
    /// 2,000 connections with waiting claims, and their cost to a server.
    Idle2000,
    /// Enqueue, run and complete at a given rate for a long time, with the services of a server.
    Soak,
}

impl Workload {
    /// All workloads, in the order in which they run.
    pub(crate) const ALL: [Self; 36] = [
        Self::W1seq,
        Self::W1c64,
        Self::W1c512,
        Self::W1p64,
        Self::W2,
        Self::W3,
        Self::W3lanes0,
        Self::W3lanes,
        Self::W3limit,
        Self::W3groups,
        Self::W5group0,
        Self::W5group,
        Self::C64,
        Self::C256,
        Self::C64apart,
        Self::C256apart,
        Self::C64own,
        Self::C256own,
        Self::W4,
        Self::W4commit,
        Self::W5same0,
        Self::W5same,
        Self::W5lanes0,
        Self::W5lanes,
        Self::W5deep0,
        Self::W5deep,
        Self::W6,
        Self::W7snapshot,
        Self::W7reader,
        Self::W7writer,
        Self::W7dump,
        Self::P256,
        Self::P256next,
        Self::Open,
        Self::Idle2000,
        Self::Soak,
    ];

    /// Its name in reports and in `--only`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::W1seq => "W1seq",
            Self::W1c64 => "W1c64",
            Self::W1c512 => "W1c512",
            Self::W1p64 => "W1p64",
            Self::W2 => "W2",
            Self::W3 => "W3",
            Self::W3lanes0 => "W3lanes0",
            Self::W3lanes => "W3lanes",
            Self::W3limit => "W3limit",
            Self::W3groups => "W3groups",
            Self::W5group0 => "W5group0",
            Self::W5group => "W5group",
            Self::C64 => "C64",
            Self::C256 => "C256",
            Self::C64apart => "C64apart",
            Self::C256apart => "C256apart",
            Self::C64own => "C64own",
            Self::C256own => "C256own",
            Self::W4 => "W4",
            Self::W4commit => "W4commit",
            Self::W5same0 => "W5same0",
            Self::W5same => "W5same",
            Self::W5lanes0 => "W5lanes0",
            Self::W5lanes => "W5lanes",
            Self::W5deep0 => "W5deep0",
            Self::W5deep => "W5deep",
            Self::W6 => "W6",
            Self::W7snapshot => "W7snapshot",
            Self::W7reader => "W7reader",
            Self::W7writer => "W7writer",
            Self::W7dump => "W7dump",
            Self::P256 => "P256",
            Self::P256next => "P256next",
            Self::Open => "open",
            Self::Idle2000 => "idle2000",
            Self::Soak => "soak",
        }
    }

    /// A short description, for the table.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::W1seq => "single enqueues, in sequence",
            Self::W1c64 => "single enqueues, 64 callers",
            Self::W1c512 => "single enqueues, 512 callers",
            Self::W1p64 => "single enqueues, 64 engines",
            Self::W2 => "bulk enqueue, in batches",
            Self::W3 => "drain, in batches",
            Self::W3lanes0 => "drain beside 10 idle lanes",
            Self::W3lanes => "drain beside 9,900 idle lanes",
            Self::W3limit => "drain under a limit",
            Self::W3groups => "drain under a limit by group",
            Self::W5group0 => "wait of 10,000 groups with one slot each",
            Self::W5group => "… beside one 1,000 × deeper",
            Self::C64 => "drain, 64 claims at a time",
            Self::C256 => "drain, 256 claims at a time",
            Self::C64apart => "drain, 64 engines",
            Self::C256apart => "drain, 256 engines",
            Self::C64own => "drain, 64 engines, a queue each",
            Self::C256own => "drain, 256 engines, a queue each",
            Self::W4 => "idle: enqueue to handler start",
            Self::W4commit => "idle: commit to handler start",
            Self::W5same0 => "drain, nothing else waiting",
            Self::W5same => "drain, others behind in the lane",
            Self::W5lanes0 => "drain 20 lanes, nothing else",
            Self::W5lanes => "drain 20 lanes, others behind",
            Self::W5deep0 => "drain and promote, nothing else",
            Self::W5deep => "drain and promote among millions",
            Self::W6 => "enqueue + run + complete",
            Self::W7snapshot => "… beside an old snapshot",
            Self::W7reader => "… that has read our views",
            Self::W7writer => "… beside an open transaction",
            Self::W7dump => "… beside a pg_dump",
            Self::P256 => "256 producers + 256 workers",
            Self::P256next => "… completing and claiming at once",
            Self::Open => "open with many waiting",
            Self::Idle2000 => "2,000 claims that wait",
            Self::Soak => "enqueue + run + complete, paced",
        }
    }

    /// Whether the baselines run it, too.
    pub(crate) const fn has_baseline(self) -> bool {
        matches!(self, Self::W1c64 | Self::W2 | Self::W3 | Self::P256 | Self::P256next)
    }

    /// Whether it is also measured through a server, in addition to an engine in this process.
    pub(crate) const fn is_served(self) -> bool {
        matches!(self, Self::W1c64 | Self::W2 | Self::W3 | Self::W4 | Self::Idle2000)
    }

    /// Number of engines with their own connections that it opens, in addition to the one of every workload.
    pub(crate) const fn engines(self) -> Option<usize> {
        match self {
            Self::W1p64 | Self::C64apart | Self::C64own => Some(64),
            Self::C256apart | Self::C256own => Some(256),
            _ => None,
        }
    }

    /// The workload whose rate this one should approach.
    pub(crate) const fn reference(self) -> Option<Self> {
        match self {
            Self::C64
            | Self::C256
            | Self::C64apart
            | Self::C256apart
            | Self::C64own
            | Self::C256own
            | Self::W3limit
            | Self::W3groups => Some(Self::W3),
            Self::W5same => Some(Self::W5same0),
            Self::W5lanes => Some(Self::W5lanes0),
            _ => self.beside(),
        }
    }

    /// The workload that this one must be compared with; it runs directly before this one.
    pub(crate) const fn beside(self) -> Option<Self> {
        match self {
            Self::W5deep => Some(Self::W5deep0),
            Self::W3lanes => Some(Self::W3lanes0),
            Self::W5group => Some(Self::W5group0),
            Self::W7snapshot | Self::W7reader | Self::W7writer | Self::W7dump => Some(Self::W6),
            _ => None,
        }
    }

    /// Whether its duration can be set by the user, and a time series is recorded.
    pub(crate) const fn is_watched(self) -> bool {
        matches!(self, Self::W6 | Self::Soak) || matches!(self.beside(), Some(Self::W6))
    }

    /// Its expected duration, if it is longer than a few minutes.
    pub(crate) const fn length_ms(self, profile: &Profile) -> u64 {
        match self {
            Self::W5deep => (profile.deep_ready + profile.deep_scheduled) / FILLED_PER_MS_MIN,
            Self::W3lanes | Self::W3lanes0 => profile.idle_lanes_ms,
            Self::Soak => profile.soak_ms,
            _ if self.is_watched() => profile.sustained_ms,
            _ => 0,
        }
    }

    /// The prefix that selects a large workload, which runs only if it is named; empty for others.
    const fn asked_by(self) -> &'static str {
        match self {
            Self::W5deep | Self::W5deep0 => "w5deep",
            Self::W3lanes | Self::W3lanes0 => "w3lanes",
            Self::W3limit => "w3limit",
            Self::W3groups => "w3groups",
            Self::W5group0 | Self::W5group => "w5group",
            Self::Soak => "soak",
            _ => "",
        }
    }

    /// The workloads that run by default.
    pub(crate) fn usual() -> Vec<Self> {
        Self::ALL.into_iter().filter(|it| it.asked_by().is_empty()).collect()
    }

    /// Whether it applies to the engine at `url`.
    pub(crate) const fn applies_to(self, url: &Url) -> bool {
        match self {
            Self::Open => matches!(url, Url::File(_)),
            Self::Idle2000 => matches!(url, Url::Http(_)),
            // On a shared server they would fill the disk, and its services cannot be controlled.
            Self::W5deep | Self::W5deep0 | Self::W3lanes | Self::W3lanes0 | Self::Soak => {
                !matches!(url, Url::Http(_))
            }
            Self::W1p64
            | Self::C64apart
            | Self::C256apart
            | Self::C64own
            | Self::C256own
            | Self::W4commit
            | Self::W7snapshot
            | Self::W7reader
            | Self::W7writer
            | Self::W7dump => matches!(url, Url::Postgres(_)),
            _ => true,
        }
    }

    /// Whether a separate process fills the directory before, so that its memory does not count.
    pub(crate) const fn is_prepared(self) -> bool {
        matches!(self, Self::Open)
    }

    /// The workloads whose names start with `text`, ignoring case; large ones require a longer prefix.
    pub(crate) fn select(text: &str) -> Result<Vec<Self>, String> {
        let wanted = text.trim().to_ascii_lowercase();
        let begins = |it: &Self| {
            it.name().to_ascii_lowercase().starts_with(&wanted) && wanted.starts_with(it.asked_by())
        };
        let selected: Vec<Self> = Self::ALL.into_iter().filter(begins).collect();
        if wanted.is_empty() || selected.is_empty() {
            let known = Self::ALL.map(Self::name).join(", ");
            return Err(format!("unknown workload; the known ones: {known}"));
        }
        Ok(selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_by_their_beginning_and_unknown_ones_name_the_known() {
        assert_eq!(Workload::select("w3"), Ok(vec![Workload::W3]));
        assert_eq!(Workload::select("W5same").unwrap().len(), 2);
        assert_eq!(Workload::select("W5").unwrap().len(), 4, "without the large ones");
        assert_eq!(Workload::select("w5deep"), Ok(vec![Workload::W5deep0, Workload::W5deep]));
        assert_eq!(Workload::select("soak"), Ok(vec![Workload::Soak]));
        assert!(!Workload::usual().contains(&Workload::Soak));
        for unknown in ["W9", ""] {
            let error = Workload::select(unknown).unwrap_err();
            assert!(Workload::ALL.iter().all(|it| error.contains(it.name())), "{error}");
        }
    }
}
