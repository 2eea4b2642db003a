//! The section "Why" of a job: why it is not running, and what to do about it.

use crate::dashboard::format::{Clock, Time};
use crate::dashboard::links;
use windlass_core::engine::{Cause, CauseCode, Explanation};

/// A cause, as an item of a list.
pub(super) struct WhyRow {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) way_out: String,
    /// When it began, and when it ends.
    pub(super) times: Vec<(&'static str, Time)>,
    /// Links to what the cause is about.
    pub(super) links: Vec<(String, String)>,
}

/// The causes of a job's state.
pub(super) fn why_rows(why: &Explanation, clock: Clock) -> Vec<WhyRow> {
    let row = |cause: &Cause| {
        let times = [("began", cause.since), ("ends", cause.until)];
        let times = times.into_iter().filter_map(|(label, at)| Some((label, clock.ago(at?))));
        WhyRow {
            code: cause.code.as_str(),
            message: why.message(cause),
            way_out: why.way_out(cause),
            times: times.collect(),
            links: links_of(why, cause),
        }
    };
    why.causes.iter().map(row).collect()
}

fn links_of(why: &Explanation, cause: &Cause) -> Vec<(String, String)> {
    let holder = cause.holder.map(|id| ("that job".to_owned(), links::job(id)));
    let limit = cause.limit.as_ref().map(|name| (format!("limit {name}"), links::limit(name)));
    let concerns_queue = matches!(
        cause.code,
        CauseCode::QueuePaused
            | CauseCode::QueueHeld
            | CauseCode::KindPaused
            | CauseCode::Permits
            | CauseCode::BreakerOpen
    );
    let queue = concerns_queue.then(|| (format!("queue {}", why.queue), links::queue(&why.queue)));
    let concerns_workers = matches!(cause.code, CauseCode::NoWorker | CauseCode::Running);
    let workers = concerns_workers.then(|| ("workers".to_owned(), "/workers".to_owned()));
    let ahead = (cause.code == CauseCode::InLine).then(|| {
        let jobs = links::jobs(Some(&why.queue), Some(&why.kind), Some("available"));
        ("ready jobs".to_owned(), jobs)
    });
    [holder, limit, queue, workers, ahead].into_iter().flatten().collect()
}
