//! Jobs that are too large or invalid: refused with the field, nothing stored, other items of the batch
//! unaffected. The other verbs are in [`super::refusals`].

use crate::rig::{QUEUE, Rig, assert_refused};
use windlass_core::JobId;
use windlass_core::engine::{
    Change, Claim, Edits, Enqueue, Filter, List, Outcome, SettleItem, UpdateItem,
};
use windlass_core::limits::*;
use windlass_core::model::{Due, Envelope, Job, Location, NewJob, Part, PartEdit, PartName, State};
use windlass_core::policy::{Backoff, Retention, Unique, Until};
use windlass_core::random::SystemRandom;
use windlass_core::time::Timestamp;

pub(super) async fn bad_names_are_refused(rig: Rig) {
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    for name in ["", " ", "a b", "a\0b", "a\nb", "\u{7f}", "-x", "é", "{q}", "a*", "a'b", "a\\b"] {
        refuse(&rig, Rig::job().queue(name), "invalid", "queue").await;
        refuse(&rig, NewJob::new(name).queue(QUEUE), "invalid", "kind").await;
    }
    refuse(&rig, Rig::job().queue(&*long), "too_large", "queue").await;
    refuse(&rig, NewJob::new(&*long).queue(QUEUE), "too_large", "kind").await;
    nothing_is_stored(&rig).await;
}

pub(super) async fn names_at_their_limit_and_of_every_character_are_taken(rig: Rig) {
    let long = "x".repeat(NAME_BYTES_MAX);
    for name in [&*long, "_", "9", "Az09_-.:/@", "a::b", "a//b"] {
        let id = rig.enqueue(NewJob::new(name).queue(name)).await;
        let header = rig.get(id).await.header;
        assert_eq!((&*header.queue, &*header.kind), (name, name));
        let session = rig.session().await;
        let claim = Claim::new(rig.claimant(&session), name, 10);
        let claimed = rig.claim(claim.kind(name, 10)).await;
        assert_eq!(claimed.len(), 1, "{name}");
        assert_eq!(claimed[0].header.id, id);
    }
}

pub(super) async fn bad_texts_are_refused(rig: Rig) {
    type Put = fn(NewJob, String) -> NewJob;
    let fields: [(&str, usize, Put); 5] = [
        ("tenant", NAME_BYTES_MAX, |job, text| job.tenant(text)),
        ("key", KEY_BYTES_MAX, |job, text| job.key(text)),
        ("unique.key", KEY_BYTES_MAX, |job, text| job.unique(Unique::by(text))),
        ("tags", TAG_BYTES_MAX, |job, text| job.tag("fine").tag(text)),
        ("trace", TRACE_BYTES_MAX, |mut job, text| {
            job.trace = Some(text);
            job
        }),
    ];
    for (field, bytes_max, put) in fields {
        for bad in ["", "a\0b", "a\tb", "\u{1b}[31m"] {
            refuse(&rig, put(Rig::job(), bad.into()), "invalid", field).await;
        }
        refuse(&rig, put(Rig::job(), "x".repeat(bytes_max + 1)), "too_large", field).await;
        // Two bytes each: limits count bytes, not characters.
        refuse(&rig, put(Rig::job(), "ü".repeat(bytes_max / 2 + 1)), "too_large", field).await;
    }
    nothing_is_stored(&rig).await;
    for (field, bytes_max, put) in fields {
        for good in ["ü".repeat(bytes_max / 2), " ☂ 'quoted' \"\\ {}".into()] {
            let id = rig.enqueue(put(Rig::job(), good.clone())).await;
            let stored = put(Rig::job(), good);
            let header = rig.get(id).await.header;
            let kept = (header.tenant, header.key, header.unique, header.tags, header.trace);
            let given = (stored.tenant, stored.key, stored.unique, stored.tags, stored.trace);
            assert_eq!(kept, given, "{field}");
        }
    }
}

