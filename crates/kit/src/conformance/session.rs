//! The liveness of workers: sessions, and claims without one.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use windlass_core::engine::{
    Change, Claimant, Filter, List, OpenSession, Outcome, SessionId, SessionInfo, SettleItem,
    UpdateItem, Work, WorkerInfo,
};
use windlass_core::limits::{
    CLAIM_KINDS_MAX, CLAIM_QUEUES_MAX, CONCURRENCY_MAX, LEASE_MAX_MS, NAME_BYTES_MAX,
    SESSION_TTL_DEFAULT_MS, SESSION_TTL_MAX_MS,
};
use windlass_core::model::{AttemptEnd, State};
use windlass_core::time::MINUTE_MS;

async fn listed(rig: &Rig, session: &SessionId) -> Option<SessionInfo> {
    let sessions = rig.engine().sessions().await.expect("sessions").value;
    sessions.into_iter().find(|info| info.id == *session)
}

async fn close(rig: &Rig, session: &SessionId) {
    rig.engine().close_session(session.clone()).await.expect("close_session");
}

pub(super) async fn an_open_session_is_listed_with_its_label_its_end_and_its_load(rig: Rig) {
    let before = rig.now().await;
    let request = OpenSession::new("mailer-7").ttl_ms(MINUTE_MS);
    let session = rig.engine().open_session(request).await.expect("open_session").value;
    let after = rig.now().await;
    rig.enqueue_all([Rig::job(), Rig::job(), Rig::job()]).await;
    let jobs = rig.take(&session.id, 2).await;
    let info = listed(&rig, &session.id).await.expect("the session is listed");
    assert_eq!((info.worker.as_str(), info.running), ("mailer-7", 2));
    assert_eq!(info.expires_at, session.expires_at);
    assert!((before..=after).contains(&info.opened_at), "{info:?}");
    assert!((before.plus(MINUTE_MS)..=after.plus(MINUTE_MS)).contains(&info.expires_at));
    rig.settle(&jobs[0], Outcome::DONE).await;
    assert_eq!(listed(&rig, &session.id).await.map(|info| info.running), Some(1));
}

/// The description of a worker in these checks.
fn description() -> WorkerInfo {
    let mut info = WorkerInfo::default();
    info.queues = vec![QUEUE.into(), "other".into()];
    info.kinds = vec![KIND.into()];
    info.concurrency = Some(8);
    info.host = Some("host-1".into());
    info.version = Some("1.2.3".into());
    info
}

pub(super) async fn a_session_is_listed_with_its_worker(rig: Rig) {
    let silent = rig.session().await;
    let request = OpenSession::new("w").info(description());
    let session = rig.engine().open_session(request).await.expect("open_session").value.id;
    assert_eq!(listed(&rig, &session).await.map(|info| info.info), Some(description()));
    rig.heartbeat(&session, &[]).await.expect("heartbeat");
    assert_eq!(listed(&rig, &session).await.map(|info| info.info), Some(description()), "and kept");
    let nothing = Some(WorkerInfo::default());
    assert_eq!(listed(&rig, &silent).await.map(|info| info.info), nothing);
}

pub(super) async fn the_description_of_a_worker_is_bounded(rig: Rig) {
    type Edit = fn(&mut WorkerInfo);
    let bad: [(Edit, &str, &str); 6] = [
        (|info| info.queues = vec!["q".into(); CLAIM_QUEUES_MAX + 1], "too_large", "queues"),
        (|info| info.kinds = vec!["k".into(); CLAIM_KINDS_MAX + 1], "too_large", "kinds"),
        (|info| info.kinds = vec!["a b".into()], "invalid", "kinds"),
        (|info| info.concurrency = Some(CONCURRENCY_MAX + 1), "invalid", "concurrency"),
        (|info| info.host = Some("x".repeat(NAME_BYTES_MAX + 1)), "too_large", "host"),
        (|info| info.version = Some(String::new()), "invalid", "version"),
    ];
    for (edit, code, field) in bad {
        let mut info = description();
        edit(&mut info);
        let answer = rig.engine().open_session(OpenSession::new("w").info(info)).await;
        let error = answer.expect_err("this must be refused");
        // A server may name the field by its place in the request, or refuse a list while it reads it.
        assert_eq!(error.code(), code, "{error}");
        assert!(error.field().is_some_and(|named| named.ends_with(field)), "{error}");
    }
}

