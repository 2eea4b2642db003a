//! How an attempt ends: the return values of handlers, and the reasons to stop without completing.
//! Independent of leases, sessions and the runtime.

use serde::Serialize;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;
use windlass_core::engine::Outcome;
use windlass_core::limits::{ERROR_BYTES_MAX, RESULT_BYTES_MAX};
use windlass_core::model::{JobError, NewJob, Part, SignalWait, Step};

/// Error codes used by the runtime. Handlers may use others.
pub mod code {
    /// A retryable error of a handler that has no code of its own.
    pub const ERROR: &str = "error";
    /// A fatal error of a handler that has no code of its own.
    pub const FATAL: &str = "fatal";
    /// The handler panicked.
    pub const PANIC: &str = "panic";
    /// The handler exceeded its timeout.
    pub const TIMEOUT: &str = "timeout";
    /// The payload cannot be read as the type that the handler takes.
    pub const UNREADABLE_PAYLOAD: &str = "unreadable_payload";
    /// The handler's result is too large or cannot be serialized as JSON.
    pub const UNSTORABLE_RESULT: &str = "unstorable_result";
    /// The store permanently refuses the handler's report, e.g. because of an invalid follow-up.
    pub const OUTCOME_REFUSED: &str = "outcome_refused";
    /// A batch handler returned a number of results that differs from the number of jobs.
    pub const BATCH_RESULTS: &str = "batch_results";
    /// A step has the name of another one, or a recorded result that cannot be read as its type.
    pub const STEP_MISMATCH: &str = "step_mismatch";
    /// An extractor did not find its value.
    pub const MISSING_EXTENSION: &str = "missing_extension";
}

/// A boxed error of any type, as created by `?`.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why an attempt ends without completing its job.
///
/// Any error converts into a retry, so that `?` works in handlers; use the constructors for the other
/// reasons. Like `anyhow::Error`, it does not implement `std::error::Error`.
///
/// ```
/// use std::time::Duration;
/// use windlass_worker::Stop;
///
/// async fn deliver(mailbox: &str) -> Result<(), Stop> {
///     let number: u16 = mailbox.parse()?; // any error: try again later
///     match number {
///         0 => Err(Stop::fatal("mailbox 0 does not exist")),
///         1 => Err(Stop::retry("451 try later").code("smtp_451").after(Duration::from_secs(60))),
///         2 => Err(Stop::snooze(Duration::from_secs(3600))),
///         _ => Ok(()),
///     }
/// }
/// ```
pub struct Stop(pub(crate) Why);

/// The reason inside a [`Stop`].
#[derive(Clone, Debug)]
pub(crate) enum Why {
    Retry {
        error: JobError,
        after: Option<Duration>,
    },
    Fatal {
        error: JobError,
    },
    Snooze {
        delay: Duration,
    },
    Cancel {
        reason: String,
    },
    Wait(SignalWait),
    WaitForJobs,
    /// A step waits.
    Suspend(Box<Suspended>),
    Release,
}

/// A step that waits without a slot.
#[derive(Clone, Debug)]
pub(crate) struct Suspended {
    pub(crate) outcome: Outcome,
    /// The step, if it is recorded already.
    pub(crate) step: Option<Step>,
    /// The jobs that it waits for.
    pub(crate) children: Vec<NewJob>,
}

impl Stop {
    /// Suspends the job until a step can go on.
    pub(crate) fn suspend(outcome: Outcome, step: Option<Step>, children: Vec<NewJob>) -> Self {
        Self(Why::Suspend(Box::new(Suspended { outcome, step, children })))
    }

