//! After the last kill: lets every lease expire and completes the remaining jobs.

use crate::support::{QUEUE, maintain};
use crate::worker::came_whole;
use std::sync::Arc;
use windlass_core::engine::{
    Admin as _, Change, ChangeItem, Claim, Claimant, Engine, Filter, Jobs as _, List, OpenSession,
    Outcome, Settle, SettleItem, StatsRequest,
};
use windlass_core::limits::{
    BACKOFF_BASE_DEFAULT_MS, BACKOFF_JITTER_DEFAULT_MS, CLAIM_BATCH_MAX, CRASH_BACKOFF_CAP_MS,
    PAGE_MAX,
};
use windlass_core::model::State;
use windlass_core::time::{MINUTE_MS, ManualClock};
use windlass_kit::history::{Journal, Recorded};

/// Client number of the drain in the journal.
const CLIENT: u32 = u32::MAX;
/// Rounds after which the drain gives up.
const ROUNDS_MAX: u32 = 400;
/// Time per round: longer than sessions, backoffs and delays.
const STEP_MS: u64 =
    BACKOFF_BASE_DEFAULT_MS + BACKOFF_JITTER_DEFAULT_MS + CRASH_BACKOFF_CAP_MS + MINUTE_MS;

/// Completes all jobs that can be completed. Returns the number of jobs it started.
pub(crate) async fn drain(
    engine: Arc<dyn Engine>,
    clock: &ManualClock,
    journal: Arc<dyn Journal>,
) -> usize {
    let recorded = Recorded::new(engine.clone(), journal, CLIENT);
    let (mut done, mut idle) = (0, 0);
    for _ in 0..ROUNDS_MAX {
        clock.advance(STEP_MS);
        maintain(&*engine).await;
        signal_all(&recorded).await;
        let now = complete_all(&recorded).await;
        done += now;
        idle = if now == 0 { idle + 1 } else { 0 };
        if idle == 2 {
            break;
        }
    }
    let stats = engine.stats(StatsRequest::queue(QUEUE)).await.expect("stats").value;
    let left: u64 = stats.iter().map(|lane| lane.depth() + lane.running).sum();
    assert_eq!(left, 0, "the drain came to a standstill: {stats:?}");
    done
}

/// Signals every blocked job.
async fn signal_all(engine: &Recorded) {
    let mut after = None;
    loop {
        let filter = Filter::state(State::Blocked).queue(QUEUE);
        let page = engine.list(List::new(filter).limit(PAGE_MAX).after(after)).await;
        let page = page.expect("list").value;
        let signals =
            page.rows.iter().map(|job| ChangeItem::new(job.header.id, Change::signal("go")));
        let signals: Vec<ChangeItem> = signals.collect();
        if !signals.is_empty() {
            // A job that waits for its ordering key keeps the signal for later, or refuses it.
            engine.change(signals).await.expect("change");
        }
        after = page.next;
        if after.is_none() {
            return;
        }
    }
}

async fn complete_all(engine: &Recorded) -> usize {
    let session = engine.open_session(OpenSession::new("drain")).await;
    let session = session.expect("open_session").value.id;
    let mut done = 0;
    for claim_no in 1.. {
        let by = Claimant::Session { session: session.clone(), claim_no };
        let claim = Claim::new(by, QUEUE, CLAIM_BATCH_MAX);
        let jobs = engine.claim(claim).await.expect("claim").value.jobs;
        if jobs.is_empty() {
            break;
        }
        done += jobs.len();
        assert!(jobs.iter().all(came_whole), "a job came without its payload");
        let items = jobs.into_iter();
        let items = items.map(|job| SettleItem::new(job.header.id, job.lease, Outcome::DONE));
        for item in engine.settle(Settle::new(items)).await.expect("settle").value.items {
            item.expect("no other worker can take the lease");
        }
    }
    engine.close_session(session).await.expect("close_session");
    done
}