pub(super) async fn too_many_tags_are_refused(rig: Rig) {
    let tagged = |count| (0..count).fold(Rig::job(), |job, n| job.tag(format!("tag {n}")));
    refuse(&rig, tagged(TAGS_MAX + 1), "too_large", "tags").await;
    let id = rig.enqueue(tagged(TAGS_MAX)).await;
    assert_eq!(rig.get(id).await.header.tags.len(), TAGS_MAX);
}

pub(super) async fn times_out_of_range_are_refused(rig: Rig) {
    let now = rig.now().await;
    let times = [
        now.plus(2 * DELAY_MAX_MS),
        Timestamp::MAX,
        Timestamp::from_millis(-1),
        Timestamp::from_millis(i64::MIN),
    ];
    let times = times.map(|at| (Due::At(at), "run_at", at.to_string()));
    let delays = [DELAY_MAX_MS + 1, u64::MAX];
    let delays = delays.map(|ms| (Due::After(ms), "delay_ms", ms.to_string()));
    for (due, field, sent) in times.into_iter().chain(delays) {
        let error = rig.try_enqueue(Rig::job().due(due)).await;
        let error = assert_refused(error, "invalid", field).to_string();
        assert!(error.contains(&sent), "{error}: it must contain {sent}, the value that was sent");
    }
    nothing_is_stored(&rig).await;
}

pub(super) async fn policies_that_make_no_sense_are_refused(rig: Rig) {
    let long = Retention::uniform_ms(AGE_MAX_MS + 1);
    let fixed = |delay_ms, jitter_ms| Backoff::Fixed { delay_ms, jitter_ms };
    let growing = |base_ms, cap_ms| Backoff::Exponential { base_ms, cap_ms, jitter_ms: 0 };
    let window = |ms| Unique::by("u").until(Until::window_ms(ms));
    let mut slow = Rig::job();
    slow.policy.timeout_ms = Some(TIMEOUT_MAX_MS + 1);
    let mut no_time = Rig::job();
    no_time.policy.timeout_ms = Some(0);
    let mut kept_long = Rig::job();
    kept_long.policy.retention = Some(long);
    let bad = [
        (Rig::job().max_attempts(0), "max_attempts"),
        (Rig::job().max_attempts(MAX_ATTEMPTS_MAX + 1), "max_attempts"),
        (Rig::job().max_crashes(MAX_CRASHES_MAX + 1), "max_crashes"),
        (Rig::job().backoff(fixed(BACKOFF_MAX_MS + 1, 0)), "backoff.delay_ms"),
        (Rig::job().backoff(fixed(0, u64::MAX)), "backoff.jitter_ms"),
        (Rig::job().backoff(growing(BACKOFF_MAX_MS + 1, u64::MAX)), "backoff.base_ms"),
        (Rig::job().backoff(growing(10, 5)), "backoff.cap_ms"),
        (slow, "timeout_ms"),
        (no_time, "timeout_ms"),
        (Rig::job().max_wait_ms(0), "max_wait_ms"),
        (Rig::job().max_wait_ms(AGE_MAX_MS + 1), "max_wait_ms"),
        (kept_long, "retention.finished_ms"),
        (Rig::job().unique(window(0)), "unique.until"),
        (Rig::job().unique(window(AGE_MAX_MS + 1)), "unique.until"),
    ];
    for (job, field) in bad {
        refuse(&rig, job, "invalid", field).await;
    }
    nothing_is_stored(&rig).await;
}

pub(super) async fn policies_at_their_limits_are_taken(rig: Rig) {
    let mut job = Rig::job().max_attempts(MAX_ATTEMPTS_MAX).max_crashes(MAX_CRASHES_MAX);
    let most = BACKOFF_MAX_MS;
    job = job.backoff(Backoff::Exponential { base_ms: most, cap_ms: most, jitter_ms: most });
    job = job.max_wait_ms(AGE_MAX_MS).unique(Unique::by("u").until(Until::window_ms(AGE_MAX_MS)));
    job.policy.timeout_ms = Some(TIMEOUT_MAX_MS);
    job.policy.retention = Some(Retention::uniform_ms(AGE_MAX_MS));
    let id = rig.enqueue(job.clone()).await;
    assert_eq!(rig.get(id).await.header.policy, job.policy);
    let session = rig.session().await;
    let settled = rig.settle(&rig.take_one(&session).await, Outcome::retry("code", "again")).await;
    assert_eq!(settled.state, State::Scheduled);
    rig.assert_sound().await;
}

