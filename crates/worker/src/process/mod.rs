//! Commands as handlers: programs in any language, each job in its own processes, with resource limits, and
//! with all processes killed at the end. Unix only; processes that left their process group are found on
//! Linux only.
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
//! # Input of a command
//!
//! The payload on stdin, and in its environment `WINDLASS_JOB_ID`, `WINDLASS_JOB_KIND`, `WINDLASS_JOB_QUEUE`,
//! `WINDLASS_JOB_ATTEMPT` and, if there is a trace ([`Ctx::trace`](crate::Ctx::trace)), `TRACEPARENT`. Of the
//! host's environment it gets paths, user, locale and time zone, and no other variable unless
//! [`Process::env`] or [`Process::pass_env`] names it, because the output of a command becomes the result of
//! its job.
//!
//! # Outcome of a job
//!
//! | the command ends with | the job |
//! |---|---|
//! | exit code 0 | is completed; stdout is the result, if it has at most 64 KiB, and the last lines of stderr are added to its log |
//! | exit code 65 ([`EXIT_FATAL`]) | is dead at once, code `exit_65` |
//! | exit code 75 ([`EXIT_SNOOZE`]) | runs again after [`Process::snooze`]; does not count as a failure |
//! | any other exit code | has failed, code `exit_N`; the end of stderr is the error |
//! | a signal | has failed, code `signal_N` |
//! | nothing, because it exceeds its timeout | has failed, code `timeout` |
//!
//! # How a command is stopped
//!
//! When it times out, is cancelled, or at the end of a drain, its whole process group gets SIGTERM, and
//! SIGKILL [`KILL_GRACE`] later. Processes that it leaves running are killed when it ends, including those
//! that left its process group. If the host dies, all of them are killed at once.
//!
//! # Implementation
//!
//! The host executes its own program again as the command's **supervisor**; [`enter`] detects this. The
//! supervisor executes the program once more; that process applies the limits to itself and becomes the
//! command. All descendants of a supervisor belong to its command: on Linux, orphans become children of the
//! supervisor. So the host's own children are never touched, processes of different commands are never
//! confused, and a supervisor whose connection to the host is closed kills all its descendants. In process
//! lists, both are called `windlass-process`, followed by the command.

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

/// Exit code for invalid input: no attempt can succeed (`EX_DATAERR`).
pub const EXIT_FATAL: i32 = 65;
/// Exit code for a command that cannot run now (`EX_TEMPFAIL`).
pub const EXIT_SNOOZE: i32 = 75;
/// Default delay of a job whose command cannot run now.
pub const SNOOZE_DEFAULT: Duration = Duration::from_secs(30);
/// Time between SIGTERM and SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_secs(2);
/// Minimum memory limit of a command: a shell needs about this much to start.
pub const MEMORY_MIN: u64 = 8 * 1024 * 1024;
/// User ids for commands of a host that runs as root: the range that systemd reserves for dynamic users, so
/// that no other user has them.
pub const USERS: Range<u32> = 61_184..65_520;

/// Delay of a job when no user id is free to run it as.
const USER_WAIT: Duration = Duration::from_secs(1);
/// The shell that runs command lines.
const SHELL: &str = "/bin/sh";
