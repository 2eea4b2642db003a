//! Handlers in any language: a shell command or an HTTP call per job. Commands are run by the worker crate;
//! this module knows jobs only through the handler context.

mod environment;
mod http;
mod limits;
mod listen;

pub(crate) use environment::Environment;
pub(crate) use http::Http;
pub(crate) use limits::Limits;
pub(crate) use listen::{Probes, address, bind, serve};

/// How handlers are called and how their results are interpreted, for `--help`.
pub(crate) const HELP: &str = "Handlers:
  --exec   The command gets the payload on stdin and WINDLASS_JOB_ID, WINDLASS_JOB_KIND,
           WINDLASS_JOB_QUEUE, WINDLASS_JOB_ATTEMPT in its environment. Of this worker's environment
           it gets PATH, HOME, USER, LOGNAME, TMPDIR, TZ, LANG, LANGUAGE, LC_*, LD_LIBRARY_PATH and those that
           --pass-env names. Its stdout becomes the result (up to 64 KiB), the end of stderr the error.
             exit 0    the job is complete
             exit 65   permanent failure: the job is dead at once
             exit 75   temporary: runs again after --snooze, not counted as a failure
             others, and death by a signal: a failure, retried after its backoff
           On timeout, cancellation, or at the end of a drain, its whole process group gets SIGTERM,
           and SIGKILL two seconds later. Processes that it leaves running are killed when it ends,
           including those that have left its group.
  --http   The payload is posted, with the headers windlass-job-id, -kind, -queue and -attempt.
             2xx                the job is complete, the body is its result
             429 + Retry-After  the job's limits, or else its queue, are held for that time; the job waits,
                                which does not count as a failure
             408, 425, 429, 5xx a failure, retried after Retry-After or its backoff
             others             permanent failure: the job is dead at once

Limits apply to each process of a command. --processes-max applies to a user, so root runs such
commands as separate users (61184 to 65519).

SIGTERM or SIGINT drains: running jobs may finish within --grace, then they are stopped and released.
A second signal stops immediately.";
