//! Calls to the writer, and their replies.

use crate::rows::SqliteRows;
use tokio::sync::{oneshot, watch};
use windlass_core::engine::{Epoch, Stamped, Wait};
use windlass_core::policy::Room;
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::Executor;

pub(crate) type LocalExecutor<'c> = Executor<SqliteRows<'c>>;

/// The guarantee that a call needs before its reply is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// The call writes nothing.
    Read,
    /// Written to the operating system; lost on power failure.
    Written,
    /// Synced to the disk.
    Durable,
}

/// A call in the writer's queue.
pub(crate) trait Call: Send {
    fn needs(&self) -> Needs;
    /// Whether the call enqueues jobs; if so, it is refused while the disk is full.
    fn adds_jobs(&self) -> bool;
    /// Executes the call. Runs again if its transaction failed because of another call.
    fn run(&mut self, executor: &mut LocalExecutor<'_>, now: Timestamp);
    /// Whether the call is a wait that found no job: the writer keeps it and runs it again when jobs become ready.
    fn goes_on(&self) -> bool {
        false
    }
    /// Sends the reply, after the guarantee of [`Call::needs`] is met or the transaction has failed.
    fn answer(self: Box<Self>, outcome: Result<()>, epoch: &Epoch);
}

/// A call whose work is a closure.
pub(crate) struct Request<T, F> {
    pub(crate) needs: Needs,
    pub(crate) adds_jobs: bool,
    pub(crate) act: F,
    pub(crate) done: Option<(Result<T>, Timestamp)>,
    pub(crate) reply: oneshot::Sender<Result<Stamped<T>>>,
}

impl<T, F> Call for Request<T, F>
where
    T: Send,
    F: FnMut(&mut LocalExecutor<'_>, Timestamp) -> Result<T> + Send,
{
    fn needs(&self) -> Needs {
        self.needs
    }

    fn adds_jobs(&self) -> bool {
        self.adds_jobs
    }

    fn run(&mut self, executor: &mut LocalExecutor<'_>, now: Timestamp) {
        self.done = Some(((self.act)(executor, now), now));
    }

    fn answer(self: Box<Self>, outcome: Result<()>, epoch: &Epoch) {
        let Self { done, reply, .. } = *self;
        answer(reply, outcome, done, epoch);
    }
}

/// A wait for ready jobs. The writer keeps it until matching jobs become ready, so that the caller need not poll. A
/// caller whose timeout has passed drops its receiver, which ends the wait.
pub(crate) struct Waiting {
    pub(crate) request: Wait,
    pub(crate) found: Option<(Result<bool>, Timestamp)>,
    /// Milliseconds until a limit opens, if one will.
    pub(crate) opens_in: watch::Sender<Option<u64>>,
    pub(crate) reply: oneshot::Sender<Result<Stamped<bool>>>,
}

impl Call for Waiting {
    fn needs(&self) -> Needs {
        Needs::Read
    }

    fn adds_jobs(&self) -> bool {
        false
    }

    fn run(&mut self, executor: &mut LocalExecutor<'_>, now: Timestamp) {
        let ready = executor.readiness(&self.request, now);
        let opens_in = match ready {
            Ok(Room::At(at)) => Some(at.since(now).max(1)),
            _ => None,
        };
        self.opens_in.send_replace(opens_in);
        self.found = Some((ready.map(Room::is_now), now));
    }

    fn goes_on(&self) -> bool {
        let found_none = matches!(self.found, Some((Ok(false), _)));
        found_none && self.request.wait_ms > 0 && !self.reply.is_closed()
    }

    fn answer(self: Box<Self>, outcome: Result<()>, epoch: &Epoch) {
        let Self { found, reply, .. } = *self;
        answer(reply, outcome, found, epoch);
    }
}

/// Sends the reply: the error of the transaction, or else the result of the call.
fn answer<T>(
    reply: oneshot::Sender<Result<Stamped<T>>>,
    outcome: Result<()>,
    done: Option<(Result<T>, Timestamp)>,
    epoch: &Epoch,
) {
    let answer = match (outcome, done) {
        (Ok(()), Some((result, now))) => {
            result.map(|value| Stamped { now, epoch: epoch.clone(), value })
        }
        (Ok(()), None) => Err(closed()),
        (Err(error), _) => Err(error),
    };
    // The caller may have dropped its receiver; the transaction is committed regardless.
    let _ = reply.send(answer);
}

/// The error of calls on a closed store.
pub(crate) fn closed() -> Error {
    Error::Unavailable { store: "the local store".into(), reason: "it was closed".into() }
}
