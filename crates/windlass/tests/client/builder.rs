//! Single jobs: as their type says, or as the builder says.

use crate::support::*;
use std::time::Duration;
use windlass::model::{PartName, PartSet};
use windlass::testing::{START, TestQueue};
use windlass::{Backoff, Disposition, OnConflict, State, Unique, Until, backoff};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_plain_enqueue_stores_the_job_as_its_type_describes_it() {
    let queue = TestQueue::new();
    let client = queue.client();
    let enqueued = client.enqueue(email("ada")).await.unwrap();
    assert_eq!(enqueued.enqueued().unwrap().disposition, Disposition::Created);
    let stored = queue.job(enqueued.id());
    assert_eq!((&*stored.header.kind, &*stored.header.queue), ("send_email", "mail"));
    assert_eq!(stored.header.policy.max_attempts, 3);
    assert_eq!(enqueued.payload().await.unwrap(), email("ada"));
}

#[tokio::test]
async fn everything_the_builder_says_is_stored() {
    let queue = TestQueue::new();
    let client = queue.client();
    let id = client.new_id();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let built = client
        .enqueue(email("ada"))
        .id(id)
        .queue("slow")
        .delay(HOUR)
        .priority(7)
        .unique("welcome:ada")
        .key("ada")
        .tenant("acme")
        .tag("a")
        .tag("b")
        .trace(parent)
        .max_attempts(9)
        .max_crashes(0)
        .backoff(backoff::fixed(Duration::from_secs(2)))
        .timeout(Duration::from_secs(30))
        .max_wait(2 * HOUR)
        .retention(3 * HOUR)
        .metadata(&["note"])
        .checkpoint(&42)
        .blob(vec![1, 2, 3]);
    assert_eq!(built.await.unwrap().id(), id);

    let job = queue.job(id);
    let header = &job.header;
    assert_eq!((&*header.queue, header.priority), ("slow", 7));
    assert_eq!(header.run_at, START.plus(3_600_000));
    assert_eq!(header.unique, Some(Unique::by("welcome:ada")));
    assert_eq!((header.key.as_deref(), header.tenant.as_deref()), (Some("ada"), Some("acme")));
    assert_eq!(
        (header.tags.as_slice(), header.trace.as_deref()),
        (&["a".into(), "b".into()][..], Some(parent))
    );
    let policy = &header.policy;
    assert_eq!((policy.max_attempts, policy.max_crashes), (9, 0));
    assert_eq!(policy.backoff, Backoff::Fixed { delay_ms: 2_000, jitter_ms: 1_000 });
    assert_eq!((policy.timeout_ms, policy.max_wait_ms), (Some(30_000), Some(7_200_000)));
    assert_eq!(policy.retention, Some(windlass::Retention::uniform_ms(10_800_000)));
    let text = |name| String::from_utf8_lossy(&job.parts.get(name).unwrap().bytes).into_owned();
    assert_eq!(text(PartName::Metadata), r#"["note"]"#);
    assert_eq!(text(PartName::Checkpoint), "42");
    assert_eq!(job.parts.blob.as_ref().unwrap().bytes, vec![1, 2, 3]);
}

#[tokio::test]
async fn an_instant_in_the_future_is_waited_for_and_one_in_the_past_is_now() {
    let queue = TestQueue::new();
    let client = queue.client();
    let later = client.enqueue(email("ada")).run_at(START.plus(1_000)).await.unwrap();
    let past = client.enqueue(email("alan")).run_at(START.minus(1_000)).await.unwrap();
    assert_eq!(later.state().await.unwrap(), State::Scheduled);
    assert_eq!(past.state().await.unwrap(), State::Available);
}

#[tokio::test]
async fn a_unique_job_is_stored_once_and_the_second_names_the_first() {
    let client = TestQueue::new().client();
    let first = client.enqueue(email("ada")).unique("ada").await.unwrap();
    let second = client.enqueue(email("ada")).unique("ada").await.unwrap();
    assert_eq!((second.id(), second.is_new()), (first.id(), false));
    let rejecting = Unique::by("ada").on_conflict(OnConflict::Reject);
    let error = client.enqueue(email("ada")).unique_with(rejecting).await.unwrap_err();
    assert_eq!(error.code(), "duplicate");
}

#[tokio::test]
async fn a_unique_window_outlives_the_job() {
    let queue = TestQueue::new();
    let client = queue.client();
    let first = client.enqueue(email("ada")).unique_for("ada", HOUR).await.unwrap();
    assert_eq!(queue.job(first.id()).header.unique.unwrap().until, Until::window_ms(3_600_000));
    client.cancel(first.id()).await.unwrap();
    let within = client.enqueue(email("ada")).unique_for("ada", HOUR).await.unwrap();
    assert!(!within.is_new());
    queue.advance(HOUR);
    let after = client.enqueue(email("ada")).unique_for("ada", HOUR).await.unwrap();
    assert!(after.is_new());
}

#[tokio::test]
async fn the_same_id_again_is_the_same_job() {
    let queue = TestQueue::new();
    let client = queue.client();
    let id = client.new_id();
    for expected in [Disposition::Created, Disposition::Existing] {
        assert_eq!(
            client.enqueue(email("ada")).id(id).await.unwrap().enqueued().unwrap().disposition,
            expected
        );
    }
    queue.assert_count::<SendEmail>(1);
}

#[tokio::test]
async fn an_untyped_job_has_the_payload_it_is_given() {
    let queue = TestQueue::new();
    let client = queue.client();
    let payload = serde_json::json!({ "to": "ada" });
    client.enqueue(windlass::job_of("send_email")).payload(&payload).await.unwrap();
    queue.assert_enqueued::<SendEmail>(|job| job.to == "ada");
    let raw = client
        .enqueue(windlass::job_of("raw"))
        .payload_bytes("\u{1}")
        .checkpoint_bytes("s")
        .await
        .unwrap();
    let raw = client.get_with(raw.id(), PartSet::ALL).await.unwrap().unwrap();
    assert_eq!(raw.parts.payload.unwrap().bytes, "\u{1}");
    assert_eq!(raw.parts.checkpoint.unwrap().bytes, "s");
}

#[tokio::test]
async fn a_builder_that_is_not_awaited_enqueues_nothing() {
    let queue = TestQueue::new();
    drop(queue.client().enqueue(email("ada")));
    assert!(queue.jobs().is_empty());
}

#[tokio::test]
async fn invalid_jobs_are_refused_with_field_and_value() {
    let queue = TestQueue::new();
    let client = queue.client();
    let error = client.enqueue(windlass::job_of("send email")).await.unwrap_err();
    assert_eq!(error.as_engine().unwrap().field(), Some("kind"));
    let error = client.enqueue(email("ada")).delay(Duration::MAX).await.unwrap_err();
    assert_eq!(error.as_engine().unwrap().field(), Some("delay_ms"));
    let error = client.enqueue(email("ada")).timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.as_engine().unwrap().field(), Some("timeout_ms"));
    for error in [
        client.enqueue(Unspeakable).await.unwrap_err(),
        client
            .enqueue(windlass::job_of("unspeakable"))
            .payload(&Unspeakable)
            .tag("x")
            .await
            .unwrap_err(),
    ] {
        assert_eq!(error.code(), "unwritable");
        assert!(error.to_string().contains("\"unspeakable\" job"), "{error}");
    }
    assert!(queue.jobs().is_empty());
}

#[tokio::test]
async fn a_payload_is_not_read_as_another_kind() {
    let client = TestQueue::new().client();
    let id = client.enqueue(windlass::job_of("other")).payload(&email("ada")).await.unwrap().id();
    let error = client.job::<SendEmail>(id).payload().await.unwrap_err();
    assert_eq!(error.code(), "unreadable");
    assert!(error.to_string().contains("it is a \"other\" job"), "{error}");
    let gone = client.job::<SendEmail>(client.new_id()).payload().await.unwrap_err();
    assert_eq!(gone.code(), "not_found");
}
