//! Jobs that are enqueued and completed in transactions of the application, by every driver.

#![cfg(all(feature = "sqlx", feature = "diesel", feature = "diesel-async"))]
#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::{OwnSchema, application, open};
use crate::drivers::{Driver, Script};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{AttemptEnd, NewJob, Part, PartSet, State};
use windlass_core::policy::{OnConflict, Retention, Unique, Until};
use windlass_core::random::SystemRandom;
use windlass_postgres::{PostgresEngine, Transactional};

async fn states(engine: &PostgresEngine, ids: &[JobId]) -> Vec<Option<State>> {
    let found = engine.get(Get::new(ids.iter().copied())).await.unwrap().value;
    found.into_iter().map(|job| job.map(|job| job.state)).collect()
}

async fn claim_one(engine: &PostgresEngine) -> ClaimedJob {
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    engine.claim(Claim::new(by, "default", 1)).await.unwrap().value.jobs.pop().unwrap()
}

async fn enqueue(engine: &PostgresEngine, job: NewJob) -> JobId {
    engine.enqueue(Enqueue::each([job])).await.unwrap().value.remove(0).unwrap().id
}

fn completion(job: &ClaimedJob) -> SettleItem {
    let outcome = Outcome::Complete { result: Some(Part::new("42")) };
    SettleItem::new(job.header.id, job.lease.clone(), outcome)
}

async fn assert_sound(engine: &PostgresEngine) {
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}

/// Jobs whose end does nothing else, and jobs whose end frees keys or is kept for a time of its own.
fn jobs() -> [NewJob; 5] {
    let mut kept = NewJob::new("mail");
    kept.policy.retention = Some(Retention::uniform_ms(3_600_000));
    [
        NewJob::new("mail"),
        NewJob::new("mail").key("k"),
        NewJob::new("mail").unique(Unique::by("u")),
        NewJob::new("mail").unique(Unique::by("r").until(Until::Removed)),
        kept,
    ]
}

#[tokio::test]
async fn jobs_exist_when_the_transaction_commits_and_never_did_if_it_does_not() {
    for mut driver in Driver::all().await {
        let schema = OwnSchema::new();
        let (engine, jobs) = (open(&schema).await, Transactional::new(&schema.name).unwrap());
        let strict = Unique::by("u").on_conflict(OnConflict::Reject);
        let batch = [
            NewJob::new("mail").json("{}"),
            NewJob::new("mail").key("a"),
            NewJob::new("mail").key("a"),
            NewJob::new("mail").unique(strict.clone()),
        ];
        for rolls_back in [true, false] {
            let script = Script { rolls_back, ..Script::enqueue(Enqueue::each(batch.clone())) };
            let done = driver.run(&jobs, script).await.unwrap();
            let ids: Vec<JobId> = done.enqueued.into_iter().map(|item| item.unwrap().id).collect();
            let expected = match rolls_back {
                true => vec![None; 4],
                false => vec![
                    Some(State::Available),
                    Some(State::Available),
                    Some(State::Blocked),
                    Some(State::Available),
                ],
            };
            assert_eq!(states(&engine, &ids).await, expected, "{}", driver.name());
        }
        // A refusal of one job leaves the others and the transaction alone.
        let batch = [NewJob::new("mail"), NewJob::new("mail").unique(strict)];
        let script = Script::enqueue(Enqueue::each(batch));
        let done = driver.run(&jobs, script).await.unwrap();
        assert!(done.enqueued[0].is_ok(), "{}", driver.name());
        assert_eq!(done.enqueued[1].as_ref().unwrap_err().code(), "duplicate");
        assert_sound(&engine).await;
    }
}

