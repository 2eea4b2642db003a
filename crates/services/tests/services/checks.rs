//! Checks of a sample of completed jobs.

use crate::spy::{SeenSteps, Spy};
use crate::support::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{
    CheckRule, Dependency, Job, Join, KindRules, NewJob, Part, PartSet, State, is_check,
};
use windlass_memory::MemoryEngine;
use windlass_services::{Checks, Kinds};

/// Registers a kind whose jobs are checked.
async fn check(engine: &Arc<MemoryEngine>, kind: &str, rule: CheckRule) {
    let mut rules = KindRules::default();
    rules.check = Some(rule);
    Kinds::new(engine.clone()).put(kind, &rules).await.expect("valid rules");
}

/// Claims jobs of the default queue.
async fn claim(engine: &dyn Engine, number: &str, jobs: u32) -> Vec<ClaimedJob> {
    let claim_id = ClaimId::new(number);
    let by = Claimant::Alone { claim_id, worker: "tester".into(), lease_ms: 10_000 };
    engine.claim(Claim::new(by, "default", jobs)).await.expect("claims").value.jobs
}

/// The report that completes a job, with its number as the result.
fn report(job: &ClaimedJob) -> SettleItem {
    let result = Some(Part::new(format!("[{:?}]", job.header.id.to_string())));
    SettleItem::new(job.header.id, job.lease.clone(), Outcome::Complete { result })
}

async fn all_checks(engine: &dyn Engine) -> Vec<Job> {
    let filter = Filter::default().queue("checks");
    let list = List::new(filter).limit(1_000);
    let found = engine.list(list).await.expect("the store answers").value.rows;
    let mut checks = Vec::new();
    for job in found {
        let get = Get::new([job.header.id]).parts(PartSet::ALL);
        checks.push(
            engine.get(get).await.expect("the store answers").value.remove(0).expect("it is there"),
        );
    }
    checks
}

#[tokio::test(start_paused = true)]
async fn the_checks_of_a_thousand_jobs_are_those_of_the_sample_once_each() {
    let store = memory();
    let rule = CheckRule::new("verify").queue("checks").per_mille(100).after_ms(60_000);
    check(&store, "send", rule.clone()).await;
    // As in two servers, one of which loses replies.
    let spy = Spy::new(Arc::new(Checks::new(store.clone())), 0, SeenSteps::default());
    let layers: [&dyn Engine; 2] = [&spy, &Checks::new(store.clone())];
    let mut ids = BTreeSet::new();
    for n in 0..10 {
        let jobs = (0..100).map(|k| NewJob::new("send").json(format!("{{\"n\":{}}}", n * 100 + k)));
        store.enqueue(Enqueue::each(jobs)).await.unwrap();
        let claimed = claim(&*store, &format!("claim {n}"), 100).await;
        ids.extend(claimed.iter().map(|job| job.header.id));
        let settle = || Settle::new(claimed.iter().map(report));
        // Every other reply is lost, and the report is repeated: once through each layer.
        spy.set_deaf(n % 2 == 0);
        let first = layers[0].settle(settle()).await;
        spy.set_deaf(false);
        assert_eq!(first.is_err(), n % 2 == 0);
        if let Ok(reply) = first {
            let items = reply.value.items.iter().flatten();
            assert!(
                items.clone().count() == 100 && items.clone().all(|it| it.follow_ups.is_empty())
            );
        }
        for layer in &layers {
            let again = layer.settle(settle()).await.unwrap().value.items;
            assert!(again.iter().all(|item| item.as_ref().is_ok_and(|item| item.already)));
        }
    }
    let checks = all_checks(&*store).await;
    let checked: BTreeSet<JobId> = checks.iter().filter_map(|job| job.header.parent).collect();
    let sample: BTreeSet<JobId> = ids.into_iter().filter(|id| rule.samples(*id)).collect();
    assert!((70..130).contains(&sample.len()), "about a tenth: {}", sample.len());
    assert_eq!(checked, sample);
    assert_eq!(checks.len(), sample.len(), "once each");
    for job in &checks {
        assert!(job.state == State::Scheduled && &*job.header.kind == "verify" && is_check(job));
        let delay = job.header.run_at.since(job.header.created_at);
        let [input] = &job.inputs[..] else { panic!("{:?}", job.inputs) };
        let (id, payload) = (job.header.parent.unwrap(), job.parts.payload.as_ref().unwrap());
        assert_eq!((delay, input.job, input.outcome), (60_000, id, Some(State::Completed)));
        assert_eq!(input.name.as_deref(), Some("checked"));
        assert_eq!(input.result.as_ref().unwrap().bytes, format!("[{:?}]", id.to_string()));
        assert!(payload.bytes.starts_with(b"{\"n\":"));
    }
}

