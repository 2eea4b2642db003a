//! Jobs and reports survive the conversion to JSON and back.

use proptest::prelude::*;
use windlass_core::engine::{self, Claimant, Lease, Outcome, SessionId};
use windlass_core::model::{
    Codec, Due, Envelope, JobError, Location, NewJob, Part, PartEdit, PartEditsFields, PartName,
    PartSet,
};
use windlass_core::policy::{Backoff, OnConflict, Retention, Unique, UniqueScope, Until};
use windlass_core::random::Seeded;
use windlass_core::{JobId, Timestamp};
use windlass_wire as wire;

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "\\PC{0,6}", Just("\0\"\\\u{1b}".to_owned())]
}

fn id() -> impl Strategy<Value = JobId> {
    any::<[u8; 16]>().prop_map(JobId::from_bytes)
}

fn part() -> impl Strategy<Value = Part> {
    let bytes = prop_oneof![
        Just(b"{\"a\": [1, null]}".to_vec()),
        Just(b"null".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    let sealed = (bytes.clone(), text(), text()).prop_map(|(bytes, codec, at)| {
        let (codec, location) = (Codec::Other(codec), Location::At(at));
        let envelope = Envelope::PLAIN.with_codec(codec).with_location(location).with_key_id("k");
        Part::sealed(envelope, bytes)
    });
    prop_oneof![3 => bytes.prop_map(Part::new), 1 => sealed]
}

fn due() -> impl Strategy<Value = Due> {
    prop_oneof![
        Just(Due::Now),
        any::<u64>().prop_map(Due::After),
        any::<i64>().prop_map(|ms| Due::At(Timestamp::from_millis(ms))),
    ]
}

fn unique() -> impl Strategy<Value = Unique> {
    let until = prop_oneof![
        Just(Until::Finished),
        Just(Until::Removed),
        any::<u64>().prop_map(Until::window_ms)
    ];
    let scope = prop_oneof![
        Just(UniqueScope::Lane),
        Just(UniqueScope::Queue),
        Just(UniqueScope::Kind),
        Just(UniqueScope::Global)
    ];
    let on_conflict = prop_oneof![
        Just(OnConflict::Existing),
        Just(OnConflict::Replace),
        Just(OnConflict::Debounce),
        Just(OnConflict::Throttle),
        Just(OnConflict::Reject),
    ];
    (text(), scope, until, on_conflict).prop_map(|(key, scope, until, on_conflict)| {
        Unique::by(key).scope(scope).until(until).on_conflict(on_conflict)
    })
}

fn backoff() -> impl Strategy<Value = Backoff> {
    let fixed = any::<(u64, u64)>();
    let growing = any::<(u64, u64, u64)>();
    prop_oneof![
        Just(Backoff::default()),
        fixed.prop_map(|(delay_ms, jitter_ms)| Backoff::Fixed { delay_ms, jitter_ms }),
        growing.prop_map(|(base_ms, cap_ms, jitter_ms)| {
            Backoff::Exponential { base_ms, cap_ms, jitter_ms }
        }),
    ]
}

prop_compose! {
    fn new_job()(
        (id, kind, queue, priority) in (proptest::option::of(id()), text(), text(), any::<i32>()),
        (due, tenant, key, unique) in
            (due(), proptest::option::of(text()), proptest::option::of(text()), proptest::option::of(unique())),
        parts in proptest::array::uniform4(proptest::option::of(part())),
        (tags, parent) in (proptest::collection::vec(text(), 0..3), proptest::option::of(id())),
        (attempts, crashes, timeout, max_wait) in any::<(u32, u32, Option<u64>, Option<u64>)>(),
        (backoff, retention) in (backoff(), any::<Option<u64>>()),
    ) -> NewJob {
        let mut job = NewJob::new(kind).queue(queue).priority(priority).due(due);
        (job.id, job.tenant, job.key, job.unique) = (id, tenant, key, unique);
        (job.tags, job.parent) = (tags, parent);
        for (name, part) in PartName::ALL.into_iter().zip(parts) {
            *job.parts.slot(name) = part;
        }
        job.policy.max_attempts = attempts;
        job.policy.max_crashes = crashes;
        job.policy.timeout_ms = timeout;
        job.policy.max_wait_ms = max_wait;
        job.policy.backoff = backoff;
        job.policy.retention = retention.map(Retention::uniform_ms);
        job
    }
}

fn edit() -> impl Strategy<Value = PartEdit> {
    prop_oneof![Just(PartEdit::Keep), Just(PartEdit::Unset), part().prop_map(PartEdit::Set)]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let error = || (text(), text()).prop_map(|(code, message)| JobError { code, message });
    prop_oneof![
        proptest::option::of(part()).prop_map(|result| Outcome::Complete { result }),
        (error(), any::<Option<u64>>())
            .prop_map(|(error, delay_ms)| Outcome::Retry { error, delay_ms }),
        any::<u64>().prop_map(|delay_ms| Outcome::Snooze { delay_ms }),
        error().prop_map(|error| Outcome::Fail { error }),
        Just(Outcome::Release),
        Just(Outcome::WAIT),
        Just(Outcome::Cancel),
    ]
}

prop_compose! {
    fn report()(
        id in id(),
        (lease, outcome) in (text(), outcome()),
        (payload, checkpoint, metadata, blob) in (edit(), edit(), edit(), edit()),
        (priority, queue) in (any::<Option<i32>>(), proptest::option::of(text())),
        follow_ups in proptest::collection::vec(new_job(), 0..2),
    ) -> engine::SettleItem {
        let mut item = engine::SettleItem::new(id, Lease::new(lease), outcome);
        item.parts = PartEditsFields { payload, checkpoint, metadata, blob }.into();
        item.queue = queue.map(Into::into);
        (item.priority, item.follow_ups) = (priority, follow_ups);
        item
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_job_arrives_as_it_was_enqueued(job in new_job()) {
        let text = wire::write(&wire::NewJob::from(job.clone()));
        prop_assert_eq!(wire::read::<wire::NewJob>(&text).unwrap().into_core().unwrap(), job);
    }

    #[test]
    fn a_report_arrives_as_it_was_made(item in report()) {
        let text = wire::write(&wire::SettleItem::from(item.clone()));
        prop_assert_eq!(wire::read::<wire::SettleItem>(&text).unwrap().into_core().unwrap(), item);
    }
}

#[test]
fn a_claim_arrives_as_it_was_made() {
    let by = Claimant::Session { session: SessionId::new("s"), claim_no: u64::MAX };
    let claim =
        engine::Claim::new(by, "a", 7).queue("b", 3).kind("k", u32::MAX).parts(PartSet::ALL);
    let text = wire::write(&wire::Claim::from(claim.clone()));
    let back = wire::read::<wire::Claim>(&text).unwrap().into_core(&Seeded::new(1)).unwrap();
    assert_eq!((back.by, back.queues, back.kinds), (claim.by, claim.queues, claim.kinds));
    assert_eq!((back.limit, back.parts), (claim.limit, claim.parts));
}
