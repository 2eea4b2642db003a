//! Reads of jobs on the second connection.

mod common;

use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, State};
use windlass_core::time::DAY_MS;
use windlass_kit::Rig;

/// More jobs than one page examines.
const MANY: usize = 4_500;

async fn enqueue(engine: &dyn Engine, jobs: impl IntoIterator<Item = NewJob>) -> Vec<JobId> {
    let added = engine.enqueue(Enqueue::each(jobs)).await.expect("enqueues").value;
    added.into_iter().map(|item| item.expect("is added").id).collect()
}

async fn settle(engine: &dyn Engine, jobs: Vec<ClaimedJob>, outcome: &Outcome) {
    let item = |job: ClaimedJob| SettleItem::new(job.header.id, job.lease, outcome.clone());
    let settled =
        engine.settle(Settle::new(jobs.into_iter().map(item))).await.expect("settles").value;
    assert!(settled.items.iter().all(Result::is_ok));
}

#[tokio::test]
async fn the_few_in_a_state_are_on_the_first_page_however_many_are_not() {
    let subject = common::fresh().await;
    let engine = subject.engine().as_ref();
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let mut claim_no = 0;
    let mut claim = |queue: &'static str, limit| {
        claim_no += 1;
        let by = Claimant::Session { session: session.clone(), claim_no };
        async move { engine.claim(Claim::new(by, queue, limit)).await.unwrap().value.jobs }
    };
    let many = || std::iter::repeat_with(|| NewJob::new("many")).take(MANY / 2);
    enqueue(engine, many()).await;
    let ids =
        enqueue(engine, ["dead", "running", "paused"].map(|q| NewJob::new("few").queue(q))).await;
    enqueue(engine, many()).await;
    for _ in 0..MANY.div_ceil(1_000) {
        let jobs = claim("default", 1_000).await;
        settle(engine, jobs, &Outcome::DONE).await;
    }
    let dead = claim("dead", 1).await;
    settle(engine, dead, &Outcome::fail("broken", "for good")).await;
    assert_eq!(claim("running", 1).await.len(), 1);
    engine.change(vec![ChangeItem::new(ids[2], Change::Pause)]).await.unwrap();

    let states = [State::Dead, State::Running, State::Paused];
    for (id, state) in ids.into_iter().zip(states) {
        for order in [ListOrder::Newest, ListOrder::Oldest] {
            let list = List::new(Filter::state(state)).limit(10).order(order);
            let page = engine.list(list).await.unwrap().value;
            let found: Vec<JobId> = page.rows.iter().map(|job| job.header.id).collect();
            assert_eq!((found, page.next), (vec![id], None), "{state} {order:?}");
        }
    }
    let completed = List::new(Filter::state(State::Completed)).limit(1_000);
    assert_eq!(engine.list(completed).await.unwrap().value.rows.len(), 1_000);
}

#[tokio::test]
async fn jobs_of_a_creation_window_are_on_the_first_page_at_any_depth() {
    let rig = Rig::new(common::fresh().await);
    let engine = rig.engine();
    let many = || std::iter::repeat_with(|| NewJob::new("many")).take(MANY / 2);
    // More than `ID_SKEW_MAX_MS`: the range of ids that is read extends beyond the window by that time.
    let apart_ms = 3 * DAY_MS;
    enqueue(engine, many()).await;
    rig.advance(apart_ms);
    let from = engine.health().await.unwrap().now;
    let ids = enqueue(engine, [NewJob::new("few")]).await;
    rig.advance(apart_ms);
    enqueue(engine, many()).await;
    let window = Filter::default().created_from(from).created_until(from.plus(1_000));
    for order in [ListOrder::Newest, ListOrder::Oldest] {
        let list = List::new(window.clone()).limit(10).order(order);
        let page = engine.list(list).await.unwrap().value;
        let found: Vec<JobId> = page.rows.iter().map(|job| job.header.id).collect();
        assert_eq!((found, page.next), (ids.clone(), None), "{order:?}");
    }
}
