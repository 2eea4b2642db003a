//! Enqueueing single jobs.

use crate::rig::Rig;
use windlass_core::JobId;
use windlass_core::engine::{Claim, Disposition, Outcome};
use windlass_core::model::{Counters, DEFAULT_QUEUE, Due, NewJob, Policy, State};
use windlass_core::policy::{Backoff, Unique, RetentionFields};
use windlass_core::time::HOUR_MS;

pub(super) async fn an_enqueued_job_can_be_claimed_with_everything_it_was_given(rig: Rig) {
    let job = full_job();
    let answer = rig.try_enqueue(job.clone()).await.expect("enqueue");
    assert_eq!((answer.disposition, answer.state), (Disposition::Created, Some(State::Available)));
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let header = &claimed.header;
    assert_eq!((header.id, header.priority), (answer.id, job.priority));
    assert_eq!((&header.queue, &header.kind), (&job.queue, &job.kind));
    assert_eq!((&header.tenant, &header.tags), (&job.tenant, &job.tags));
    assert_eq!((&header.key, &header.unique), (&job.key, &job.unique));
    assert_eq!((&header.trace, &header.policy), (&job.trace, &job.policy));
    assert_eq!(claimed.parts.payload, job.parts.payload);
    assert_eq!(header.counters.attempt, 1, "the claim counts as the first attempt");
}

pub(super) async fn a_stored_job_reads_back_as_it_was_claimed(rig: Rig) {
    let id = rig.enqueue(full_job()).await;
    let before = rig.get(id).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let after = rig.get(id).await;
    assert_eq!(after.header, claimed.header, "get and claim return the same header");
    assert_eq!(before.parts, after.parts);
    assert_eq!(before.header.counters, Counters::default(), "no attempt had started");
    assert_eq!(after.started_at, Some(claimed.started_at));
}

pub(super) async fn a_job_with_only_a_kind_has_every_default(rig: Rig) {
    let earliest = rig.now().await;
    let id = rig.enqueue(NewJob::new("only_kind")).await;
    let latest = rig.now().await;
    let job = rig.get(id).await;
    let header = &job.header;
    assert_eq!((&*header.queue, &*header.kind), (DEFAULT_QUEUE, "only_kind"));
    assert_eq!((header.priority, &header.policy), (0, &Policy::default()));
    assert!((earliest..=latest).contains(&header.created_at), "{header:?}");
    assert!((earliest..=latest).contains(&header.run_at), "{header:?}");
    let absent = (&header.tenant, &header.key, &header.unique, header.parent, &header.trace);
    assert_eq!(absent, (&None, &None, &None, None, &None));
    assert!(header.tags.is_empty() && job.parts == Default::default(), "{job:?}");
    assert_eq!((job.state, job.started_at, job.finished_at), (State::Available, None, None));
    assert_eq!((job.finish, job.error, job.result), (None, None, None));
    assert!(job.history.is_empty() && job.log.is_empty() && !job.cancel_requested);

    let session = rig.session().await;
    let claim = Claim::new(rig.claimant(&session), DEFAULT_QUEUE, 1);
    assert_eq!(rig.claim(claim).await[0].header.id, id);
}

pub(super) async fn an_id_made_by_the_producer_is_the_jobs_id(rig: Rig) {
    let id = Rig::fresh_id();
    let answer = rig.try_enqueue(Rig::job().id(id)).await.expect("enqueue");
    assert_eq!((answer.id, answer.disposition), (id, Disposition::Created));
    assert_eq!(rig.drain(10).await, [id]);
}

pub(super) async fn the_same_id_again_is_the_same_job_and_changes_nothing(rig: Rig) {
    let id = rig.enqueue(Rig::job().id(Rig::fresh_id()).json("1").priority(5)).await;
    let before = rig.get(id).await;
    let other = Rig::job().id(id).json("2").priority(-5).max_attempts(1).due(Due::After(HOUR_MS));
    let answer = rig.try_enqueue(other).await.expect("enqueue");
    assert_eq!((answer.id, answer.disposition), (id, Disposition::Existing));
    assert_eq!(
        answer.state,
        Some(State::Available),
        "the result has the state of the existing job"
    );
    assert_eq!(rig.get(id).await, before);
    assert_eq!(rig.drain(10).await, [id], "one job is stored");
}

pub(super) async fn the_same_id_on_another_queue_is_still_the_same_job(rig: Rig) {
    let id = rig.enqueue_one().await;
    let answer = rig.try_enqueue(Rig::job().id(id).queue("elsewhere")).await.expect("enqueue");
    assert_eq!((answer.id, answer.disposition), (id, Disposition::Existing));
    let session = rig.session().await;
    let elsewhere = Claim::new(rig.claimant(&session), "elsewhere", 1);
    assert!(rig.claim(elsewhere).await.is_empty(), "nothing was stored on the other queue");
    assert_eq!(rig.drain(10).await, [id]);
}

pub(super) async fn an_enqueue_repeated_later_returns_the_current_state(rig: Rig) {
    let job = Rig::job().id(Rig::fresh_id());
    let again = async |expected: State| {
        let answer = rig.try_enqueue(job.clone()).await.expect("enqueue");
        assert_eq!((answer.disposition, answer.state), (Disposition::Existing, Some(expected)));
    };
    rig.enqueue(job.clone()).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    again(State::Running).await;
    rig.settle(&claimed, Outcome::DONE).await;
    again(State::Completed).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn ids_made_by_the_store_differ_and_carry_their_time(rig: Rig) {
    let mut ids = rig.enqueue_all(vec![Rig::job(); 100]).await;
    let now = rig.now().await;
    for id in &ids {
        id.check(now).expect("an id that a producer could use");
    }
    rig.advance(HOUR_MS);
    let later = rig.enqueue_one().await;
    assert!(ids.iter().all(|id| *id < later), "ids sort by creation time");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100, "every job has a different id");
}

pub(super) async fn a_job_is_on_its_own_queue_and_no_other(rig: Rig) {
    let here = rig.enqueue_one().await;
    let there = rig.enqueue(Rig::job().queue("there")).await;
    let session = rig.session().await;
    let ids = |jobs: Vec<_>| jobs.iter().map(id_of).collect::<Vec<_>>();
    let claim = Claim::new(rig.claimant(&session), "nowhere", 10);
    assert!(rig.claim(claim).await.is_empty());
    let claim = Claim::new(rig.claimant(&session), "there", 10);
    assert_eq!(ids(rig.claim(claim).await), [there]);
    assert_eq!(ids(rig.take(&session, 10).await), [here]);
}

fn id_of(job: &windlass_core::engine::ClaimedJob) -> JobId {
    job.header.id
}

/// A job with every field set to a non-default value.
fn full_job() -> NewJob {
    let mut job = Rig::job().priority(3).tenant("acme").key("k1").unique(Unique::by("Zürich ☂"));
    job = job.tag("red").tag("größer").json(r#"{"n":1}"#).max_attempts(7).max_crashes(9);
    job = job.backoff(Backoff::Exponential { base_ms: 1, cap_ms: 20, jitter_ms: 3 });
    job = job.max_wait_ms(123_456);
    job.policy.timeout_ms = Some(60_000);
    job.policy.retention = Some(RetentionFields { finished_ms: 1, dead_ms: 2, expired_ms: 3 }.into());
    job.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    job
}
