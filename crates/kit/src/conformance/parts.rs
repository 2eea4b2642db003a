//! The parts of a job in their envelopes, and the effect of edits.

use crate::rig::{Rig, assert_refused};
use bytes::Bytes;
use windlass_core::engine::{ClaimedJob, Get, Outcome, SettleItem, UpdateItem};
use windlass_core::limits::{
    BLOB_BYTES_MAX, ENVELOPE_FIELD_BYTES_MAX, LOG_LINES_MAX, METADATA_BYTES_MAX, RESULT_BYTES_MAX,
    CHECKPOINT_BYTES_MAX,
};
use windlass_core::model::{
    Codec, Envelope, Location, NewJob, Part, PartEdit, PartName, PartSet, Parts,
};

pub(super) async fn all_four_parts_come_back_byte_for_byte(rig: Rig) {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let job = with_parts(|name| Some(Part::new([name.as_str().as_bytes(), &every_byte].concat())));
    let id = rig.enqueue(job.clone()).await;
    assert_eq!(rig.get(id).await.parts, job.parts);
    assert_eq!(claim_parts(&rig, PartSet::ALL).await.parts, job.parts);
}

pub(super) async fn an_empty_part_is_not_an_unset_one(rig: Rig) {
    for set in PartName::ALL {
        let job = with_parts(|name| (name == set).then(|| Part::new(Bytes::new())));
        let id = rig.enqueue(job.clone()).await;
        assert_eq!(rig.get(id).await.parts, job.parts, "{set:?} is empty, the others are unset");
        let claimed = claim_parts(&rig, PartSet::ALL).await;
        assert_eq!(claimed.parts, job.parts);
        rig.settle(&claimed, Outcome::DONE).await;
        assert_eq!(rig.get(id).await.parts, job.parts);
    }
}

pub(super) async fn envelopes_are_carried_along_untouched(rig: Rig) {
    let long = "x".repeat(ENVELOPE_FIELD_BYTES_MAX);
    let envelopes = [
        Envelope::PLAIN.with_codec(Codec::Zstd),
        Envelope::PLAIN.with_codec(Codec::Other("brotli/11 ☂".into())),
        Envelope::PLAIN.with_codec(Codec::Other("zstd".into())),
        Envelope::PLAIN.with_location(Location::At("s3://bucket/a b?c=d".into())),
        Envelope::PLAIN.with_key_id("key 1"),
        Envelope::PLAIN
            .with_codec(Codec::Other(long.clone()))
            .with_location(Location::At(long.clone()))
            .with_key_id(long),
    ];
    for envelope in envelopes {
        let part = Part::sealed(envelope.clone(), Bytes::from_static(b"as stored"));
        let job = with_parts(|_| Some(part.clone()));
        let id = rig.enqueue(job.clone()).await;
        assert_eq!(rig.get(id).await.parts, job.parts);
        let claimed = claim_parts(&rig, PartSet::ALL).await;
        assert_eq!(claimed.parts, job.parts);
        let fetched = rig.update(update(&claimed).fetch(PartSet::ALL)).await.expect("update");
        assert_eq!(fetched.parts, job.parts);
        let empty = Part::sealed(envelope, Bytes::new());
        let edit = update(&claimed).checkpoint(PartEdit::Set(empty.clone()));
        rig.update(edit).await.expect("update");
        assert_eq!(rig.get(id).await.parts.checkpoint, Some(empty));
    }
}

pub(super) async fn a_claim_returns_the_requested_parts_and_no_others(rig: Rig) {
    let sets = [
        PartSet::NONE,
        PartSet::PAYLOAD,
        PartSet::NONE.with(PartName::Checkpoint).with(PartName::Metadata),
        PartSet::NONE.with(PartName::Blob),
        PartSet::ALL,
    ];
    for set in sets {
        let job = with_parts(|name| Some(Part::new(name.as_str())));
        rig.enqueue(job.clone()).await;
        assert_eq!(claim_parts(&rig, set).await.parts, job.parts.only(set));
    }
}

