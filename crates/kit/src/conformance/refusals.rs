//! Invalid or too large requests of all verbs except enqueue: refused with the field, nothing changed.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use bytes::Bytes;
use windlass_core::engine::*;
use windlass_core::limits::*;
use windlass_core::model::*;
use windlass_core::policy::Retention;
use windlass_core::{JobId, Result, Timestamp};

pub(super) async fn a_claim_out_of_bounds_is_refused_and_takes_nothing(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let mut no_queues = rig.wants(&session, 1);
    no_queues.queues.clear();
    let mut no_kinds = rig.wants(&session, 1);
    no_kinds.kinds = Some(Vec::new());
    let queues = |n| (0..n).fold(rig.wants(&session, 1), |claim, n| claim.queue(format!("{n}"), 1));
    let kinds = |n| (0..n).fold(rig.wants(&session, 1), |claim, n| claim.kind(format!("{n}"), 1));
    let bad = [
        (rig.wants(&session, 0), "invalid", "limit"),
        (rig.wants(&session, CLAIM_BATCH_MAX + 1), "invalid", "limit"),
        (rig.wants(&session, u32::MAX), "invalid", "limit"),
        (no_queues, "invalid", "queues"),
        (no_kinds, "invalid", "kinds"),
        (queues(CLAIM_QUEUES_MAX), "too_large", "queues"),
        (kinds(CLAIM_KINDS_MAX + 1), "too_large", "kinds"),
        (rig.wants(&session, 1).queue("bad queue", 1), "invalid", "queues"),
        (rig.wants(&session, 1).queue(QUEUE, 1), "invalid", "queues"),
        (rig.wants(&session, 1).kind("k", 1).kind("k", 2), "invalid", "kinds"),
        (rig.wants(&session, 1).queue(long, 1), "too_large", "queues"),
        (rig.wants(&session, 1).kind("bad\0kind", 1), "invalid", "kinds"),
        (Rig::wants_alone(LEASE_MIN_MS - 1, 1), "invalid", "lease_ms"),
        (Rig::wants_alone(LEASE_MAX_MS + 1, 1), "invalid", "lease_ms"),
        (alone(ClaimId::new(""), "w"), "invalid", "claim_id"),
        (alone(ClaimId::new("x".repeat(CLAIM_ID_BYTES_MAX + 1)), "w"), "too_large", "claim_id"),
        (alone(ClaimId::new("c"), ""), "invalid", "worker"),
        (alone(ClaimId::new("c"), "a\nb"), "invalid", "worker"),
    ];
    for (claim, code, field) in bad {
        assert_refused(rig.engine().claim(claim).await, code, field);
    }
    let most = kinds(CLAIM_KINDS_MAX - 1).kind(KIND, 1);
    assert_eq!(rig.claim(most).await[0].header.id, id, "a request at the limit is accepted");
}

pub(super) async fn a_session_out_of_bounds_is_refused(rig: Rig) {
    let open = |worker: &str, ttl_ms| OpenSession::new(worker).ttl_ms(ttl_ms);
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let bad = [
        (open("w", 0), "invalid", "ttl_ms"),
        (open("w", SESSION_TTL_MIN_MS - 1), "invalid", "ttl_ms"),
        (open("w", SESSION_TTL_MAX_MS + 1), "invalid", "ttl_ms"),
        (open("", SESSION_TTL_MIN_MS), "invalid", "worker"),
        (open("a\0b", SESSION_TTL_MIN_MS), "invalid", "worker"),
        (open(&long, SESSION_TTL_MIN_MS), "too_large", "worker"),
    ];
    for (request, code, field) in bad {
        assert_refused(rig.engine().open_session(request).await, code, field);
    }
    let sessions = rig.engine().sessions().await.expect("sessions").value;
    assert!(sessions.is_empty(), "{sessions:?}");
    for ttl_ms in [SESSION_TTL_MIN_MS, SESSION_TTL_MAX_MS] {
        rig.engine().open_session(open("Zürich ☂", ttl_ms)).await.expect("open_session");
    }
}

pub(super) async fn a_heartbeat_out_of_bounds_is_refused_and_releases_nothing(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let held = Held { id, lease: claimed.lease.clone() };
    let many = vec![held; DECLARED_LEASES_MAX + 1];
    let beat = Heartbeat::new(session.clone(), u64::MAX, many);
    assert_refused(rig.engine().heartbeat(beat).await, "too_large", "held");
    let beat = Heartbeat::new(session, u64::MAX, Vec::new());
    let beat = beat.unanswered(0..=UNANSWERED_CLAIMS_MAX as u64);
    assert_refused(rig.engine().heartbeat(beat).await, "too_large", "unanswered");
    rig.settle(&claimed, Outcome::DONE).await;
}

