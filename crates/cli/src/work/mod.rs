//! Handlers in any language: a shell command or an HTTP call per job. Knows jobs only through the
//! worker's context.

mod child;
mod exec;
mod http;
mod limits;
mod orphans;
mod pipes;
mod users;
mod watcher;

pub(crate) use child::Reaper;
pub(crate) use exec::Exec;
pub(crate) use http::Http;
pub(crate) use limits::Limits;
pub(crate) use orphans::Orphanage;
pub(crate) use users::Users;
pub(crate) use watcher::{Watcher, watch};

/// This program's own file, to start it again. On Linux by a name that still works when the file was
/// replaced by a newer one, or lies where a user that was dropped to may not look.
pub(crate) fn this_program() -> std::io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// How exit codes are read, for `--help`.
pub(crate) const HELP: &str = "Handlers:
  --exec   The command gets the payload on stdin and WINDLASS_JOB_ID, WINDLASS_JOB_KIND,
           WINDLASS_JOB_QUEUE, WINDLASS_JOB_ATTEMPT in its environment. What it writes to stdout
           becomes the result (up to 64 KiB), the end of stderr the error.
             exit 0    the job is complete
             exit 65   it can never succeed: dead at once
             exit 75   not now: again after --snooze, no failure counted
             others, and death by a signal: a failure, tried again after its backoff
           Out of time, cancelled, or at the end of a drain, its whole process group gets SIGTERM,
           and SIGKILL two seconds later. Whatever it leaves running is killed at its end, also
           what has left its group.
  --http   The payload is posted, with the headers windlass-job-id, -kind, -queue and -attempt.
             2xx                the job is complete, the body is its result
             408, 425, 429, 5xx a failure, tried again after Retry-After or its backoff
             others             it can never succeed: dead at once

Limits hold for each process of a command; --processes-max for each user, which is why root runs such
commands as users of their own (61184 to 65519).

SIGTERM or SIGINT drains: running jobs may finish within --grace, then they are stopped and given back.
A second signal stops at once.";