pub(super) async fn a_read_returns_the_requested_parts_and_no_others(rig: Rig) {
    let job = with_parts(|name| Some(Part::new(name.as_str())));
    let id = rig.enqueue(job.clone()).await;
    assert_eq!(rig.find(id).await.expect("the job").parts, Parts::default());
    let set = PartSet::PAYLOAD.with(PartName::Blob);
    let read = rig.engine().get(Get::new([id]).parts(set)).await.expect("get").value;
    assert_eq!(read[0].as_ref().expect("the job").parts, job.parts.only(set));
}

pub(super) async fn parts_left_behind_can_be_fetched_under_the_lease(rig: Rig) {
    let job = with_parts(|name| Some(Part::new(name.as_str())));
    rig.enqueue(job.clone()).await;
    let claimed = claim_parts(&rig, PartSet::NONE).await;
    for name in PartName::ALL {
        let set = PartSet::NONE.with(name);
        let fetched = rig.update(update(&claimed).fetch(set)).await.expect("update");
        assert_eq!(fetched.parts, job.parts.only(set));
    }
}

pub(super) async fn a_checkpoint_is_there_for_the_next_attempt(rig: Rig) {
    let id = rig.enqueue(Rig::job().json("input")).await;
    let claimed = claim_parts(&rig, PartSet::ALL).await;
    assert_eq!(claimed.parts.checkpoint, None);
    let again = Outcome::Snooze { delay_ms: 0 };
    let settle = item(&claimed, again.clone()).checkpoint(set("step 1"));
    rig.try_settle(settle).await.expect("settle");

    let claimed = claim_parts(&rig, PartSet::ALL).await;
    assert_eq!(claimed.parts.checkpoint, Some(Part::new("step 1")));
    assert_eq!(claimed.parts.payload, Some(Part::new("input")), "the payload is unchanged");
    rig.settle(&claimed, again.clone()).await;

    let claimed = claim_parts(&rig, PartSet::ALL).await;
    assert_eq!(claimed.parts.checkpoint, Some(Part::new("step 1")), "kept without an edit");
    rig.try_settle(item(&claimed, again).checkpoint(PartEdit::Unset)).await.expect("settle");
    assert_eq!(claim_parts(&rig, PartSet::ALL).await.parts.checkpoint, None);
    assert_eq!(rig.get(id).await.parts.checkpoint, None);
}

pub(super) async fn a_checkpoint_written_while_running_survives_the_worker(rig: Rig) {
    rig.enqueue_one().await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    for step in ["step 1", "step 2"] {
        let edit = update(&claimed).checkpoint(set(step)).blob(set("big")).metadata(set("notes"));
        rig.update(edit).await.expect("update");
    }
    rig.crash(&session).await;
    let next = claim_parts(&rig, PartSet::ALL).await;
    assert_eq!(next.header.counters.attempt, 2);
    assert_eq!(next.parts.checkpoint, Some(Part::new("step 2")));
    assert_eq!(next.parts.blob, Some(Part::new("big")));
    assert_eq!(next.parts.metadata, Some(Part::new("notes")));
}

pub(super) async fn parts_are_edited_one_by_one(rig: Rig) {
    let id = rig.enqueue(with_parts(|name| Some(Part::new(name.as_str())))).await;
    let claimed = claim_parts(&rig, PartSet::NONE).await;
    let edit = update(&claimed).metadata(set("by update")).blob(PartEdit::Unset);
    rig.update(edit).await.expect("update");
    let parts = rig.get(id).await.parts;
    assert_eq!(parts.metadata, Some(Part::new("by update")));
    assert_eq!(parts.blob, None);
    assert_eq!(parts.checkpoint, Some(Part::new("checkpoint")), "untouched");

    let settle = item(&claimed, Outcome::DONE).blob(set("by settle")).checkpoint(PartEdit::Unset);
    rig.try_settle(settle).await.expect("settle");
    let parts = rig.get(id).await.parts;
    assert_eq!(parts.blob, Some(Part::new("by settle")));
    assert_eq!(parts.checkpoint, None);
    assert_eq!(parts.metadata, Some(Part::new("by update")), "untouched");
    assert_eq!(parts.payload, Some(Part::new("payload")), "untouched");
}

