//! Commands as handlers: programs in any language, each job in processes of its own, under limits, and
//! nothing left of them when they end. For Unix; what has left its process group is found on Linux only.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! use windlass_worker::Worker;
//! use windlass_worker::process::{self, Process};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     process::enter(); // first of all
//!     let engine = Arc::new(windlass_memory::MemoryEngine::new());
//!     let resize = Process::shell("convert - -resize 200 png:-")
//!         .memory_max(256 << 20)
//!         .cpu_max(Duration::from_secs(30))
//!         .processes_max(16);
//!     let worker = Worker::builder(engine).handle_process("resize", resize).build()?;
//!     worker.run_until_signal().await?;
//!     Ok(())
//! }
//! ```
//!
//! # What a command gets
//!
//! The payload on stdin, and in its environment `WINDLASS_JOB_ID`, `WINDLASS_JOB_KIND`,
//! `WINDLASS_JOB_QUEUE`, `WINDLASS_JOB_ATTEMPT` and, if there is a trace
//! ([`Ctx::trace`](crate::Ctx::trace)), `TRACEPARENT`. Of the host's own environment it gets paths, user,
//! locale and time zone, and nothing else unless [`Process::env`] or [`Process::pass_env`] names it: what a
//! command prints becomes the result of its job.
//!
//! # How its end is read
//!
//! | it ends with | the job |
//! |---|---|
//! | exit code 0 | is completed; stdout is the result, if it is no longer than 64 KiB, and the last lines of stderr go to its log |
//! | exit code 65 ([`EXIT_FATAL`]) | is dead at once, code `exit_65` |
//! | exit code 75 ([`EXIT_SNOOZE`]) | runs again after [`Process::snooze`], no failure counted |
//! | any other exit code | has failed, code `exit_N`; the end of stderr is the error |
//! | a signal | has failed, code `signal_N` |
//! | nothing: it runs out of time | has failed, code `timeout` |
//!
//! # How it is ended
//!
//! Out of time, cancelled, or at the end of a drain, its whole process group gets SIGTERM, and SIGKILL
//! [`KILL_GRACE`] later. Whatever it leaves running is killed at its end, also what has left its group.
//! If the host dies, all of it is killed at once.
//!
//! # How it works
//!
//! The host starts its own program again, as the command's **supervisor**; [`enter`] is where that second
//! run finds out what it is there for. The supervisor starts it once more, which puts itself under the
//! limits and becomes the command. Everybody below a supervisor belongs to its command, whatever they do:
//! on Linux those who lose their parent become the supervisor's children. So the host's own children are
//! never touched, one command's processes are never taken for another's, and a supervisor that finds its
//! line to the host closed knows that it is to end them all. In lists of processes both are called
//! `windlass-process`, followed by the command.

mod command;
mod definition;
mod descendants;
mod enter;
mod environment;
mod handler;
mod limits;
mod line;
mod pipes;
mod role;
mod supervised;
mod supervisor;
mod users;

pub use definition::Process;
pub use enter::enter;
pub(crate) use handler::Run;
pub(crate) use supervised::Commands;

use std::ops::Range;
use std::time::Duration;

/// The exit code of a command whose input is bad: no attempt can succeed (`EX_DATAERR`).
pub const EXIT_FATAL: i32 = 65;
/// The exit code of a command that cannot run now (`EX_TEMPFAIL`).
pub const EXIT_SNOOZE: i32 = 75;
/// How long a job waits whose command cannot run now, unless told otherwise.
pub const SNOOZE_DEFAULT: Duration = Duration::from_secs(30);
/// How long a command that was told to end has for it.
pub const KILL_GRACE: Duration = Duration::from_secs(2);
/// The least memory a command may be limited to: a shell needs about this much to start at all.
pub const MEMORY_MIN: u64 = 8 * 1024 * 1024;
/// Users that nobody else has, for the commands of a host that is root: the range that systemd keeps for
/// users made up on the spot.
pub const USERS: Range<u32> = 61_184..65_520;

/// How long a job is put off when there is no user to run it as.
const USER_WAIT: Duration = Duration::from_secs(1);
/// What reads a line of shell.
const SHELL: &str = "/bin/sh";
