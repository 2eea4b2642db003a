//! Explanations: why a job is not running. Each check creates a cause, reads it, ends it, and reads again.

use crate::rig::{KIND, QUEUE, Rig, assert_code};
use windlass_core::engine::{
    Cause, CauseCode, Change, Configure, Explanation, Hold, OpenSession, Outcome, SessionId,
    SettleItem, WorkerInfo,
};
use windlass_core::limits::{AHEAD_COUNTED_MAX, CLAIM_KINDS_MAX, SESSION_TTL_DEFAULT_MS};
use windlass_core::model::{
    Due, Finish, JobError, KindPatch, Limit, Name, NewJob, QueuePatch, Rate, State,
};
use windlass_core::time::{HOUR_MS, MINUTE_MS};
use windlass_core::{JobId, Timestamp};

/// Opens a session of a worker that reports these queues and kinds.
async fn worker(rig: &Rig, queues: &[&str], kinds: &[&str]) -> SessionId {
    let names = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect();
    let mut info = WorkerInfo::default();
    (info.queues, info.kinds) = (names(queues), names(kinds));
    info.host = Some("host-7".to_owned());
    let open = OpenSession::new("kit").info(info);
    rig.engine().open_session(open).await.expect("open_session").value.id
}

/// Explains a job, which is in the state that the engine reports; every cause must have a text.
async fn why(rig: &Rig, id: JobId) -> Explanation {
    let why = rig.engine().why(id).await.expect("why").value;
    let job = rig.find(id).await.expect("the job exists");
    let lane = (&job.header.queue, &job.header.kind);
    assert_eq!((why.id, (&why.queue, &why.kind), why.state), (id, lane, job.state));
    assert!(!why.causes.is_empty(), "{why:?}");
    for cause in &why.causes {
        assert!(!why.message(cause).is_empty() && !why.way_out(cause).is_empty(), "{cause:?}");
    }
    why
}

/// The codes of all causes, in order.
async fn codes(rig: &Rig, id: JobId) -> Vec<CauseCode> {
    why(rig, id).await.causes.iter().map(|cause| cause.code).collect()
}

/// The cause of a job with this code.
async fn cause(rig: &Rig, id: JobId, code: CauseCode) -> Cause {
    let why = why(rig, id).await;
    why.cause(code).unwrap_or_else(|| panic!("no {code} in {why:#?}")).clone()
}

pub(super) async fn a_job_that_does_not_exist_is_not_found(rig: Rig) {
    let missing = Rig::fresh_id();
    let error = assert_code(rig.engine().why(missing).await, "not_found");
    assert!(error.to_string().contains(&missing.to_string()), "{error}");
    let id = rig.dead(Rig::job()).await;
    assert_eq!(codes(&rig, id).await, [CauseCode::Ended]);
    rig.change(id, Change::Discard).await;
    assert_code(rig.engine().why(id).await, "not_found");
}

pub(super) async fn a_job_that_is_not_due_says_until_when(rig: Rig) {
    worker(&rig, &[QUEUE], &[KIND]).await;
    let id = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    let due = rig.get(id).await.header.run_at;
    assert_eq!(codes(&rig, id).await, [CauseCode::NotDue]);
    let cause = cause(&rig, id, CauseCode::NotDue).await;
    assert_eq!((cause.until, cause.error), (Some(due), None));
    rig.change(id, Change::Promote).await;
    assert_eq!(codes(&rig, id).await, [CauseCode::InLine]);
}

pub(super) async fn a_job_that_failed_says_when_it_is_retried_and_why_it_failed(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let error = JobError::new("e", "the disk is full");
    rig.settle(&job, Outcome::Retry { error: error.clone(), delay_ms: Some(HOUR_MS) }).await;
    let due = rig.get(id).await.header.run_at;
    let cause = cause(&rig, id, CauseCode::NotDue).await;
    assert_eq!((cause.until, cause.error), (Some(due), Some(error)));
}

pub(super) async fn a_job_that_is_due_and_not_promoted_says_so(rig: Rig) {
    let id = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    let due = rig.get(id).await.header.run_at;
    rig.advance(MINUTE_MS);
    let found = why(&rig, id).await;
    // A claim or a read of some engines may promote due jobs.
    if found.state == State::Scheduled {
        assert_eq!(found.causes[0].code, CauseCode::NotPromoted);
        assert_eq!(found.causes[0].since, Some(due));
    }
    rig.pass(0).await;
    assert_eq!(codes(&rig, id).await.last(), Some(&CauseCode::InLine));
}