pub(super) async fn a_payload_edited_under_the_lease_is_the_input_of_the_next_attempt(rig: Rig) {
    // Plain jobs and jobs with other parts may be stored differently.
    for job in [Rig::job().json("1"), with_parts(|name| Some(Part::new(name.as_str())))] {
        let id = rig.enqueue(job).await;
        let claimed = claim_parts(&rig, PartSet::NONE).await;
        let edit = update(&claimed).payload(set("2")).fetch(PartSet::PAYLOAD);
        let updated = rig.update(edit).await.expect("update");
        assert_eq!(updated.parts.payload, Some(Part::new("2")));
        assert_eq!(rig.get(id).await.parts.payload, Some(Part::new("2")));
        let envelope = Envelope::PLAIN.with_codec(Codec::Zstd);
        let sealed = Part::sealed(envelope, "3");
        let edit = PartEdit::Set(sealed.clone());
        rig.try_settle(item(&claimed, Outcome::Release).payload(edit)).await.expect("settle");
        let claimed = claim_parts(&rig, PartSet::ALL).await;
        assert_eq!(claimed.parts.payload, Some(sealed));
        let removed = item(&claimed, Outcome::Release).payload(PartEdit::Unset);
        rig.try_settle(removed).await.expect("settle");
        let claimed = claim_parts(&rig, PartSet::ALL).await;
        assert_eq!(claimed.parts.payload, None);
        rig.try_settle(item(&claimed, Outcome::DONE).payload(set("4"))).await.expect("settle");
        assert_eq!(rig.get(id).await.parts.payload, Some(Part::new("4")), "also with its end");
    }
    rig.assert_sound().await;
}

pub(super) async fn edits_with_any_outcome_are_kept(rig: Rig) {
    let outcomes = [
        Outcome::DONE,
        Outcome::fail("code", "for good"),
        Outcome::retry("code", "again"),
        Outcome::Release,
        Outcome::WAIT,
        Outcome::Cancel,
    ];
    for outcome in outcomes {
        let id = rig.enqueue(Rig::job().priority(-1)).await;
        let claimed = claim_parts(&rig, PartSet::NONE).await;
        let settle = item(&claimed, outcome.clone()).metadata(set("noted")).priority(7);
        rig.try_settle(settle).await.expect("settle");
        let job = rig.get(id).await;
        assert_eq!(job.parts.metadata, Some(Part::new("noted")), "{outcome:?}");
        assert_eq!(job.header.priority, 7, "{outcome:?}");
    }
}

pub(super) async fn a_result_is_kept_with_its_envelope(rig: Rig) {
    let envelope = Envelope::PLAIN.with_codec(Codec::Zstd).with_key_id("k");
    let bytes = Bytes::from(vec![7; RESULT_BYTES_MAX]);
    for result in [Part::sealed(envelope, bytes), Part::new(Bytes::new())] {
        let id = rig.enqueue_one().await;
        let claimed = claim_parts(&rig, PartSet::NONE).await;
        rig.settle(&claimed, Outcome::Complete { result: Some(result.clone()) }).await;
        assert_eq!(rig.get(id).await.result, Some(result));
    }
    let id = rig.enqueue_one().await;
    rig.drain(1).await;
    assert_eq!(rig.get(id).await.result, None, "no result is not an empty one");
}

pub(super) async fn parts_of_exactly_the_limit_are_taken(rig: Rig) {
    let payload_max = rig.engine().capabilities().payload_bytes_max;
    let job = with_parts(|name| Some(Part::new(vec![b'x'; name.bytes_max(payload_max)])));
    let id = rig.enqueue(job.clone()).await;
    assert!(rig.get(id).await.parts == job.parts, "all bytes are returned");
    let claimed = claim_parts(&rig, PartSet::ALL).await;
    assert!(claimed.parts == job.parts, "the claim returns all bytes");
    let filled = |size: usize| PartEdit::Set(Part::new(vec![b'y'; size]));
    let edit = update(&claimed).checkpoint(filled(CHECKPOINT_BYTES_MAX)).metadata(filled(METADATA_BYTES_MAX));
    rig.update(edit.blob(filled(BLOB_BYTES_MAX))).await.expect("update");
    let parts = rig.get(id).await.parts;
    assert!(parts.blob == Some(Part::new(vec![b'y'; BLOB_BYTES_MAX])), "the edit is stored");
}