#[tokio::test]
async fn a_completion_is_there_exactly_if_the_transaction_commits() {
    for mut driver in Driver::all().await {
        let schema = OwnSchema::new();
        let (engine, ours) = (open(&schema).await, Transactional::new(&schema.name).unwrap());
        for job in jobs() {
            let what = format!("{} {job:?}", driver.name());
            let id = enqueue(&engine, job.clone()).await;
            let claimed = claim_one(&engine).await;
            let item = completion(&claimed);
            let script = Script { rolls_back: true, ..Script::settle(item.clone()) };
            let done = driver.run(&ours, script).await.unwrap();
            assert!(done.settled.unwrap().is_ok_and(|settled| !settled.already), "{what}");
            assert_eq!(states(&engine, &[id]).await, [Some(State::Running)], "{what}");
            assert_sound(&engine).await;

            let done = driver.run(&ours, Script::settle(item.clone())).await.unwrap();
            assert!(done.settled.unwrap().is_ok_and(|settled| !settled.already), "{what}");
            let get = Get::new([id]).parts(PartSet::ALL);
            let found = engine.get(get).await.unwrap().value.remove(0).unwrap();
            assert_eq!(found.state, State::Completed, "{what}");
            assert_eq!(found.result, Some(Part::new("42")), "{what}");
            assert_eq!(found.history.len(), 1, "{what}");
            assert_sound(&engine).await;

            // The worker's own report, and a repeated completion in a transaction.
            let again =
                engine.settle(Settle::new([item.clone()])).await.unwrap().value.items.remove(0);
            let again = again.unwrap();
            assert_eq!((again.already, again.end), (true, AttemptEnd::Complete), "{what}");
            let done = driver.run(&ours, Script::settle(item)).await.unwrap();
            assert!(done.settled.unwrap().is_ok_and(|settled| settled.already), "{what}");
        }
    }
}

#[tokio::test]
async fn the_end_of_a_job_in_a_transaction_frees_its_keys_at_the_commit() {
    for mut driver in Driver::all().await {
        let schema = OwnSchema::new();
        let (engine, ours) = (open(&schema).await, Transactional::new(&schema.name).unwrap());
        let job = || NewJob::new("mail").key("k");
        let first = enqueue(&engine, job().unique(Unique::by("u"))).await;
        let second = enqueue(&engine, job()).await;
        assert_eq!(states(&engine, &[second]).await, [Some(State::Blocked)]);
        let claimed = claim_one(&engine).await;
        assert_eq!(claimed.header.id, first);
        // With a follow-up that takes the key that is freed.
        let follow_up = NewJob::new("mail").unique(Unique::by("u").on_conflict(OnConflict::Reject));
        let item = completion(&claimed).follow_up(follow_up);
        let done = driver.run(&ours, Script::settle(item)).await.unwrap();
        let settled = done.settled.unwrap().unwrap();
        assert_eq!(settled.follow_ups.len(), 1, "{}", driver.name());
        let follow_up = settled.follow_ups[0].id;
        let expected = [Some(State::Completed), Some(State::Available), Some(State::Available)];
        let found = states(&engine, &[first, second, follow_up]).await;
        assert_eq!(found, expected, "{}", driver.name());
        assert_sound(&engine).await;
    }
}

#[tokio::test]
async fn a_job_moves_to_a_queue_that_has_no_lane_yet_when_the_transaction_commits() {
    for mut driver in Driver::all().await {
        let schema = OwnSchema::new();
        let (engine, ours) = (open(&schema).await, Transactional::new(&schema.name).unwrap());
        let id = enqueue(&engine, NewJob::new("mail")).await;
        let claimed = claim_one(&engine).await;
        let item = SettleItem::new(id, claimed.lease.clone(), Outcome::Release).queue("elsewhere");
        let done = driver.run(&ours, Script::settle(item)).await.unwrap();
        assert_eq!(done.settled.unwrap().unwrap().state, State::Available, "{}", driver.name());
        let job = engine.get(Get::new([id])).await.unwrap().value.remove(0).unwrap();
        assert_eq!((&*job.header.queue, job.state), ("elsewhere", State::Available));
        assert_sound(&engine).await;
    }
}