    /// The attempt failed; the job is retried after its backoff while attempts are left.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self(Why::Retry { error: job_error(code::ERROR, &*error.into()), after: None })
    }

    /// The attempt failed and retrying cannot help: the job is dead at once, even if attempts are left.
    pub fn fatal(error: impl Into<BoxError>) -> Self {
        Self(Why::Fatal { error: job_error(code::FATAL, &*error.into()) })
    }

    /// Runs the job again after `delay`. Does not count as a failure.
    pub const fn snooze(delay: Duration) -> Self {
        Self(Why::Snooze { delay })
    }

    /// The job is no longer needed: it ends as cancelled. The reason is added to its log.
    pub fn cancel(reason: impl Into<String>) -> Self {
        Self(Why::Cancel { reason: reason.into() })
    }

    /// Waits until the job receives any signal. A waiting job occupies no slot.
    pub const fn wait() -> Self {
        Self(Why::Wait(SignalWait::ANY))
    }

    /// Waits for one of these signals, at most for a time if the wait has a limit. When the job runs again,
    /// [`Ctx::wake`](crate::Ctx::wake) says which signal arrived.
    pub const fn wait_for(wait: SignalWait) -> Self {
        Self(Why::Wait(wait))
    }

    /// Waits until the jobs that were added with [`Ctx::child`](crate::Ctx::child) have ended. A waiting job occupies no
    /// slot. When it runs again, [`Ctx::inputs`](crate::Ctx::inputs) says how they ended.
    pub const fn wait_for_children() -> Self {
        Self(Why::WaitForJobs)
    }

    /// Releases the job unfinished, without counting a failure; any worker may start it at once.
    pub const fn release() -> Self {
        Self(Why::Release)
    }

    /// Retries after exactly this delay instead of the job's backoff.
    ///
    /// # Panics
    /// If this is not a retry.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        match &mut self.0 {
            Why::Retry { after, .. } => *after = Some(delay),
            other => panic!("Stop::after is for Stop::retry, this is {other:?}"),
        }
        self
    }

    /// Sets an error code to group by, such as `smtp_451`.
    ///
    /// # Panics
    /// If this is neither a retry nor a fatal error.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        match &mut self.0 {
            Why::Retry { error, .. } | Why::Fatal { error } => error.code = code.into(),
            other => panic!("Stop::code is for Stop::retry and Stop::fatal, this is {other:?}"),
        }
        self
    }

    /// The same reason again, for another job of a batch.
    pub(crate) fn same(&self) -> Self {
        Self(self.0.clone())
    }

    /// A failure detected by the runtime.
    pub(crate) const fn failed(error: JobError) -> Self {
        Self(Why::Retry { error, after: None })
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: Into<BoxError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

/// An error with its sources in one line, truncated to the limit of the store.
fn job_error(code: &str, error: &(dyn StdError + 'static)) -> JobError {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source.filter(|_| message.len() < ERROR_BYTES_MAX) {
        let text = cause.to_string();
        // Many errors already include their source in their message; it is not repeated.
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        source = cause.source();
    }
    JobError::new(code, message).bounded()
}

/// The result of a completed job.
#[derive(Clone, Debug, Default)]
pub struct Done(pub(crate) Option<Part>);

impl Done {
    /// Completed without a result.
    pub const NOTHING: Self = Self(None);

    /// Completed with these bytes as the result.
    pub fn bytes(result: impl Into<bytes::Bytes>) -> Self {
        Self(Some(Part::new(result)))
    }

    fn json(result: &impl Serialize) -> Ended {
        let bytes = serde_json::to_vec(result).map_err(|error| {
            Stop::fatal(format!("the result cannot be written as JSON: {error}"))
                .code(code::UNSTORABLE_RESULT)
        })?;
        if bytes.len() > RESULT_BYTES_MAX {
            return Err(Stop::fatal(format!(
                "the result has {} bytes of JSON, the limit is {RESULT_BYTES_MAX}; keep it in \
                 `blob` or elsewhere and return where it is",
                bytes.len()
            ))
            .code(code::UNSTORABLE_RESULT));
        }
        Ok(if bytes == b"null" { Self::NOTHING } else { Self::bytes(bytes) })
    }
}

/// The end of an attempt, as middleware sees it.
pub type Ended = Result<Done, Stop>;

/// The return types of handlers: nothing, or a `Result` with a value that serializes to JSON.
///
/// `()` and `None` store no result; any other value is stored as the job's result.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "return `()` or `Result<R, E>`, with `R: Serialize` and `E` an error or a `Stop`"
)]
pub trait Return {
    /// The type of the job's result.
    type Value;

    /// Converts the return value.
    fn into_ended(self) -> Ended;
}

impl Return for () {
    type Value = ();

    fn into_ended(self) -> Ended {
        Ok(Done::NOTHING)
    }
}

impl<R: Serialize, E: Into<Stop>> Return for Result<R, E> {
    type Value = R;

    fn into_ended(self) -> Ended {
        match self {
            Ok(result) => Done::json(&result),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot send")]
    struct Outer(#[source] std::num::ParseIntError);

    fn why(ended: Ended) -> Why {
        ended.unwrap_err().0
    }

    #[test]
    fn an_error_lists_its_sources_in_one_line() {
        let failed = || -> Result<(), Stop> { Err(Outer("x".parse::<u8>().unwrap_err()))? };
        let Why::Retry { error, after: None } = why(failed().into_ended()) else { panic!() };
        assert_eq!(error.to_string(), "error: cannot send: invalid digit found in string");
    }

    #[test]
    fn an_empty_result_is_not_stored_and_a_value_is_stored_as_json() {
        let kept = |ended: Ended| ended.unwrap().0.map(|part| part.bytes);
        assert_eq!(kept(().into_ended()), None);
        assert_eq!(kept(Ok::<_, Stop>(()).into_ended()), None);
        assert_eq!(kept(Ok::<_, Stop>(None::<u8>).into_ended()), None);
        assert_eq!(kept(Ok::<_, Stop>(vec![1, 2]).into_ended()).unwrap(), "[1,2]");
    }

    #[test]
    fn a_result_that_is_too_large_fails_for_good_and_says_so() {
        let large = Ok::<_, Stop>("x".repeat(RESULT_BYTES_MAX));
        let Why::Fatal { error } = why(large.into_ended()) else { panic!() };
        assert_eq!(error.code, code::UNSTORABLE_RESULT);
        assert!(error.message.contains("65538 bytes"), "{error}");
    }

    #[test]
    #[should_panic(expected = "Stop::after is for Stop::retry")]
    fn a_delay_on_a_fatal_error_is_a_mistake() {
        drop(Stop::fatal("never").after(Duration::from_secs(1)));
    }
}
