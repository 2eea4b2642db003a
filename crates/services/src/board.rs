//! The status board: what each service did, for status, counters and log summaries. Independent of how
//! services work.

use metrics::{counter, gauge};
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{info, warn};
use windlass_core::Timestamp;
use windlass_core::sync::lock;

/// Minimum interval between two summary lines of a service.
const SUMMARY_EVERY: Duration = Duration::from_secs(60);

/// The services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServiceName {
    /// Makes due jobs available.
    Promote,
    /// Reclaims jobs of lost sessions.
    Reclaim,
    /// Expires jobs that waited longer than allowed.
    Expire,
    /// Removes ended jobs whose retention is over.
    Retain,
    /// Frees storage space.
    Compact,
    /// Keeps the dead jobs of each queue within its byte limit.
    Trim,
    /// Fires recurring jobs.
    Schedule,
    /// Holds back kinds that keep failing.
    Breaker,
    /// Continues changes of many jobs.
    Bulk,
    /// Samples queue metrics.
    Sample,
}

impl ServiceName {
    /// All services.
    pub const ALL: [Self; 10] = [
        Self::Promote,
        Self::Reclaim,
        Self::Expire,
        Self::Retain,
        Self::Compact,
        Self::Trim,
        Self::Schedule,
        Self::Breaker,
        Self::Bulk,
        Self::Sample,
    ];

    /// The name in options, messages and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Reclaim => "reclaim",
            Self::Expire => "expire",
            Self::Retain => "retain",
            Self::Compact => "compact",
            Self::Trim => "trim",
            Self::Schedule => "schedule",
            Self::Breaker => "breaker",
            Self::Bulk => "bulk",
            Self::Sample => "sample",
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The status of one service in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceStatus {
    /// The service.
    pub name: ServiceName,
    /// Number of successful steps.
    pub runs: u64,
    /// Number of items processed by them.
    pub items: u64,
    /// Number of failed steps.
    pub failures: u64,
    /// Number of failed steps since the last successful one; 0 means healthy.
    pub failing: u64,
    /// Time of the last successful step, by the store's clock.
    pub last_run: Option<Timestamp>,
    /// The latest error. Kept after recovery; `failing` says whether the problem persists.
    pub last_error: Option<String>,
}

/// The status of the services in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The fencing token of the term in which this process leads, if it does.
    pub leader: Option<u64>,
    /// The enabled services.
    pub services: Vec<ServiceStatus>,
}

impl Status {
    /// The status of one service, if it is enabled.
    pub fn service(&self, name: ServiceName) -> Option<&ServiceStatus> {
        self.services.iter().find(|service| service.name == name)
    }
}

/// The status of one service, behind a lock.
#[derive(Debug)]
pub(crate) struct Board(Mutex<Progress>);

#[derive(Debug)]
struct Progress {
    status: ServiceStatus,
    /// Items and steps since the last summary line.
    unsaid: (u64, u64),
    said: Option<Instant>,
}

impl Board {
    pub(crate) fn new(name: ServiceName) -> Self {
        let status = ServiceStatus {
            name,
            runs: 0,
            items: 0,
            failures: 0,
            failing: 0,
            last_run: None,
            last_error: None,
        };
        Self(Mutex::new(Progress { status, unsaid: (0, 0), said: None }))
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.0)
    }

    pub(crate) fn status(&self) -> ServiceStatus {
        self.progress().status.clone()
    }

    /// Records a successful step.
    pub(crate) fn ran(&self, items: u64, now: Timestamp) {
        let mut progress = self.progress();
        let service = progress.status.name.as_str();
        counter!("windlass_service_runs_total", "service" => service).increment(1);
        counter!("windlass_service_items_total", "service" => service).increment(items);
        if progress.status.failing > 0 {
            info!(service, failures = progress.status.failing, "works again");
            gauge!("windlass_service_failing", "service" => service).set(0.0);
        }
        progress.status.failing = 0;
        progress.status.runs += 1;
        progress.status.items += items;
        progress.status.last_run = Some(now);
        progress.unsaid = (progress.unsaid.0 + items, progress.unsaid.1 + 1);
        progress.summarise();
    }

    /// Records a failed step. Returns the number of consecutive failures.
    pub(crate) fn failed(&self, error: String) -> u64 {
        let mut progress = self.progress();
        let service = progress.status.name.as_str();
        counter!("windlass_service_failures_total", "service" => service).increment(1);
        if progress.status.failing == 0 {
            warn!(service, error, "step failed; retrying with backoff");
            gauge!("windlass_service_failing", "service" => service).set(1.0);
        }
        progress.status.failures += 1;
        progress.status.failing += 1;
        progress.status.last_error = Some(error);
        progress.status.failing
    }
}

impl Progress {
    /// Logs a summary if there is something to report and the last summary is old enough.
    fn summarise(&mut self) {
        let quiet = self.said.is_none_or(|said| said.elapsed() >= SUMMARY_EVERY);
        let (items, steps) = self.unsaid;
        // The sampler always has items; a line per minute would carry no information.
        if items == 0 || !quiet || self.status.name == ServiceName::Sample {
            return;
        }
        info!(service = self.status.name.as_str(), items, steps, "work since the last summary");
        self.unsaid = (0, 0);
        self.said = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::sync::Arc;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Captures every logged line.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            write!(self.0, "{}={value:?} ", field.name()).unwrap();
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut line = Line(String::new());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    impl Lines {
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_reports_work_once_a_minute_and_the_start_and_end_of_failures() {
        let lines = Lines::default();
        let _guard = tracing::subscriber::set_default(lines.clone());
        let board = Board::new(ServiceName::Retain);
        board.ran(0, Timestamp::EPOCH);
        assert_eq!(lines.take(), [""; 0], "nothing was done");
        for _ in 0..10 {
            board.ran(5, Timestamp::EPOCH);
        }
        assert_eq!(lines.take().len(), 1);
        tokio::time::advance(SUMMARY_EVERY).await;
        board.ran(0, Timestamp::EPOCH);
        let said = lines.take();
        assert!(said.len() == 1 && said[0].contains("items=45"), "the rest of them: {said:?}");

        for failures in 1..=3 {
            assert_eq!(board.failed("the store is away".into()), failures);
        }
        let said = lines.take();
        assert!(said.len() == 1 && said[0].contains("the store is away"), "{said:?}");
        board.ran(0, Timestamp::EPOCH);
        let said = lines.take();
        assert!(said.len() == 1 && said[0].contains("failures=3"), "{said:?}");
        assert_eq!((board.status().failing, board.status().failures), (0, 3));
    }
}
