//! The participants of a run: client processes, and the infrastructure around them that can be made to fail.
//! Knows names only; other modules start and kill them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of producers, each in a separate process.
const PRODUCERS: u32 = 2;
/// Number of ordinary workers.
const WORKERS: u32 = 3;
/// Number of ordinary workers of a run with limits: as many as compete for the same slots and tokens.
const LIMITED_WORKERS: u32 = 10;
/// Number of workers that settle late, twice and with expired leases.
const ROGUES: u32 = 1;
/// Number of workers that lose track of jobs they have claimed.
const FORGETFUL: u32 = 1;

/// The behaviour of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// Enqueues jobs, and cancels or changes some of them.
    Producer,
    /// Runs jobs with `windlass-worker`, through handlers that are slow, fail and panic.
    Worker,
    /// Claims and settles without the worker library: late, twice, and with expired leases.
    Rogue,
    /// Like a rogue, but never closes its session and stops declaring some of the jobs it holds.
    Forgetful,
    /// Cancels, edits, moves, replays and discards the jobs of others.
    Operator,
}

/// A process that can be killed and stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Member {
    /// A process with one client in it.
    Client(Role, u32),
    /// The process that owns a directory, with all clients in it.
    Owner,
    /// The server, if the run started it.
    Server,
    /// The database, if the run started it: all of its processes at once.
    Store,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(Role::Producer, number) => write!(f, "producer-{number}"),
            Self::Client(Role::Worker, number) => write!(f, "worker-{number}"),
            Self::Client(Role::Rogue, number) => write!(f, "rogue-{number}"),
            Self::Client(Role::Forgetful, number) => write!(f, "forgetful-{number}"),
            Self::Client(Role::Operator, number) => write!(f, "operator-{number}"),
            Self::Owner => f.write_str("owner"),
            Self::Server => f.write_str("server"),
            Self::Store => f.write_str("store"),
        }
    }
}

/// The network between the clients and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// No network, or one without faults.
    None,
    /// A proxy that forwards bytes.
    Bytes,
    /// A proxy that also recognises whole HTTP requests, and can repeat them.
    Http,
}

/// The participants of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Participants {
    /// Whether one process owns the store and contains all clients.
    pub(super) owner: bool,
    /// Whether the run started a server, which it may kill.
    pub(super) server: bool,
    /// Whether the run started a database, which it may kill.
    pub(super) store: bool,
    /// The network between the clients and the store.
    pub(super) network: Network,
    /// Number of operators.
    pub(super) operators: u32,
    /// Whether jobs run under limits.
    pub(super) limits: bool,
    /// Whether some jobs form graphs.
    pub(super) flows: bool,
}

impl Participants {
    /// The client processes.
    pub(super) fn clients(self) -> Vec<Member> {
        if self.owner {
            return vec![Member::Owner];
        }
        let many = |(role, count)| (0..count).map(move |number| Member::Client(role, number));
        self.roles().into_iter().flat_map(many).collect()
    }

    /// The roles of the clients in a process.
    pub(super) fn roles_of(self, member: Member) -> Vec<Role> {
        let many = |(role, count)| (0..count).map(move |_| role);
        match member {
            Member::Client(role, _) => vec![role],
            Member::Owner => self.roles().into_iter().flat_map(many).collect(),
            Member::Server | Member::Store => Vec::new(),
        }
    }

    /// The number of clients of each role.
    const fn roles(self) -> [(Role, u32); 5] {
        [
            (Role::Producer, PRODUCERS),
            (Role::Worker, if self.limits { LIMITED_WORKERS } else { WORKERS }),
            (Role::Rogue, ROGUES),
            (Role::Forgetful, FORGETFUL),
            (Role::Operator, self.operators),
        ]
    }
}

impl Member {
    /// Whether it creates work, and therefore ends when the faults do.
    pub(super) const fn makes_work(self) -> bool {
        matches!(self, Self::Client(Role::Producer | Role::Operator, _))
    }
}
