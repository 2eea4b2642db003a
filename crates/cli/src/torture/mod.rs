//! Proves the promises under real faults: producers and workers as processes of their own, killed,
//! stalled and cut off by a schedule that a seed decides; what they saw is judged by the kit.
//!
//! A run: `target` makes a place in the store (`postgres` starts one to kill), `schedule` says what goes wrong when, `troupe` starts the
//! clients and does it to them (with `proxy` as the network), `drain` waits until all is done, and `report`
//! has what they wrote down judged. On the side of a client: `client`, `producer`, `worker`, `rogue`, `operator`.

#[cfg(test)]
mod busy;
mod cast;
mod client;
mod drain;
mod journal;
mod operator;
mod postgres;
mod process;
mod producer;
mod progress;
mod proxy;
mod report;
mod rogue;
mod run;
mod schedule;
mod stage;
mod target;
mod troupe;
mod worker;

pub(crate) use client::run_client;
pub(crate) use run::run;

use crate::connect::Url;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use windlass_core::policy::Backoff;
use windlass_core::random::Random;

/// The hidden command under which this program is a client.
pub(crate) const CLIENT_COMMAND: &str = "torture-client";

/// How long sessions and leases last: short, so that much is lost and taken back.
const LEASE_MS: u64 = 2_500;
/// How often workers heartbeat.
const HEARTBEAT_MS: u64 = 500;
/// How long the services rest when the process that ran them was killed.
const LEAD_TTL_MS: u64 = 1_500;
/// How long one call may take before it counts as unanswered.
const CALL_MAX: Duration = Duration::from_secs(3);
/// How long a failed job waits for its next attempt.
const BACKOFF: Backoff = Backoff::Fixed { delay_ms: 50, jitter_ms: 200 };
/// How often ended jobs are removed, and the store compacted, where a run has short retention.
const RETAIN_EVERY_MS: u64 = 300;
const COMPACT_EVERY_MS: u64 = 3_000;
/// How often dead letters beyond their bytes are discarded in such a run, and how many bytes that is.
const TRIM_EVERY_MS: u64 = 2_000;
const DEAD_BYTES_MAX: u64 = 64 * 1024;
/// Error codes of a change that are expected when the job's state has changed since it was read.
const CHANGE_CODES: [&str; 4] = ["refused", "not_found", "duplicate", "state_conflict"];
/// The kinds that producers enqueue, and the one of follow-ups.
const KINDS: [&str; 2] = ["one", "two"];
const FOLLOW_UP: &str = "follow";

/// Which store is tortured.
#[derive(Debug)]
pub(crate) enum Store {
    /// One that is there, or a directory.
    At(Url),
    /// A PostgreSQL of our own, with its files in a fresh directory below this one.
    OwnPostgres(PathBuf),
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(url) => write!(f, "{url}"),
            Self::OwnPostgres(parent) => write!(f, "a PostgreSQL started in {}", parent.display()),
        }
    }
}

/// What the user asked for.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What is tortured.
    pub(crate) store: Store,
    /// How long things go wrong.
    pub(crate) seconds: u64,
    /// Decides what goes wrong when.
    pub(crate) seed: u64,
    /// Whether a server of our own is between the clients and the directory.
    pub(crate) serve: bool,
    /// Whether the clients talk to the store without a proxy in between.
    pub(crate) direct: bool,
    /// Operators who cancel, edit, replay and discard jobs.
    pub(crate) operators: u32,
    /// How long ended jobs are kept; `None` for longer than a run takes.
    pub(crate) retention_ms: Option<u64>,
    /// Settings of a PostgreSQL of our own, `NAME=VALUE`.
    pub(crate) postgres_settings: Vec<String>,
    /// Where everything is kept, whatever the verdict.
    pub(crate) evidence: Option<PathBuf>,
    /// Whether to print JSON.
    pub(crate) json: bool,
}

/// What is tried and how it is judged, for `--help`.
pub(crate) const HELP: &str = "What goes wrong:
  Producers and workers are processes: killed (SIGKILL) and started again, and stalled (SIGSTOP) for
  longer than their leases last. So is the server with --serve; with --start-postgres all processes of the
  database are killed at once, and it recovers by itself. Handlers are slow, fail, panic and run
  out of time; some workers report late, twice, and under leases that are over. A proxy in front of an
  http:// or postgres:// store delays, cuts and resets connections, loses replies after the request has
  arrived, and repeats HTTP requests late. A file:DIR has one owner: all clients live in its process, and
  that is killed and stalled.
  Meanwhile operators list jobs and cancel, edit, move and replay some of them (--operators). With
  --retention the services remove what has ended seconds later, dead letters beyond 64 KiB are trimmed, and
  the operators discard jobs, too.

What is judged:
  When the time is up the faults end, and everything must be done within a bounded time. Then each
  acknowledged job must be there, completed or dead (or cancelled, where somebody asked for it); no lease
  honoured after it was over; nothing ended twice, revived or undone; the jobs of each key one at a time
  and in order. Jobs that ran more than once are counted, and allowed. With --retention a job may be gone if
  it can have ended since it was last seen alive: one that was replayed must have ended again.

The last line is the verdict. The exit code is 0 if every promise was kept, and 1 if one was broken: then
the histories, the schedule and the findings stay in a directory that is named.";

/// Whether something that happens so often in a thousand happens now.
fn happens(random: &dyn Random, per_mille: u64) -> bool {
    random.below(1_000) < per_mille
}
