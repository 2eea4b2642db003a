//! The configured payload limit of an engine, which the conformance suite cannot set.

use crate::rig::Rig;
use windlass_core::engine::{Change, Edits, Outcome, SettleItem};
use windlass_core::limits::PAYLOAD_BYTES_DEFAULT;
use windlass_core::model::{Part, PartEdit};
use windlass_core::{Error, Result};

/// The limit with which the checks open an engine: 10 MiB.
pub const LARGE_BYTES: usize = 10 * 1024 * 1024;

/// Checks an engine that was opened with the payload limit [`LARGE_BYTES`]: jobs, follow-ups and replays may have
/// payloads up to it, which claims return unchanged, and no larger ones.
pub async fn payloads_up_to_the_configured_limit(rig: Rig) {
    assert_eq!(rig.engine().capabilities().payload_bytes_max, LARGE_BYTES);
    let session = rig.session().await;
    let id = rig.enqueue(Rig::job().payload(bytes(LARGE_BYTES, 1))).await;
    let first = rig.take_one(&session).await;
    assert_eq!(first.header.id, id);
    is_payload(first.parts.payload.as_ref(), 1);
    let report = SettleItem::new(id, first.lease, Outcome::fail("code", "message"));
    let report = report.follow_up(Rig::job().payload(bytes(LARGE_BYTES, 2)));
    rig.try_settle(report).await.expect("settles with a large follow-up");
    let second = rig.take_one(&session).await;
    is_payload(second.parts.payload.as_ref(), 2);
    rig.settle(&second, Outcome::DONE).await;
    rig.try_change(id, replay(bytes(LARGE_BYTES, 3))).await.expect("replays with a large payload");
    let third = rig.take_one(&session).await;
    is_payload(third.parts.payload.as_ref(), 3);
    let more = bytes(LARGE_BYTES + 1, 4);
    too_large(rig.try_enqueue(Rig::job().payload(more.clone())).await, LARGE_BYTES);
    rig.settle(&third, Outcome::fail("code", "message")).await;
    too_large(rig.try_change(id, replay(more)).await, LARGE_BYTES);
    rig.assert_sound().await;
}

/// Checks an engine without a configured limit: a payload of 10 MiB is refused.
pub async fn large_payloads_are_refused_by_default(rig: Rig) {
    assert_eq!(rig.engine().capabilities().payload_bytes_max, PAYLOAD_BYTES_DEFAULT);
    let refused = rig.try_enqueue(Rig::job().payload(bytes(LARGE_BYTES, 1))).await;
    too_large(refused, PAYLOAD_BYTES_DEFAULT);
    rig.assert_nothing_to_claim().await;
}

/// Bytes that are no JSON, so that wire formats encode them in the longest way.
fn bytes(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![seed; length];
    bytes[length / 2] = 0xFF;
    bytes
}

fn is_payload(part: Option<&Part>, seed: u8) {
    let part = part.expect("a payload");
    assert!(part.bytes == bytes(LARGE_BYTES, seed), "the payload has changed");
}

fn replay(payload: Vec<u8>) -> Change {
    let mut edits = Edits::default();
    edits.payload = PartEdit::Set(Part::new(payload));
    Change::Replay(Box::new(edits))
}

fn too_large<T: std::fmt::Debug>(result: Result<T>, expected: usize) {
    match result {
        Err(Error::TooLarge { field, limit, .. }) => {
            assert_eq!((&*field, limit), ("payload", expected as u64));
        }
        other => panic!("a payload above the limit must be refused: {other:?}"),
    }
}