pub(super) async fn a_paused_job_says_so(rig: Rig) {
    let id = rig.enqueue_one().await;
    let later = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    rig.advance(5);
    let now = rig.now().await;
    for id in [id, later] {
        rig.change(id, Change::Pause).await;
    }
    assert_eq!(codes(&rig, id).await, [CauseCode::JobPaused]);
    assert_eq!(cause(&rig, id, CauseCode::JobPaused).await.since, Some(now));
    assert_eq!(codes(&rig, later).await, [CauseCode::JobPaused, CauseCode::NotDue]);
    rig.change(id, Change::Resume).await;
    assert!(!codes(&rig, id).await.contains(&CauseCode::JobPaused));
}

pub(super) async fn a_paused_queue_and_a_paused_kind_are_both_named(rig: Rig) {
    use CauseCode::{InLine, KindPaused, NotDue, QueuePaused};
    worker(&rig, &[QUEUE], &[KIND]).await;
    let id = rig.enqueue_one().await;
    let later = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(true))).await;
    rig.configure(Configure::kind(KIND, KindPatch::paused(true))).await;
    assert_eq!(codes(&rig, id).await, [QueuePaused, KindPaused, InLine]);
    assert_eq!(codes(&rig, later).await, [NotDue, QueuePaused, KindPaused]);
    rig.assert_nothing_to_claim().await;
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(false))).await;
    assert_eq!(codes(&rig, id).await, [KindPaused, InLine]);
    rig.configure(Configure::kind(KIND, KindPatch::paused(false))).await;
    assert_eq!(codes(&rig, id).await, [InLine]);
}

pub(super) async fn a_kind_without_permits_is_named_with_its_permits(rig: Rig) {
    worker(&rig, &[QUEUE], &[KIND]).await;
    let ids = rig.enqueue_all(vec![Rig::job(); 3]).await;
    let permit = |permits| Configure::kind(KIND, KindPatch::permits(permits));
    rig.configure(permit(Some(0))).await;
    assert_eq!(codes(&rig, ids[0]).await, [CauseCode::Permits, CauseCode::InLine]);
    assert_eq!(cause(&rig, ids[0], CauseCode::Permits).await.permits, Some(0));
    // Two may start: the jobs ahead of the third use the permits up.
    rig.configure(permit(Some(2))).await;
    assert_eq!(codes(&rig, ids[1]).await, [CauseCode::InLine]);
    let cause = cause(&rig, ids[2], CauseCode::Permits).await;
    assert_eq!((cause.permits, cause.ahead), (Some(2), Some(2)));
    rig.configure(permit(None)).await;
    assert_eq!(codes(&rig, ids[2]).await, [CauseCode::InLine]);
}

/// Claims a job, snoozes it and holds something for one minute; returns the end of the hold.
async fn hold(rig: &Rig, hold: Hold) -> Timestamp {
    let session = rig.long_session().await;
    let job = rig.take_one(&session).await;
    let snooze = Outcome::Snooze { delay_ms: HOUR_MS };
    let item = SettleItem::new(job.header.id, job.lease.clone(), snooze).hold(hold);
    rig.try_settle(item).await.expect("settle");
    rig.now().await.plus(MINUTE_MS)
}

pub(super) async fn a_held_queue_says_until_when(rig: Rig) {
    if !rig.can_limit().await {
        return;
    }
    rig.enqueue_one().await;
    let until = hold(&rig, Hold::queue(MINUTE_MS)).await;
    let id = rig.enqueue_one().await;
    assert_eq!(cause(&rig, id, CauseCode::QueueHeld).await.until, Some(until));
    rig.assert_nothing_to_claim().await;
    rig.advance(MINUTE_MS);
    assert_eq!(codes(&rig, id).await, [CauseCode::InLine]);
    assert_eq!(rig.drain(1).await, [id]);
}

