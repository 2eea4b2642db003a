//! Leadership: one process at a time does the work. It must not know what the work is.
//!
//! It is a record that its holder renews by compare-and-set (`keeper`), judged by the store's clock
//! (`claim`). Whoever works watches it through a [`Lead`], which believes in a renewal only for
//! the time to live counted from the moment the renewal was *sent*: by its own steady clock it gives
//! up before the store would give the record to another.

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

/// As good as for ever.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// Who leads the services of a store at present.
pub(crate) async fn leader(engine: &dyn Engine) -> Result<Option<Leader>> {
    let seen = get(engine, claim::KEY).await?;
    Ok(seen.value.and_then(|record| claim::leader(&record, seen.now)))
}

/// A term as long as it is sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    /// The fencing token: the version of the record when the term began. Every later term has a
    /// higher one.
    token: u64,
    /// Until when it is sure.
    until: Instant,
}

/// Whether this process leads. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    seen: watch::Receiver<Option<Term>>,
}

impl Lead {
    /// Leads always, under token 0: for services without a leadership.
    pub(crate) fn always() -> Self {
        let term = Term { token: 0, until: Instant::now() + FOREVER };
        Self { seen: watch::channel(Some(term)).1 }
    }

    /// The token of the present term, if this process is sure to lead.
    pub(crate) fn term(&self) -> Option<u64> {
        let term = *self.seen.borrow();
        term.filter(|term| Instant::now() < term.until).map(|term| term.token)
    }

    /// Whether the term with this token is not over.
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
                // Nobody is left who could win it.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the term with this token is over, or not sure any more.
    pub(crate) async fn lost(&self, token: u64) {
        let mut seen = self.seen.clone();
        loop {
            let term = *seen.borrow_and_update();
            let Some(until) = term.filter(|term| term.token == token).map(|term| term.until) else {
                return;
            };
            tokio::select! {
                biased;
                // An error means that nobody renews it: it lasts as long as it does.
                Ok(()) = seen.changed() => {}
                () = sleep_until(until) => return,
            }
        }
    }
}