pub(super) async fn a_running_job_shows_its_worker_and_the_end_of_its_lease(rig: Rig) {
    let request = OpenSession::new("mailer-7").info(description()).ttl_ms(MINUTE_MS);
    let session = rig.engine().open_session(request).await.expect("open_session").value;
    let id = rig.enqueue_one().await;
    assert_eq!(rig.get(id).await.running, None);
    let claimed = rig.take_one(&session.id).await;
    let running = rig.get(id).await.running.expect("it runs");
    assert_eq!((&*running.worker, running.host.as_deref()), ("mailer-7", Some("host-1")));
    assert_eq!((running.attempt, running.expires_at), (1, session.expires_at));
    assert_eq!(running.session, session.id);
    let list = List::new(Filter::default());
    let page = rig.engine().list(list).await.expect("list").value;
    assert_eq!(page.rows[0].running, Some(running), "lists show it, too");
    rig.advance(1_000);
    let kept = rig.heartbeat(&session.id, &[&claimed]).await.expect("heartbeat");
    let running = rig.get(id).await.running.expect("it still runs");
    assert_eq!(running.expires_at, kept.expires_at);
    rig.settle(&claimed, Outcome::Release).await;
    assert_eq!(rig.get(id).await.running, None);
    let alone = rig.claim(Rig::wants_alone(MINUTE_MS, 1)).await;
    let running = rig.get(id).await.running.expect("it runs again");
    assert_eq!((&*running.worker, running.host, running.attempt), ("alone", None, 2));
    assert!(running.expires_at >= alone[0].started_at.plus(MINUTE_MS));
}

pub(super) async fn sessions_with_one_label_are_different_sessions(rig: Rig) {
    let [first, second] = [rig.session().await, rig.session().await];
    assert_ne!(first, second, "equal labels are different sessions");
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let mine = rig.take_one(&first).await;
    let theirs = rig.take_one(&second).await;
    close(&rig, &first).await;
    rig.assert_state(mine.header.id, State::Available).await;
    rig.assert_state(theirs.header.id, State::Running).await;
    rig.settle(&theirs, Outcome::DONE).await;
    rig.assert_sound().await;
}

pub(super) async fn a_session_is_refused_a_length_or_label_beyond_the_limits(rig: Rig) {
    for ttl_ms in [0, 999, SESSION_TTL_MAX_MS + 1] {
        let answer = rig.engine().open_session(OpenSession::new("w").ttl_ms(ttl_ms)).await;
        assert_refused(answer, "invalid", "ttl_ms");
    }
    assert_refused(rig.engine().open_session(OpenSession::new("")).await, "invalid", "worker");
}

pub(super) async fn closing_a_session_releases_what_it_held_at_once(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    close(&rig, &session).await;
    assert_eq!(listed(&rig, &session).await, None);
    let other = rig.session().await;
    let again = rig.take_one(&other).await;
    assert_eq!((again.header.id, again.header.counters.attempt), (id, 2));
    assert_eq!((again.header.counters.crashes, again.header.counters.failures), (0, 0));
    assert_eq!(rig.get(id).await.history[0].end, AttemptEnd::Release);
    rig.assert_sound().await;
}

pub(super) async fn closing_a_session_ends_what_was_to_be_cancelled(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    rig.change(id, Change::Cancel).await;
    close(&rig, &session).await;
    rig.assert_state(id, State::Cancelled).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn closing_a_session_that_is_gone_is_fine(rig: Rig) {
    let session = rig.session().await;
    close(&rig, &session).await;
    close(&rig, &session).await;
    close(&rig, &SessionId::new("never-opened")).await;
}

pub(super) async fn a_session_that_is_gone_can_neither_claim_nor_live_on(rig: Rig) {
    let id = rig.enqueue_one().await;
    let closed = rig.session().await;
    close(&rig, &closed).await;
    let reclaimed = rig.session().await;
    rig.pass(SESSION_TTL_DEFAULT_MS + 1_000).await;
    assert_eq!(listed(&rig, &reclaimed).await, None, "an idle session is reclaimed as well");
    for gone in [closed, reclaimed, SessionId::new("never-opened")] {
        assert_code(rig.engine().claim(rig.wants(&gone, 1)).await, "session_lost");
        assert_code(rig.heartbeat(&gone, &[]).await, "session_lost");
    }
    rig.assert_state(id, State::Available).await;
}

pub(super) async fn a_session_that_ran_out_can_still_report_until_it_is_reclaimed(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 2).await;
    rig.advance(10 * SESSION_TTL_DEFAULT_MS);
    let item = UpdateItem::new(jobs[0].header.id, jobs[0].lease.clone()).progress(1, None, "on");
    rig.update(item).await.expect("an update");
    rig.settle(&jobs[0], Outcome::DONE).await;
    rig.settle(&jobs[1], Outcome::retry("late", "but here")).await;
    rig.maintain(Work::Reclaim).await;
    rig.assert_state(jobs[0].header.id, State::Completed).await;
    let second = rig.get(jobs[1].header.id).await;
    assert_eq!((second.header.counters.failures, second.header.counters.crashes), (1, 0));
    rig.assert_sound().await;
}