pub(super) async fn a_full_limit_over_all_jobs_is_named_with_its_numbers(rig: Rig) {
    if !rig.limited(Limit::max_running(2)).await {
        return;
    }
    let ids = rig.enqueue_all(vec![Rig::job(); 3]).await;
    assert_eq!(codes(&rig, ids[2]).await, [CauseCode::NoWorker, CauseCode::InLine]);
    let session = rig.session().await;
    let jobs = rig.take(&session, 3).await;
    assert_eq!(codes(&rig, ids[2]).await, [CauseCode::Limit, CauseCode::InLine]);
    let limit = cause(&rig, ids[2], CauseCode::Limit).await;
    assert_eq!((limit.limit.as_deref(), limit.group), (Some("l"), None));
    assert_eq!((limit.running, limit.max_running, limit.until), (Some(2), Some(2), None));
    rig.settle(&jobs[0], Outcome::DONE).await;
    assert_eq!(codes(&rig, ids[2]).await, [CauseCode::InLine]);
}

pub(super) async fn a_spent_rate_says_when_it_allows_the_next_start(rig: Rig) {
    if !rig.limited(Limit::default().rate(Rate::window(3, MINUTE_MS))).await {
        return;
    }
    let session = rig.long_session().await;
    rig.enqueue(Rig::job().cost(2)).await;
    rig.take_one(&session).await;
    let opens_at = rig.now().await.plus(MINUTE_MS);
    let id = rig.enqueue(Rig::job().cost(2)).await;
    let limit = cause(&rig, id, CauseCode::Limit).await;
    assert_eq!((limit.tokens, limit.cost), (Some(1), Some(2)));
    assert_eq!((limit.until, limit.max_running), (Some(opens_at), None));
    rig.advance(MINUTE_MS);
    assert_eq!(codes(&rig, id).await, [CauseCode::InLine]);
    assert_eq!(rig.take_one(&session).await.header.id, id);
}

pub(super) async fn a_held_limit_says_until_when(rig: Rig) {
    if !rig.limited(Limit::max_running(9)).await {
        return;
    }
    rig.enqueue_one().await;
    let until = hold(&rig, Hold::limit("l", MINUTE_MS)).await;
    let id = rig.enqueue_one().await;
    let held = cause(&rig, id, CauseCode::LimitHeld).await;
    assert_eq!((held.limit.as_deref(), held.until), (Some("l"), Some(until)));
    rig.advance(MINUTE_MS);
    assert_eq!(codes(&rig, id).await, [CauseCode::InLine]);
}

pub(super) async fn a_full_group_is_named_with_the_first_job_in_its_line(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let session = worker(&rig, &[QUEUE], &[KIND]).await;
    let ids = rig.enqueue_all(vec![Rig::job().group("acme"); 3]).await;
    let other = rig.enqueue(Rig::job().group("other")).await;
    // The first job is ready and takes the only slot of its group.
    assert_eq!(codes(&rig, ids[0]).await, [CauseCode::InLine]);
    assert_eq!(codes(&rig, other).await, [CauseCode::InLine]);
    let job = rig.take_one(&session).await;
    assert_eq!(codes(&rig, ids[1]).await, [CauseCode::Limit]);
    let first = cause(&rig, ids[1], CauseCode::Limit).await;
    assert_eq!((first.limit.as_deref(), first.group.as_deref()), (Some("l"), Some("acme")));
    assert_eq!((first.running, first.max_running, first.holder), (Some(1), Some(1), None));
    let second = cause(&rig, ids[2], CauseCode::Limit).await;
    assert_eq!((second.holder, second.holder_state), (Some(ids[1]), Some(State::Blocked)));
    rig.settle(&job, Outcome::DONE).await;
    assert_eq!(codes(&rig, ids[1]).await, [CauseCode::InLine]);
    assert_eq!(cause(&rig, ids[2], CauseCode::Limit).await.holder, None);
}

pub(super) async fn the_rate_of_a_group_says_when_its_line_opens(rig: Rig) {
    if !rig.limited(Limit::default().rate(Rate::window(1, MINUTE_MS)).by_group()).await {
        return;
    }
    let session = rig.long_session().await;
    let ids = rig.enqueue_all(vec![Rig::job().group("acme"); 2]).await;
    rig.take_one(&session).await;
    let opens_at = rig.now().await.plus(MINUTE_MS);
    let limit = cause(&rig, ids[1], CauseCode::Limit).await;
    assert_eq!((limit.until, limit.tokens), (Some(opens_at), Some(0)));
    rig.pass(MINUTE_MS).await;
    assert_eq!(codes(&rig, ids[1]).await, [CauseCode::InLine]);
}

