//! `windlass torture`: tests the guarantees of a store under real faults. Producers and workers run in separate
//! processes, which are killed, stalled and disconnected according to a schedule derived from a seed. The kit's
//! history checker checks the recorded calls.
//!
//! Steps of a run: `target` prepares the store (`postgres` starts a server that can be killed), `schedule`
//! generates the faults, `client_processes` starts the clients and executes the faults (with `proxy` as the network),
//! `drain` waits until all jobs have ended, and `report` prints the verdict. Inside a client process: `client`,
//! `producer`, `worker`, `rogue`, `operator`.

#[cfg(test)]
mod busy;
mod client;
mod client_processes;
mod drain;
mod graph;
mod journal;
mod limits;
mod operator;
mod participants;
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
mod waits;
mod worker;

pub(crate) use client::run_client;
pub(crate) use run::run;

use crate::connect::Url;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use windlass_core::policy::Backoff;
use windlass_core::random::Random;

/// Name of the hidden command that runs a client process.
pub(crate) const CLIENT_COMMAND: &str = "torture-client";

/// Duration of sessions and leases: short, so that many expire and are reclaimed.
const LEASE_MS: u64 = 2_500;
/// Heartbeat interval of workers.
const HEARTBEAT_MS: u64 = 500;
/// Time until another process takes over the services after the one running them was killed.
const LEAD_TTL_MS: u64 = 1_500;
/// Timeout of a call, after which it counts as unanswered.
const CALL_MAX: Duration = Duration::from_secs(3);
/// Delay before a failed job is retried.
const BACKOFF: Backoff = Backoff::Fixed { delay_ms: 50, jitter_ms: 200 };
/// Interval at which ended jobs are removed in a run with short retention.
const RETAIN_EVERY_MS: u64 = 300;
/// Interval at which the store is compacted in a run with short retention.
const COMPACT_EVERY_MS: u64 = 3_000;
/// Interval at which dead letters are trimmed in a run with short retention.
const TRIM_EVERY_MS: u64 = 2_000;
/// Maximum total size of dead letters in a run with short retention, in bytes.
const DEAD_BYTES_MAX: u64 = 64 * 1024;
/// Error codes of a change that are expected when the job's state has changed since it was read, or its inbox is full.
const CHANGE_CODES: [&str; 5] =
    ["refused", "not_found", "duplicate", "state_conflict", "too_large"];
/// Kinds of the jobs that producers enqueue.
const KINDS: [&str; 2] = ["one", "two"];
/// Kind of follow-up jobs.
const FOLLOW_UP: &str = "follow";

/// The store under test.
#[derive(Debug)]
pub(crate) enum Store {
    /// An existing store, or a directory in which to create one.
    At(Url),
    /// A PostgreSQL server started for the run, with its files in a new directory below this one.
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

/// The options of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The store under test.
    pub(crate) store: Store,
    /// Length of the fault phase, in seconds.
    pub(crate) seconds: u64,
    /// Seed of the fault schedule.
    pub(crate) seed: u64,
    /// Whether to start a server between the clients and the directory.
    pub(crate) serve: bool,
    /// Whether the clients connect to the store without the proxy.
    pub(crate) direct: bool,
    /// Number of operators, which cancel, edit, replay and discard jobs.
    pub(crate) operators: u32,
    /// Retention of ended jobs; `None` means longer than the run.
    pub(crate) retention_ms: Option<u64>,
    /// Whether jobs run under limits.
    pub(crate) limits: bool,
    /// Whether some jobs form graphs.
    pub(crate) flows: bool,
    /// Settings of the PostgreSQL server started for the run, as `NAME=VALUE`.
    pub(crate) postgres_settings: Vec<String>,
    /// Directory in which all evidence is kept, whatever the verdict.
    pub(crate) evidence: Option<PathBuf>,
    /// Whether to print JSON.
    pub(crate) json: bool,
}

/// The faults and the checks, for `--help`.
pub(crate) const HELP: &str = "Faults:
  Producers and workers run in separate processes, which are killed (SIGKILL) and restarted, and stalled
  (SIGSTOP) for longer than their leases. The server of --serve is treated the same; with --start-postgres
  all processes of the database are killed at once, and it recovers by itself. Handlers are slow, fail,
  panic and exceed their timeout; some workers settle late, twice, and with expired leases. A proxy in
  front of an http:// or postgres:// store delays, cuts and resets connections, drops replies after the
  request has arrived, and repeats HTTP requests late. A file:DIR has one owner: all clients run in one
  process, which is killed and stalled.
  Meanwhile operators list jobs and cancel, edit, move and replay some of them (--operators). With
  --retention the services remove ended jobs within seconds, dead letters beyond 64 KiB are trimmed, and
  the operators discard jobs, too.
  With --limits, ten workers run jobs under limits: of slots and of starts per second, over all jobs and
  by group. Producers keep every group busy.
  With --flows, one batch in ten is a random graph of up to 200 jobs, stored all or nothing; its jobs are
  cancelled and replayed like any others. Some handlers create up to 5 children and wait for them, others
  wait for signals, which the operators send.

Checks:
  After the faults, all jobs must end within a bounded time. Then each acknowledged job must exist and be
  completed or dead (or cancelled, if that was requested); no expired lease may have been accepted; no job
  may have ended twice, been revived or undone; the jobs of each key must have run one at a time and in
  order. Jobs that ran more than once are counted, and allowed. With --retention a job may be missing if it
  can have ended since it was last seen unfinished: a replayed job must have ended again. With --limits
  never more jobs may have run at a time, and never more may have started in any window, than allowed; the
  report says how much of the allowed rate was used, and how late jobs started. No job may have started
  before the jobs that it runs after, or its children, could have ended, or wait for them at the end; no
  signal may have reached another job.

The last line is the verdict. The exit code is 0 if every guarantee was kept, and 1 if one was broken: then
the histories, the schedule and the findings are kept in a directory, whose path is printed.";

/// Returns `true` with a probability of `per_mille` / 1000.
fn happens(random: &dyn Random, per_mille: u64) -> bool {
    random.below(1_000) < per_mille
}