pub(super) async fn priorities_have_no_limit_but_their_type(rig: Rig) {
    for priority in [i32::MIN, i32::MAX, 0] {
        let id = rig.enqueue(Rig::job().priority(priority)).await;
        assert_eq!(rig.get(id).await.header.priority, priority);
    }
}

pub(super) async fn ids_without_their_time_are_refused(rig: Rig) {
    let now = rig.now().await;
    let random: JobId = "6d1f8c1e-9d3b-4c55-8f43-8d1b9a3c2f10".parse().expect("a UUID");
    let nil: JobId = "00000000-0000-0000-0000-000000000000".parse().expect("a UUID");
    let old = JobId::new(now.minus(2 * ID_SKEW_MAX_MS), &SystemRandom);
    let early = JobId::new(now.plus(2 * ID_SKEW_MAX_MS), &SystemRandom);
    for id in [random, nil, old, early] {
        refuse(&rig, Rig::job().id(id), "invalid", "id").await;
        assert!(rig.find(id).await.is_none());
    }
    for at in [now.minus(ID_SKEW_MAX_MS / 2), now.plus(ID_SKEW_MAX_MS / 2)] {
        rig.enqueue(Rig::job().id(JobId::new(at, &SystemRandom))).await;
    }
}

pub(super) async fn parts_over_their_limit_are_refused(rig: Rig) {
    let payload_max = rig.engine().capabilities().payload_bytes_max;
    for name in PartName::ALL {
        let mut job = Rig::job();
        *job.parts.slot(name) = Some(Part::new(vec![0; name.bytes_max(payload_max) + 1]));
        refuse(&rig, job, "too_large", name.as_str()).await;
    }
    nothing_is_stored(&rig).await;
}

/// A more deeply nested part would break the parsers of other clients, for all jobs of the same claim.
pub(super) async fn json_nested_too_deep_is_refused_in_every_part(rig: Rig) {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for deep in [nested(JSON_DEPTH_MAX + 1), nested(10_000)] {
        for name in PartName::ALL {
            let mut job = Rig::job();
            *job.parts.slot(name) = Some(Part::new(deep.clone()));
            refuse(&rig, job, "invalid", name.as_str()).await;
        }
    }
    nothing_is_stored(&rig).await;
    let id = rig.enqueue(Rig::job().json(nested(JSON_DEPTH_MAX))).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let deep = Part::new(nested(JSON_DEPTH_MAX + 1));
    let update = UpdateItem::new(id, claimed.lease.clone()).checkpoint(PartEdit::Set(deep.clone()));
    assert_refused(rig.update(update).await, "invalid", "checkpoint");
    let report = |outcome| SettleItem::new(id, claimed.lease.clone(), outcome);
    let done = report(Outcome::Complete { result: Some(deep.clone()) });
    assert_refused(rig.try_settle(done).await, "invalid", "result");
    let more = report(Outcome::DONE).follow_up(Rig::job().json(nested(JSON_DEPTH_MAX + 1)));
    assert_refused(rig.try_settle(more).await, "invalid", "follow_ups[0].payload");
    rig.settle(&claimed, Outcome::fail("code", "message")).await;
    let mut edits = Edits::default();
    edits.payload = PartEdit::Set(deep);
    let replay = Change::Replay(Box::new(edits));
    assert_refused(rig.try_change(id, replay).await, "invalid", "payload");
    // Bytes that are not JSON may contain any number of brackets.
    rig.enqueue(Rig::job().payload(vec![b'['; 1_000])).await;
    rig.assert_sound().await;
}

