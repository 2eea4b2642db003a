//! Leader election: one process at a time runs the services. Independent of what they do.
//!
//! The leadership is a record that its holder renews by compare-and-set (`keeper`) and that expires by the
//! store's clock (`claim`). Services watch it through a [`Lead`], which counts the TTL from the time a
//! renewal was *sent*: by its own monotonic clock a leader stops before the store would give the record to
//! another process.

mod claim;
mod keeper;

pub use claim::Leader;
pub(crate) use keeper::Keeper;

use crate::records::get;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use windlass_core::Result;
use windlass_core::engine::Engine;

/// Practically unlimited.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// The current leader of the services of a store.
pub(crate) async fn leader(engine: &dyn Engine) -> Result<Option<Leader>> {
    let seen = get(engine, claim::KEY).await?;
    Ok(seen.value.and_then(|record| claim::leader(&record, seen.now)))
}

/// A term, while it is certainly valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    /// The fencing token: the version of the record when the term began. Every later term has a higher one.
    token: u64,
    /// The time until which the term is certainly valid.
    until: Instant,
}

/// Whether this process leads. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    seen: watch::Receiver<Option<Term>>,
}

impl Lead {
    /// Always leads, with token 0: for services without leader election.
    pub(crate) fn always() -> Self {
        let term = Term { token: 0, until: Instant::now() + FOREVER };
        Self { seen: watch::channel(Some(term)).1 }
    }

    /// The token of the current term, if this process certainly leads.
    pub(crate) fn term(&self) -> Option<u64> {
        let term = *self.seen.borrow();
        term.filter(|term| Instant::now() < term.until).map(|term| term.token)
    }

    /// Whether the term with this token is still valid.
    pub(crate) fn holds(&self, token: u64) -> bool {
        self.term() == Some(token)
    }

    /// Waits until this process leads.
    pub(crate) async fn begun(&mut self) -> u64 {
        loop {
            self.seen.mark_unchanged();
            if let Some(token) = self.term() {
                return token;
            }
            if self.seen.changed().await.is_err() {
                // The keeper is gone, so the leadership can no longer be acquired.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the term with this token has ended or is no longer certain.
    pub(crate) async fn lost(&self, token: u64) {
        let mut seen = self.seen.clone();
        loop {
            let term = *seen.borrow_and_update();
            let Some(until) = term.filter(|term| term.token == token).map(|term| term.until) else {
                return;
            };
            tokio::select! {
                biased;
                // An error means that the keeper is gone: the term ends when it expires.
                Ok(()) = seen.changed() => {}
                () = sleep_until(until) => return,
            }
        }
    }
}