pub(super) async fn a_report_out_of_bounds_is_refused_and_the_lease_stays(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let before = rig.get(id).await;
    let item = |outcome| SettleItem::new(id, claimed.lease.clone(), outcome);
    let delay = Some(BACKOFF_MAX_MS + 1);
    let retry = Outcome::Retry { error: JobError::new("c", "m"), delay_ms: delay };
    let result = Some(Part::new(vec![0; RESULT_BYTES_MAX + 1]));
    let follow_ups =
        |job: NewJob, n| (0..n).fold(item(Outcome::DONE), |i, _| i.follow_up(job.clone()));
    let bad = [
        (item(retry), "invalid", "delay_ms"),
        (item(Outcome::Snooze { delay_ms: u64::MAX }), "invalid", "delay_ms"),
        (item(Outcome::Complete { result }), "too_large", "result"),
        (item(Outcome::DONE).checkpoint(oversize(CHECKPOINT_BYTES_MAX)), "too_large", "checkpoint"),
        (item(Outcome::DONE).blob(oversize(BLOB_BYTES_MAX)), "too_large", "blob"),
        (follow_ups(Rig::job(), FOLLOW_UPS_MAX + 1), "too_large", "follow_ups"),
        (follow_ups(Rig::job(), 1).follow_up(Rig::job().key("")), "invalid", "follow_ups[1].key"),
    ];
    for (item, code, field) in bad {
        assert_refused(rig.try_settle(item).await, code, field);
    }
    assert_eq!(rig.get(id).await, before);
    rig.settle(&claimed, Outcome::DONE).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn an_update_out_of_bounds_is_refused_and_changes_nothing(rig: Rig) {
    let id = rig.enqueue_one().await;
    let claimed = rig.claim(Rig::wants_alone(LEASE_DEFAULT_MS, 1)).await.pop().expect("the job");
    let before = rig.get(id).await;
    let item = || UpdateItem::new(id, claimed.lease.clone());
    let mut many_lines = item();
    many_lines.log = vec!["line".into(); LOG_LINES_MAX + 1];
    let note = "x".repeat(PROGRESS_NOTE_BYTES_MAX + 1);
    let bad = [
        (item().progress(1, None, note), "too_large", "progress.note"),
        (many_lines, "too_large", "log"),
        (item().log("line").extend_ms(LEASE_MIN_MS - 1), "invalid", "extend_ms"),
        (item().log("line").extend_ms(LEASE_MAX_MS + 1), "invalid", "extend_ms"),
        (item().log("line").checkpoint(oversize(CHECKPOINT_BYTES_MAX)), "too_large", "checkpoint"),
        (item().log("line").metadata(oversize(METADATA_BYTES_MAX)), "too_large", "metadata"),
        (item().log("line").blob(oversize(BLOB_BYTES_MAX)), "too_large", "blob"),
    ];
    for (item, code, field) in bad {
        assert_refused(rig.update(item).await, code, field);
    }
    assert_eq!(rig.get(id).await, before);
    rig.settle(&claimed, Outcome::DONE).await;
}

pub(super) async fn a_change_out_of_bounds_is_refused_and_changes_nothing(rig: Rig) {
    let waiting = rig.enqueue_one().await;
    let before = rig.get(waiting).await;
    let never = Due::At(Timestamp::MAX);
    let refused = rig.try_change(waiting, Change::Reschedule(never)).await;
    assert_refused(refused, "invalid", "run_at");
    assert_eq!(rig.get(waiting).await, before);

    let dead = rig.enqueue(Rig::job().priority(-1)).await;
    let session = rig.session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::fail("code", "for good")).await;
    let before = rig.get(dead).await;
    let payload_max = rig.engine().capabilities().payload_bytes_max;
    let mut policy = Policy::default();
    policy.max_attempts = 0;
    type Edit<'a> = Box<dyn Fn(&mut Edits) + Send + 'a>;
    let bad: [(Edit<'_>, &str, &str); 4] = [
        (Box::new(|edits| edits.payload = oversize(payload_max)), "too_large", "payload"),
        (Box::new(|edits| edits.checkpoint = oversize(CHECKPOINT_BYTES_MAX)), "too_large", "checkpoint"),
        (Box::new(|edits| edits.due = never), "invalid", "run_at"),
        (Box::new(|edits| edits.policy = Some(policy.clone())), "invalid", "max_attempts"),
    ];
    for (edit, code, field) in bad {
        let mut edits = Box::<Edits>::default();
        edit(&mut edits);
        let refused = rig.try_change(dead, Change::Replay(edits)).await;
        assert_refused(refused, code, field);
    }
    assert_eq!(rig.get(dead).await, before);
}

pub(super) async fn settings_out_of_bounds_are_refused_and_change_nothing(rig: Rig) {
    let quantum = |quantum_ms| QueuePatch::order(Order::Ageing { quantum_ms });
    let kept = |ms| QueuePatch::retention(Retention::uniform_ms(ms));
    let mut half_bad = QueuePatch::paused(true);
    half_bad.max_depth = Some(Some(0));
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let queue = |patch| Configure::queue(QUEUE, patch);
    let bad = [
        (queue(half_bad), "invalid", "max_depth"),
        (queue(quantum(0)), "invalid", "order.quantum_ms"),
        (queue(quantum(AGE_MAX_MS + 1)), "invalid", "order.quantum_ms"),
        (queue(QueuePatch::max_wait_ms(Some(0))), "invalid", "max_wait_ms"),
        (queue(QueuePatch::max_wait_ms(Some(u64::MAX))), "invalid", "max_wait_ms"),
        (queue(kept(AGE_MAX_MS + 1)), "invalid", "retention.finished_ms"),
        (Configure::queue("bad queue", QueuePatch::paused(true)), "invalid", "queue"),
        (Configure::queue(long, QueuePatch::paused(true)), "too_large", "queue"),
        (Configure::kind("bad\nkind", KindPatch::paused(true)), "invalid", "kind"),
    ];
    for (change, code, field) in bad {
        assert_refused(rig.try_configure(change).await, code, field);
    }
    let settings = rig.engine().settings().await.expect("settings").value;
    assert_eq!(settings, Settings::default());
}

pub(super) async fn record_operations_out_of_bounds_are_refused(rig: Rig) {
    let large = || Bytes::from(vec![0; RECORD_BYTES_MAX + 1]);
    let put = |key: &str, value| RecordOp::Put { key: key.into(), value, expect: Expect::Any };
    let append = |log: &str, entries, keep| RecordOp::Append { log: log.into(), entries, keep };
    let list = |prefix: &str, limit| RecordOp::List { prefix: prefix.into(), after: None, limit };
    let read = |log: &str, limit| RecordOp::Read { log: log.into(), after: 0, limit };
    let one = || vec![Bytes::from_static(b"entry")];
    let bad = [
        (RecordOp::Get { key: String::new() }, "invalid", "key"),
        (RecordOp::Delete { key: "a b".into(), expect: Expect::Any }, "invalid", "key"),
        (put("a\0b", Bytes::new()), "invalid", "key"),
        (put(&"x".repeat(NAME_BYTES_MAX + 1), Bytes::new()), "too_large", "key"),
        (put("a", large()), "too_large", "value"),
        (append("", one(), 1), "invalid", "log"),
        (append("log", one(), 0), "invalid", "keep"),
        (append("log", one(), LOG_KEEP_MAX + 1), "invalid", "keep"),
        (append("log", vec![Bytes::new(), large()], 1), "too_large", "value"),
        (append("log", vec![Bytes::new(); BATCH_MAX + 1], 1), "too_large", "entries"),
        (list("a b", 1), "invalid", "prefix"),
        (list("", 0), "invalid", "limit"),
        (list("", PAGE_MAX + 1), "invalid", "limit"),
        (read("log", 0), "invalid", "limit"),
        (read("log", PAGE_MAX + 1), "invalid", "limit"),
    ];
    for (op, code, field) in bad {
        assert_refused(rig.record(op).await, code, field);
    }
    let none = RecordReply::Records(Page::new(Vec::new(), None));
    assert_eq!(rig.record(list("", 10)).await, Ok(none), "nothing was written");
    let none = RecordReply::Entries(Vec::new());
    assert_eq!(rig.record(read("log", 10)).await, Ok(none));
}

pub(super) async fn listings_waits_and_steps_out_of_bounds_are_refused(rig: Rig) {
    let engine = rig.engine();
    let all = || List::new(Filter::default());
    for limit in [0, PAGE_MAX + 1] {
        assert_refused(engine.list(all().limit(limit)).await, "invalid", "limit");
    }
    let filter = Filter::default().queue("bad queue");
    assert_refused(engine.list(List::new(filter)).await, "invalid", "queue");
    let filter = Filter::default().kind("bad\0kind");
    assert_refused(engine.list(List::new(filter)).await, "invalid", "kind");
    let (any, at) = (Filter::default, rig.now().await);
    let long = "x".repeat(KEY_BYTES_MAX + 1);
    let bad = [
        (any().tenant(""), "invalid", "tenant"),
        (any().tenant(&*long), "too_large", "tenant"),
        (any().key("a\nb"), "invalid", "key"),
        (any().key(&*long), "too_large", "key"),
        (any().tag(""), "invalid", "tag"),
        (any().tag(&*long), "too_large", "tag"),
        (any().created_from(at).created_until(at), "invalid", "created_until"),
    ];
    for (filter, code, field) in bad {
        assert_refused(engine.list(List::new(filter)).await, code, field);
    }
    let wait = Wait::new([QUEUE], WAIT_MAX_MS + 1);
    assert_refused(engine.wait(wait).await, "invalid", "wait_ms");
    let wait = Wait::new([QUEUE, QUEUE], 0);
    assert_refused(engine.wait(wait).await, "invalid", "queues");
    let wait = Wait::new((0..=CLAIM_QUEUES_MAX).map(|n| n.to_string()), 0);
    assert_refused(engine.wait(wait).await, "too_large", "queues");
    for work in Work::ALL {
        for budget in [0, MAINTAIN_BUDGET_MAX + 1] {
            let request = MaintainRequest::new(work, budget);
            assert_refused(engine.maintain(request).await, "invalid", "budget");
        }
    }
}

pub(super) async fn an_unknown_cursor_is_refused(rig: Rig) {
    rig.enqueue_one().await;
    let (limit, prefix) = (10, String::new());
    let long = "x".repeat(TOKEN_BYTES_MAX + 1);
    // The last two are valid keys, which an engine may use as cursors of records.
    let names = ["nonsense", "18446744073709551616"];
    for text in ["", "é\0", "-1", "{\"a\":1}", &*long].into_iter().chain(names) {
        let after = || Some(Cursor::new(text));
        let list = List::new(Filter::default()).after(after());
        assert_bad_cursor(rig.engine().list(list).await);
        if !names.contains(&text) {
            let op = RecordOp::List { prefix: prefix.clone(), after: after(), limit };
            assert_bad_cursor(rig.record(op).await);
        }
    }
}

pub(super) async fn batches_over_their_limit_are_refused_whole(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let engine = rig.engine();
    let over = BATCH_MAX + 1;
    let jobs = Enqueue::each(vec![Rig::job(); ENQUEUE_BATCH_MAX + 1]);
    refused_whole(engine.enqueue(jobs).await, "jobs");
    let item = SettleItem::new(id, claimed.lease.clone(), Outcome::DONE);
    refused_whole(engine.settle(Settle::new(vec![item.clone(); over])).await, "items");
    let follow_ups = (0..FOLLOW_UPS_MAX).fold(item, |item, _| item.follow_up(Rig::job()));
    let many = vec![follow_ups; SETTLE_FOLLOW_UPS_MAX / FOLLOW_UPS_MAX + 1];
    refused_whole(engine.settle(Settle::new(many)).await, "follow_ups");
    let item = UpdateItem::new(id, claimed.lease.clone()).log("line");
    refused_whole(engine.update(Update::new(vec![item; over])).await, "items");
    refused_whole(engine.change(vec![ChangeItem::new(id, Change::Cancel); over]).await, "items");
    refused_whole(engine.get(Get::new(vec![id; over])).await, "ids");
    let pause = Configure::queue(QUEUE, QueuePatch::paused(true));
    refused_whole(engine.configure(vec![pause; over]).await, "items");
    let put = RecordOp::Put { key: "a".into(), value: Bytes::new(), expect: Expect::Any };
    refused_whole(engine.records(vec![put; over]).await, "items");

    let job = rig.get(id).await;
    assert!(job.state == State::Running && job.log.is_empty() && !job.cancel_requested, "{job:?}");
    assert_eq!(engine.settings().await.expect("settings").value, Settings::default());
    let record = rig.record(RecordOp::Get { key: "a".into() }).await;
    assert_eq!(record, Ok(RecordReply::Record(None)));
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn verbs_about_jobs_that_never_were_answer_not_found(rig: Rig) {
    let unknown: JobId = Rig::fresh_id();
    let settle = SettleItem::new(unknown, Rig::forged_lease(), Outcome::DONE);
    assert_code(rig.try_settle(settle).await, "not_found");
    let changes =
        [Change::Cancel, Change::Promote, Change::Pause, Change::replay(), Change::Discard];
    for change in changes {
        assert_code(rig.try_change(unknown, change).await, "not_found");
    }
    assert!(rig.find(unknown).await.is_none());
}

fn assert_bad_cursor<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.expect_err("a cursor that no page returned must be refused");
    assert!(matches!(error.code(), "invalid" | "too_large"), "{error}");
}

fn alone(claim_id: ClaimId, worker: &str) -> Claim {
    let by = Claimant::Alone { claim_id, worker: worker.into(), lease_ms: LEASE_DEFAULT_MS };
    Claim::new(by, QUEUE, 1)
}

fn oversize(limit: usize) -> PartEdit {
    PartEdit::Set(Part::new(vec![0; limit + 1]))
}

fn refused_whole<T: std::fmt::Debug>(answer: Result<T>, field: &str) {
    assert_refused(answer, "too_large", field);
}