pub(super) async fn a_refused_edit_changes_nothing(rig: Rig) {
    let id = rig.enqueue(with_parts(|name| Some(Part::new(name.as_str())))).await;
    let claimed = claim_parts(&rig, PartSet::NONE).await;
    let before = rig.get(id).await;
    let large = PartEdit::Set(Part::new(vec![0; METADATA_BYTES_MAX + 1]));
    let edit = update(&claimed).checkpoint(set("new")).metadata(large.clone()).log("line");
    let refused = rig.update(edit.progress(1, None, "note")).await;
    assert_refused(refused, "too_large", "metadata");
    let settle = item(&claimed, Outcome::DONE).checkpoint(set("new")).metadata(large);
    assert_refused(rig.try_settle(settle).await, "too_large", "metadata");
    let payload_max = rig.engine().capabilities().payload_bytes_max;
    let large = PartEdit::Set(Part::new(vec![0; payload_max + 1]));
    let edit = update(&claimed).checkpoint(set("new")).payload(large.clone());
    assert_refused(rig.update(edit).await, "too_large", "payload");
    let settle = item(&claimed, Outcome::DONE).checkpoint(set("new")).payload(large);
    assert_refused(rig.try_settle(settle).await, "too_large", "payload");
    assert_eq!(rig.get(id).await, before, "nothing was changed, and the job still runs");
    rig.settle(&claimed, Outcome::DONE).await;
}

pub(super) async fn progress_and_log_lines_are_kept_with_the_job(rig: Rig) {
    let id = rig.enqueue_one().await;
    let claimed = claim_parts(&rig, PartSet::NONE).await;
    rig.update(update(&claimed).progress(1, Some(3), "one").log("a").log("b")).await.expect("1st");
    rig.update(update(&claimed).progress(2, None, "two").log("c")).await.expect("2nd");
    let job = rig.get(id).await;
    let progress = job.progress.expect("progress");
    assert_eq!((progress.done, progress.total, &*progress.note), (2, None, "two"));
    let lines: Vec<&str> = job.log.iter().map(|line| &*line.text).collect();
    assert_eq!(lines, ["a", "b", "c"]);
    assert!(job.log.iter().all(|line| line.at >= claimed.started_at), "{:?}", job.log);
}

pub(super) async fn a_log_keeps_its_latest_lines(rig: Rig) {
    let id = rig.enqueue_one().await;
    let claimed = claim_parts(&rig, PartSet::NONE).await;
    let mut edit = update(&claimed);
    edit.log = (0..LOG_LINES_MAX).map(|n| n.to_string()).collect();
    rig.update(edit.clone()).await.expect("the maximum number of lines is accepted");
    rig.update(update(&claimed).log("last")).await.expect("one more");
    let log = rig.get(id).await.log;
    assert_eq!(log.len(), LOG_LINES_MAX);
    assert_eq!((&*log[0].text, &*log[LOG_LINES_MAX - 1].text), ("1", "last"));
}

/// The default job with the parts returned by `part`.
fn with_parts(part: impl Fn(PartName) -> Option<Part>) -> NewJob {
    let mut job = Rig::job();
    for name in PartName::ALL {
        *job.parts.slot(name) = part(name);
    }
    job
}

/// Claims one job with these parts, in a new session.
async fn claim_parts(rig: &Rig, parts: PartSet) -> ClaimedJob {
    let session = rig.session().await;
    let claim = rig.wants(&session, 1).parts(parts);
    rig.claim(claim).await.pop().expect("a job to claim")
}

fn update(job: &ClaimedJob) -> UpdateItem {
    UpdateItem::new(job.header.id, job.lease.clone())
}

fn item(job: &ClaimedJob, outcome: Outcome) -> SettleItem {
    SettleItem::new(job.header.id, job.lease.clone(), outcome)
}

fn set(text: &'static str) -> PartEdit {
    PartEdit::Set(Part::new(text))
}
