//! Handlers in any language: a shell command or an HTTP call per job. How commands are run is the
//! worker's; knows jobs only through its context.

mod environment;
mod http;
mod limits;

pub(crate) use environment::Environment;
pub(crate) use http::Http;
pub(crate) use limits::Limits;

/// How exit codes are read, for `--help`.
pub(crate) const HELP: &str = "Handlers:
  --exec   The command gets the payload on stdin and WINDLASS_JOB_ID, WINDLASS_JOB_KIND,
           WINDLASS_JOB_QUEUE, WINDLASS_JOB_ATTEMPT in its environment. Of this worker's environment
           it gets PATH, HOME, USER, LOGNAME, TMPDIR, TZ, LANG, LANGUAGE, LC_*, LD_LIBRARY_PATH and what
           --pass-env names. Its stdout becomes the result (up to 64 KiB), the end of stderr the error.
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