pub(super) async fn the_holder_of_an_ordering_key_is_named_with_its_state(rig: Rig) {
    let session = worker(&rig, &[QUEUE], &[KIND]).await;
    let ids = rig.enqueue_all(vec![Rig::job().key("account-7"); 3]).await;
    assert_eq!(codes(&rig, ids[0]).await, [CauseCode::InLine]);
    assert_eq!(codes(&rig, ids[2]).await, [CauseCode::Key]);
    let key = cause(&rig, ids[2], CauseCode::Key).await;
    assert_eq!(key.key.as_deref(), Some("account-7"));
    assert_eq!((key.holder, key.holder_state), (Some(ids[0]), Some(State::Available)));
    let job = rig.take_one(&session).await;
    let key = cause(&rig, ids[2], CauseCode::Key).await;
    assert_eq!((key.holder, key.holder_state), (Some(ids[0]), Some(State::Running)));
    rig.settle(&job, Outcome::DONE).await;
    assert_eq!(codes(&rig, ids[1]).await, [CauseCode::InLine]);
    assert_eq!(cause(&rig, ids[2], CauseCode::Key).await.holder, Some(ids[1]));
}

pub(super) async fn a_job_that_waits_for_a_signal_says_so(rig: Rig) {
    let session = worker(&rig, &[QUEUE], &[KIND]).await;
    let id = rig.enqueue_one().await;
    let job = rig.take_one(&session).await;
    rig.settle(&job, Outcome::WAIT).await;
    assert_eq!(codes(&rig, id).await, [CauseCode::Signal]);
    rig.change(id, Change::signal("go")).await;
    assert_eq!(codes(&rig, id).await, [CauseCode::InLine]);
}

pub(super) async fn ready_jobs_ahead_are_counted_in_the_order_of_claims(rig: Rig) {
    let session = worker(&rig, &[QUEUE], &[KIND]).await;
    let last = rig.enqueue(Rig::job().priority(9)).await;
    let ids = rig.enqueue_all(vec![Rig::job(); 3]).await;
    // Jobs of other lanes are not counted.
    rig.enqueue_all(vec![NewJob::new("other").queue(QUEUE).priority(-9); 2]).await;
    rig.enqueue(NewJob::new(KIND).queue("elsewhere").priority(-9)).await;
    let ahead = async |id| {
        let cause = cause(&rig, id, CauseCode::InLine).await;
        assert!(!cause.at_least, "{cause:?}");
        (cause.ahead, cause.workers)
    };
    assert_eq!(ahead(ids[0]).await, (Some(0), Some(1)));
    assert_eq!(ahead(ids[2]).await, (Some(2), Some(1)));
    assert_eq!(ahead(last).await, (Some(3), Some(1)));
    rig.take(&session, 4).await;
    assert_eq!(ahead(last).await, (Some(1), Some(1)), "two of them are of another kind");
}

pub(super) async fn the_number_of_jobs_ahead_is_bounded(rig: Rig) {
    let ids = rig.enqueue_all(vec![Rig::job(); AHEAD_COUNTED_MAX + 2]).await;
    let found = cause(&rig, ids[AHEAD_COUNTED_MAX + 1], CauseCode::InLine).await;
    assert_eq!((found.ahead, found.at_least), (Some(AHEAD_COUNTED_MAX as u64), true));
    let found = cause(&rig, ids[AHEAD_COUNTED_MAX - 1], CauseCode::InLine).await;
    assert_eq!((found.ahead, found.at_least), (Some(AHEAD_COUNTED_MAX as u64 - 1), false));
}

pub(super) async fn a_lane_without_a_worker_says_so(rig: Rig) {
    let id = rig.enqueue_one().await;
    assert_eq!(codes(&rig, id).await, [CauseCode::NoWorker, CauseCode::InLine]);
    assert_eq!(cause(&rig, id, CauseCode::NoWorker).await.workers, Some(0));
    worker(&rig, &["elsewhere"], &[KIND]).await;
    assert_eq!(cause(&rig, id, CauseCode::NoWorker).await.workers, Some(0));
    worker(&rig, &["elsewhere", QUEUE], &["other"]).await;
    assert_eq!(cause(&rig, id, CauseCode::NoWorker).await.workers, Some(1), "not of this kind");
    let serving = worker(&rig, &["elsewhere", QUEUE], &["other", KIND]).await;
    assert_eq!(codes(&rig, id).await, [CauseCode::InLine]);
    rig.engine().close_session(serving).await.expect("close_session");
    assert_eq!(codes(&rig, id).await, [CauseCode::NoWorker, CauseCode::InLine]);
    // A worker that sent no names may serve every lane, and so may one that has more kinds than it could send.
    let open = rig.session().await;
    assert_eq!(codes(&rig, id).await, [CauseCode::InLine]);
    rig.engine().close_session(open).await.expect("close_session");
    let kinds: Vec<String> = (0..CLAIM_KINDS_MAX).map(|n| format!("kind-{n}")).collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    worker(&rig, &[QUEUE], &kinds).await;
    assert_eq!(codes(&rig, id).await, [CauseCode::InLine]);
    rig.advance(SESSION_TTL_DEFAULT_MS);
    assert_eq!(codes(&rig, id).await, [CauseCode::NoWorker, CauseCode::InLine], "all expired");
}