#[tokio::test]
async fn a_lost_lease_makes_the_completion_fail_so_that_one_worker_wins() {
    for mut driver in Driver::all().await {
        let schema = OwnSchema::new();
        let (engine, ours) = (open(&schema).await, Transactional::new(&schema.name).unwrap());
        let client = application().await;
        let table = format!("\"{}\".witness", schema.name);
        client.batch_execute(&format!("CREATE TABLE {table} (worker text)")).await.unwrap();
        for job in jobs() {
            let id = enqueue(&engine, job.max_crashes(9)).await;
            let first = claim_one(&engine).await;
            // The first worker has given it back, and tries to complete it all the same.
            let held = SettleItem::new(id, first.lease.clone(), Outcome::Release);
            engine.settle(Settle::new([held])).await.unwrap().value.items.remove(0).unwrap();
            let second = claim_one(&engine).await;
            assert_eq!(second.header.id, id);
            let write = |worker: &str, claimed: &ClaimedJob| Script {
                sql: format!("INSERT INTO {table} VALUES ('{worker}')"),
                ..Script::settle(completion(claimed))
            };
            let mut forged = second.clone();
            forged.lease = Lease::new("0".repeat(32));
            for stale in [&first, &forged] {
                let script = Script { rolls_back: true, ..write("first", stale) };
                let refused = driver.run(&ours, script).await.unwrap().settled.unwrap();
                assert_eq!(refused.unwrap_err().code(), "lease_lost", "{}", driver.name());
            }
            let done = driver.run(&ours, write("second", &second)).await.unwrap();
            assert!(!done.settled.unwrap().unwrap().already);
            let written = format!("DELETE FROM {table} RETURNING worker");
            let written: Vec<String> =
                client.query(&written, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
            assert_eq!(written, ["second"], "{}", driver.name());
        }
        assert_sound(&engine).await;
    }
}

#[tokio::test]
async fn a_snapshot_that_may_be_out_of_date_ends_no_job() {
    let schema = OwnSchema::new();
    let (engine, ours) = (open(&schema).await, Transactional::new(&schema.name).unwrap());
    enqueue(&engine, NewJob::new("mail")).await;
    let claimed = claim_one(&engine).await;
    let mut client = application().await;
    let level = tokio_postgres::IsolationLevel::Serializable;
    let mut transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
    let refused = ours.settle(&mut transaction, completion(&claimed)).await.unwrap_err();
    assert!(refused.to_string().contains("READ COMMITTED"), "{refused}");
}

#[tokio::test]
async fn the_sql_function_completes_jobs_that_were_claimed_without_a_session() {
    let (schema, client) = (OwnSchema::new(), application().await);
    let engine = open(&schema).await;
    for _ in 0..2 {
        enqueue(&engine, NewJob::new("mail")).await;
    }
    let (claim_id, worker) = (ClaimId::random(&SystemRandom), "curl".to_owned());
    let by = Claimant::Alone { claim_id, worker, lease_ms: 60_000 };
    let claimed = engine.claim(Claim::new(by, "default", 2)).await.unwrap().value.jobs;
    let complete = format!("SELECT \"{}\".complete($1, $2)", schema.name);
    for left in [1, 0] {
        let (id, lease) = (claimed[left].header.id, claimed[left].lease.clone());
        let done = client.query_one(&complete, &[&id.as_uuid(), &lease.as_str()]).await.unwrap();
        assert!(done.get::<_, bool>(0), "it was not completed before");
        let report = Settle::new([SettleItem::new(id, lease, Outcome::DONE)]);
        let settled = engine.settle(report).await.unwrap().value.items.remove(0).unwrap();
        assert_eq!((settled.already, settled.state), (true, State::Completed));
        let sessions = engine.sessions().await.unwrap().value;
        assert_eq!(sessions.len(), left, "the session of a claim ends with its last lease");
        assert_sound(&engine).await;
    }
}

#[tokio::test]
async fn the_sql_function_refuses_jobs_whose_end_frees_something_and_names_the_way_out() {
    let [_, others @ ..] = jobs();
    for job in others {
        let (schema, mut client) = (OwnSchema::new(), application().await);
        let (engine, ours) = (open(&schema).await, Transactional::new(&schema.name).unwrap());
        let id = enqueue(&engine, job).await;
        let claimed = claim_one(&engine).await;
        let complete = format!("SELECT \"{}\".complete($1, $2)", schema.name);
        let refused = client.query_one(&complete, &[&id.as_uuid(), &claimed.lease.as_str()]).await;
        let refused = refused.unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert_eq!(refused.code().code(), "0A000");
        for way_out in ["windlass::postgres::Jobs", "POST /v1/settle"] {
            assert!(refused.message().contains(way_out), "{refused}");
        }
        // The lease is still valid, and the library completes the job.
        let mut transaction = client.transaction().await.unwrap();
        ours.settle(&mut transaction, completion(&claimed)).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(states(&engine, &[id]).await, [Some(State::Completed)]);
        assert_sound(&engine).await;
    }
}
