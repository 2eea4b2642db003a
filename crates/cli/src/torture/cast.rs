//! Who takes part in a run: the processes of the clients, and what around them can be made to fail.
//! Knows names only; starting and killing is for others.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Producers, each a process of its own.
const PRODUCERS: u32 = 2;
/// Workers as applications have them.
const WORKERS: u32 = 3;
/// Workers that report late, twice and under expired leases.
const ROGUES: u32 = 1;
/// Workers that lose track of jobs they have claimed.
const FORGETFUL: u32 = 1;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// Enqueues, and changes its mind.
    Producer,
    /// Runs jobs with `windlass-worker`, through handlers that are slow, fail and panic.
    Worker,
    /// Claims and settles by hand: late, twice, and under leases that are over.
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
    /// The server, if it is ours.
    Server,
    /// The database, if it is ours: all of its processes at once.
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

/// What lies between the clients and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// Nothing that could fail.
    None,
    /// A proxy that passes bytes.
    Bytes,
    /// A proxy that also knows where an HTTP request begins and ends, and can repeat it.
    Http,
}

/// Everybody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cast {
    /// Whether one process owns the store and has all clients in it.
    pub(super) owner: bool,
    /// Whether the server is ours to kill.
    pub(super) server: bool,
    /// Whether the database is ours to kill.
    pub(super) store: bool,
    /// What lies in between.
    pub(super) network: Network,
    /// How many operators there are.
    pub(super) operators: u32,
}

impl Cast {
    /// Everybody who makes calls.
    pub(super) fn clients(self) -> Vec<Member> {
        if self.owner {
            return vec![Member::Owner];
        }
        let many = |(role, count)| (0..count).map(move |number| Member::Client(role, number));
        self.roles().into_iter().flat_map(many).collect()
    }

    /// What the process of a member does.
    pub(super) fn roles_of(self, member: Member) -> Vec<Role> {
        let many = |(role, count)| (0..count).map(move |_| role);
        match member {
            Member::Client(role, _) => vec![role],
            Member::Owner => self.roles().into_iter().flat_map(many).collect(),
            Member::Server | Member::Store => Vec::new(),
        }
    }

    /// How many there are of each role.
    const fn roles(self) -> [(Role, u32); 5] {
        [
            (Role::Producer, PRODUCERS),
            (Role::Worker, WORKERS),
            (Role::Rogue, ROGUES),
            (Role::Forgetful, FORGETFUL),
            (Role::Operator, self.operators),
        ]
    }
}

impl Member {
    /// Whether it makes work for others, and ends when the faults do.
    pub(super) const fn makes_work(self) -> bool {
        matches!(self, Self::Client(Role::Producer | Role::Operator, _))
    }
}
