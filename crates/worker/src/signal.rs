//! The stop signal of a running handler, with its causes. Lock-free to read; independent of jobs.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;

/// Why a handler should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The lease is lost: the job has been given to another worker or has ended.
    LeaseLost,
    /// The job was cancelled.
    Operator,
    /// The job exceeded its timeout.
    Timeout,
    /// The worker is shutting down and its grace time is over.
    Shutdown,
}

impl Cause {
    /// By precedence: the first one that is set decides the outcome.
    const BY_WEIGHT: [Self; 4] = [Self::LeaseLost, Self::Operator, Self::Timeout, Self::Shutdown];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseLost => "lease lost",
            Self::Operator => "cancelled by an operator",
            Self::Timeout => "timeout",
            Self::Shutdown => "shutdown",
        })
    }
}

/// The causes signalled to a handler. They accumulate: a cancelled job may also lose its lease.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    reported: AtomicU8,
    changed: Notify,
}

/// A set of causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Causes(u8);

impl Causes {
    pub(crate) const fn has(self, cause: Cause) -> bool {
        self.0 & cause.bit() != 0
    }

    /// The cause with the highest precedence, which decides the outcome.
    pub(crate) fn gravest(self) -> Option<Cause> {
        Cause::BY_WEIGHT.into_iter().find(|cause| self.has(*cause))
    }
}

impl Signal {
    /// Signals a cause; `false` if it was signalled before.
    pub(crate) fn send(&self, cause: Cause) -> bool {
        let before = self.reported.fetch_or(cause.bit(), Ordering::AcqRel);
        self.changed.notify_waiters();
        before & cause.bit() == 0
    }

    pub(crate) fn causes(&self) -> Causes {
        Causes(self.reported.load(Ordering::Acquire))
    }

    /// Waits until the causes differ from `seen`.
    pub(crate) async fn changed(&self, seen: Causes) -> Causes {
        loop {
            // Registered before the check, so that no signal is missed in between.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let causes = self.causes();
            if causes != seen {
                return causes;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn causes_add_up_and_the_gravest_decides() {
        let signal = Signal::default();
        assert_eq!(signal.causes().gravest(), None);
        assert!(signal.send(Cause::Shutdown) && !signal.send(Cause::Shutdown));
        let seen = signal.changed(Causes::default()).await;
        assert_eq!(seen.gravest(), Some(Cause::Shutdown));
        signal.send(Cause::LeaseLost);
        assert_eq!(signal.changed(seen).await.gravest(), Some(Cause::LeaseLost));
    }
}