pub(super) async fn a_claim_without_a_session_is_no_worker(rig: Rig) {
    let ids = rig.enqueue_all(vec![Rig::job(); 2]).await;
    assert_eq!(rig.claim(Rig::wants_alone(MINUTE_MS, 1)).await.len(), 1);
    assert_eq!(codes(&rig, ids[1]).await, [CauseCode::NoWorker, CauseCode::InLine]);
    let running = cause(&rig, ids[0], CauseCode::Running).await;
    assert_eq!(running.worker.as_deref(), Some("alone"));
    assert_eq!(running.until, Some(rig.now().await.plus(MINUTE_MS)));
}

pub(super) async fn a_running_job_names_its_worker_and_its_lease(rig: Rig) {
    let session = worker(&rig, &[QUEUE], &[KIND]).await;
    let id = rig.enqueue_one().await;
    rig.advance(5);
    let job = rig.take_one(&session).await;
    let ends = rig.get(id).await.running.expect("it runs").expires_at;
    assert_eq!(codes(&rig, id).await, [CauseCode::Running]);
    let running = cause(&rig, id, CauseCode::Running).await;
    assert_eq!((running.worker.as_deref(), running.host.as_deref()), (Some("kit"), Some("host-7")));
    assert_eq!((running.since, running.until), (Some(job.started_at), Some(ends)));
    assert!(!running.cancel_requested);
    rig.change(id, Change::Cancel).await;
    assert!(cause(&rig, id, CauseCode::Running).await.cancel_requested);
    rig.settle(&job, Outcome::DONE).await;
    assert_eq!(codes(&rig, id).await, [CauseCode::Ended]);
}

pub(super) async fn an_ended_job_says_when_and_how_it_ended(rig: Rig) {
    let dead = rig.dead(Rig::job()).await;
    let job = rig.get(dead).await;
    let ended = cause(&rig, dead, CauseCode::Ended).await;
    assert_eq!((ended.since, ended.finish), (job.finished_at, Some(Finish::Failed)));
    assert_eq!(ended.error, job.error);
    let done = rig.enqueue_one().await;
    assert_eq!(rig.drain(1).await, [done]);
    let ended = cause(&rig, done, CauseCode::Ended).await;
    assert_eq!((ended.since, ended.finish), (rig.get(done).await.finished_at, Some(Finish::Completed)));
    let cancelled = rig.enqueue_one().await;
    rig.change(cancelled, Change::Cancel).await;
    let ended = cause(&rig, cancelled, CauseCode::Ended).await;
    assert_eq!(ended.finish, Some(Finish::Cancelled));
    rig.change(cancelled, Change::Replay(Box::default())).await;
    assert_eq!(codes(&rig, cancelled).await.last(), Some(&CauseCode::InLine));
}

pub(super) async fn causes_are_ordered_by_what_blocks_first(rig: Rig) {
    if !rig.limited(Limit::max_running(1)).await {
        return;
    }
    let ids = rig.enqueue_all(vec![Rig::job(); 2]).await;
    let session = worker(&rig, &[QUEUE], &[KIND]).await;
    rig.take_one(&session).await;
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(true))).await;
    rig.configure(Configure::kind(KIND, KindPatch::paused(true))).await;
    rig.configure(Configure::kind(KIND, KindPatch::permits(Some(0)))).await;
    rig.advance(SESSION_TTL_DEFAULT_MS);
    let expected = [
        CauseCode::QueuePaused,
        CauseCode::KindPaused,
        CauseCode::Permits,
        CauseCode::Limit,
        CauseCode::NoWorker,
        CauseCode::InLine,
    ];
    assert_eq!(codes(&rig, ids[1]).await, expected);
}