pub(super) async fn a_session_that_ran_out_is_revived_by_a_heartbeat(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    rig.advance(10 * SESSION_TTL_DEFAULT_MS);
    let reply = rig
        .heartbeat(&session, &[&job])
        .await
        .expect("an outage of the store does not end sessions");
    assert!(reply.lost.is_empty() && reply.expires_at > rig.now().await, "{reply:?}");
    rig.maintain(Work::Reclaim).await;
    rig.assert_state(id, State::Running).await;
    rig.settle(&job, Outcome::DONE).await;
}

pub(super) async fn a_claim_without_a_session_lasts_as_long_as_its_lease(rig: Rig) {
    rig.advance(LEASE_MAX_MS);
    let id = rig.enqueue_one().await;
    let jobs = rig.claim(Rig::wants_alone(10 * MINUTE_MS, 1)).await;
    assert_eq!(jobs[0].header.id, id);
    rig.pass(9 * MINUTE_MS).await;
    rig.assert_state(id, State::Running).await;
    rig.pass(2 * MINUTE_MS).await;
    rig.pass(MINUTE_MS).await;
    let session = rig.session().await;
    let again = rig.take_one(&session).await;
    assert_eq!((again.header.counters.attempt, again.header.counters.crashes), (2, 1));
    let stale = SettleItem::new(id, jobs[0].lease.clone(), Outcome::DONE);
    assert_code(rig.try_settle(stale).await, "lease_lost");
}

pub(super) async fn a_claim_without_a_session_can_be_settled(rig: Rig) {
    let id = rig.enqueue_one().await;
    let jobs = rig.claim(Rig::wants_alone(MINUTE_MS, 1)).await;
    rig.settle(&jobs[0], Outcome::DONE).await;
    rig.assert_state(id, State::Completed).await;
    assert_eq!(rig.get(id).await.history[0].worker, "alone", "the label of the claim");
    rig.pass(2 * MINUTE_MS).await;
    rig.assert_state(id, State::Completed).await;
    rig.assert_sound().await;
}

pub(super) async fn extending_a_lease_keeps_the_whole_claim_alive(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let jobs = rig.claim(Rig::wants_alone(10 * MINUTE_MS, 2)).await;
    for _ in 0..5 {
        rig.pass(8 * MINUTE_MS).await;
        let item = UpdateItem::new(jobs[0].header.id, jobs[0].lease.clone());
        rig.update(item.extend_ms(10 * MINUTE_MS)).await.expect("an extension");
    }
    for job in &jobs {
        rig.settle(job, Outcome::DONE).await;
    }
}

pub(super) async fn a_sessions_lease_cannot_be_extended_alone(rig: Rig) {
    rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let item = UpdateItem::new(job.header.id, job.lease.clone()).extend_ms(MINUTE_MS);
    assert_refused(rig.update(item).await, "invalid", "extend_ms");
    rig.settle(&job, Outcome::DONE).await;
}

pub(super) async fn a_lease_beyond_the_limits_is_refused(rig: Rig) {
    let id = rig.enqueue_one().await;
    for lease_ms in [0, 999, LEASE_MAX_MS + 1] {
        let answer = rig.engine().claim(Rig::wants_alone(lease_ms, 1)).await;
        assert_refused(answer, "invalid", "lease_ms");
    }
    let mut nameless = Rig::wants_alone(MINUTE_MS, 1);
    if let Claimant::Alone { worker, .. } = &mut nameless.by {
        worker.clear();
    }
    assert_refused(rig.engine().claim(nameless).await, "invalid", "worker");
    rig.assert_state(id, State::Available).await;
}