#[tokio::test(start_paused = true)]
async fn only_completed_jobs_of_the_kind_are_checked_and_checks_are_not() {
    let store = memory();
    // Each checks the other: their checks are not checked.
    check(&store, "one", CheckRule::new("two")).await;
    check(&store, "two", CheckRule::new("one")).await;
    let engine = Checks::new(store.clone());
    let jobs = ["one", "two", "three", "one"].map(NewJob::new);
    store.enqueue(Enqueue::each(jobs)).await.unwrap();
    let claimed = claim(&*store, "all", 10).await;
    let mut items: Vec<SettleItem> = claimed.iter().map(report).collect();
    items[3].outcome = Outcome::fail("broken", "it is broken");
    let reply = engine.settle(Settle::new(items)).await.unwrap().value.items;
    assert!(reply.iter().all(Result::is_ok), "{reply:?}");
    let checks = claim(&*store, "checks", 10).await;
    let kinds: BTreeSet<&str> = checks.iter().map(|job| &*job.header.kind).collect();
    assert_eq!((checks.len(), kinds), (2, BTreeSet::from(["one", "two"])));
    engine.settle(Settle::new(checks.iter().map(report))).await.unwrap();
    assert_eq!(claim(&*store, "none", 10).await.len(), 0, "it ends here");
}

#[tokio::test(start_paused = true)]
async fn rules_apply_within_a_second_and_end_with_the_kind() {
    let store = memory();
    let engine = Checks::new(store.clone());
    let complete_one = async |number: &str| {
        enqueue(&*store, NewJob::new("send")).await;
        let claimed = claim(&*store, number, 1).await;
        engine.settle(Settle::new(claimed.iter().map(report))).await.unwrap();
        all_checks(&*store).await.len()
    };
    assert_eq!(complete_one("before").await, 0);
    let mut defaults = KindRules::default();
    defaults.max_attempts = Some(3);
    Kinds::new(store.clone()).put("verify", &defaults).await.unwrap();
    check(&store, "send", CheckRule::new("verify").queue("checks")).await;
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    assert_eq!(complete_one("after").await, 1);
    let policy = all_checks(&*store).await[0].header.policy.clone();
    assert_eq!(policy.max_attempts, 3, "the defaults of its kind apply");
    Kinds::new(store.clone()).remove("send").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    assert_eq!(complete_one("removed").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_beside_other_follow_ups_leaves_them_alone() {
    let store = memory();
    check(&store, "send", CheckRule::new("verify").queue("checks")).await;
    let engine = Checks::new(store.clone());
    let first = enqueue(&*store, NewJob::new("send")).await;
    let collector = enqueue(&*store, NewJob::new("collect").after(Dependency::on(first))).await;
    let claimed = claim(&*store, "first", 1).await;
    // One of them joins a job that waits.
    let joining = NewJob::new("page").queue("pages");
    let mut joining = joining;
    joining.joins = Some(Join::to(collector));
    let item = report(&claimed[0]).follow_up(NewJob::new("next").queue("nexts")).follow_up(joining);
    let reply = engine.settle(Settle::new([item])).await.unwrap().value.items.remove(0).unwrap();
    assert_eq!(reply.follow_ups.len(), 2, "those of the caller");
    let checks = all_checks(&*store).await;
    assert_eq!(checks.len(), 1);
    assert!(checks[0].inputs[0].result.is_some() && checks[0].state == State::Available);
    assert_eq!(job(&*store, collector).await.unwrap().dependencies.open, 1, "the page");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_the_store_refuses_does_not_prevent_the_completion() {
    let store = memory();
    check(&store, "send", CheckRule::new("verify").queue("checks")).await;
    // The queue has no room for another kind.
    let lanes = (0..windlass_core::limits::LANES_PER_QUEUE_MAX).map(|n| format!("kind{n}"));
    let jobs: Vec<NewJob> = lanes.map(|kind| NewJob::new(kind.as_str()).queue("checks")).collect();
    for batch in jobs.chunks(1_000) {
        store.enqueue(Enqueue::each(batch.iter().cloned())).await.unwrap();
    }
    let engine = Checks::new(store.clone());
    let id = enqueue(&*store, NewJob::new("send")).await;
    let claimed = claim(&*store, "first", 1).await;
    let reply = engine.settle(Settle::new(claimed.iter().map(report))).await.unwrap().value;
    assert!(reply.items[0].is_ok(), "{reply:?}");
    assert_eq!(state(&*store, id).await, Some(State::Completed));
}

#[tokio::test]
async fn a_kind_cannot_check_itself() {
    let kinds = Kinds::new(memory());
    let mut rules = KindRules::default();
    rules.check = Some(CheckRule::new("send"));
    let error = kinds.put("send", &rules).await.unwrap_err();
    assert_eq!(error.field(), Some("check.kind"));
    kinds.put("other", &rules).await.unwrap();
}