pub(super) async fn bad_envelopes_are_refused(rig: Rig) {
    for (bad, code) in [(String::new(), "invalid"), ("x".repeat(2_000), "too_large")] {
        let mut job = Rig::job();
        let envelope = Envelope::PLAIN.with_key_id(bad.clone());
        job.parts.payload = Some(Part::sealed(envelope, "1"));
        refuse(&rig, job, code, "payload").await;
        let mut job = Rig::job();
        let envelope = Envelope::PLAIN.with_location(Location::At(bad));
        job.parts.blob = Some(Part::sealed(envelope, ""));
        refuse(&rig, job, code, "blob").await;
    }
    nothing_is_stored(&rig).await;
}

pub(super) async fn bad_jobs_harm_none_of_their_neighbours(rig: Rig) {
    let bad = [
        Rig::job().queue("bad queue"),
        Rig::job().max_attempts(0),
        Rig::job().due(Due::After(u64::MAX)),
        Rig::job().payload(vec![0; rig.engine().capabilities().payload_bytes_max + 1]),
        Rig::job().key("a\0b"),
    ];
    let expected = bad.len();
    let jobs = bad.into_iter().flat_map(|bad| [Rig::job(), bad]).collect::<Vec<_>>();
    let answers = rig.engine().enqueue(Enqueue::each(jobs)).await.expect("enqueue").value;
    for (index, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_ok(), index % 2 == 0, "item {index}: {answer:?}");
    }
    assert_eq!(rig.drain(100).await.len(), expected);
    rig.assert_sound().await;
}

pub(super) async fn a_huge_error_report_is_cut_not_refused(rig: Rig) {
    let huge = "ü".repeat(1_000_000);
    let outcomes = [Outcome::retry(&*huge, &*huge), Outcome::fail(&*huge, &*huge)];
    for outcome in outcomes {
        let id = rig.enqueue_one().await;
        let session = rig.session().await;
        rig.settle(&rig.take_one(&session).await, outcome).await;
        let Job { error, history, .. } = rig.get(id).await;
        let attempt = history.last().expect("an attempt").error.clone();
        for error in [error, attempt].map(|error| error.expect("the error is kept")) {
            assert!(error.message.len() <= ERROR_BYTES_MAX && error.message.ends_with('…'));
            assert!(
                error.message.len() > ERROR_BYTES_MAX / 2,
                "the truncated error uses most of the limit"
            );
            assert!(error.code.len() <= NAME_BYTES_MAX && error.code.ends_with('…'));
        }
    }
}

pub(super) async fn errors_and_log_lines_may_hold_any_text(rig: Rig) {
    let odd = "a\u{1b}[31m\r\n\t'\"\\ {} \u{10ffff}";
    // Not every store can represent this one, but none may refuse the report because of it.
    let zero = "a\0b";
    for text in [odd, zero] {
        let id = rig.enqueue_one().await;
        let session = rig.session().await;
        let claimed = rig.take_one(&session).await;
        rig.update(UpdateItem::new(id, claimed.lease.clone()).log(text)).await.expect("update");
        rig.settle(&claimed, Outcome::fail("odd", text)).await;
        let job = rig.get(id).await;
        let (message, line) = (job.error.expect("the error").message, &job.log[0].text);
        assert!(text == zero || (message == text && line == text), "{message:?} {line:?}");
    }
}

pub(super) async fn a_long_log_line_is_cut_not_refused(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let lines = UpdateItem::new(id, claimed.lease).log("ü".repeat(100_000)).log("short");
    rig.update(lines).await.expect("update");
    let log = rig.get(id).await.log;
    assert!(log[0].text.len() <= LOG_LINE_BYTES_MAX && log[0].text.ends_with('…'));
    assert_eq!(log[1].text, "short");
}

/// Asserts that a job is refused with this code for this field.
async fn refuse(rig: &Rig, job: NewJob, code: &str, field: &str) {
    assert_refused(rig.try_enqueue(job).await, code, field);
}

async fn nothing_is_stored(rig: &Rig) {
    let mut after = None;
    loop {
        let list = List::new(Filter::default()).after(after);
        let page = rig.engine().list(list).await.expect("list").value;
        assert!(page.rows.is_empty(), "{page:?}");
        after = page.next;
        if after.is_none() {
            return;
        }
    }
}
