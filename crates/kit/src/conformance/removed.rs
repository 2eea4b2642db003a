//! The history of removed jobs.

use crate::rig::{QUEUE, Rig};
use windlass_core::Timestamp;
use windlass_core::engine::{
    Change, Configure, Cursor, MaintainRequest, OTHER_TENANT, Outcome, RemovedCount, RemovedQuery,
    Work,
};
use windlass_core::limits::{PAGE_MAX, REMOVED_KEPT_DEFAULT_MS, REMOVED_TENANTS_MAX};
use windlass_core::model::{NewJob, QueuePatch, State};
use windlass_core::policy::Retention;
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};

/// Everything in the history, as (queue, kind, tenant, outcome, count).
type Row = (String, String, Option<String>, State, u64);

async fn rows(rig: &Rig, query: RemovedQuery) -> Vec<RemovedCount> {
    rig.engine().removed(query).await.expect("removed").value.rows
}

async fn history(rig: &Rig) -> Vec<Row> {
    let mut query = RemovedQuery::default();
    query.limit = PAGE_MAX;
    let row = |RemovedCount { key, count, .. }: RemovedCount| {
        (key.queue.to_string(), key.kind.to_string(), key.tenant, key.outcome, count)
    };
    rows(rig, query).await.into_iter().map(row).collect()
}

fn row(tenant: Option<&str>, outcome: State, count: u64) -> Row {
    (QUEUE.to_owned(), "k".to_owned(), tenant.map(str::to_owned), outcome, count)
}

async fn keep(rig: &Rig, retention: Retention) {
    rig.configure(Configure::queue(QUEUE, QueuePatch::retention(retention))).await;
}

pub(super) async fn every_removal_is_counted_by_queue_kind_tenant_and_outcome(rig: Rig) {
    keep(&rig, Retention::uniform_ms(HOUR_MS)).await;
    rig.enqueue_all([Rig::job(), Rig::job(), Rig::job().tenant("acme")]).await;
    rig.enqueue(NewJob::new("other").queue(QUEUE)).await;
    rig.drain(4).await;
    let cancelled = rig.enqueue_one().await;
    rig.change(cancelled, Change::Cancel).await;
    rig.dead(Rig::job().tenant("acme")).await;
    let expired = rig.enqueue(Rig::job().max_wait_ms(1)).await;
    rig.pass(100).await;
    rig.assert_state(expired, State::Expired).await;
    assert_eq!(history(&rig).await, [], "nothing is removed yet");
    rig.pass(2 * HOUR_MS).await;
    let other = (QUEUE.to_owned(), "other".to_owned(), None, State::Completed, 1);
    let expected = [
        row(None, State::Completed, 2),
        row(None, State::Cancelled, 1),
        row(None, State::Expired, 1),
        row(Some("acme"), State::Completed, 1),
        row(Some("acme"), State::Dead, 1),
        other,
    ];
    let mut got = history(&rig).await;
    got.sort_by_key(|row| (row.1.clone(), row.2.clone(), order(row.3)));
    assert_eq!(got, expected);
    rig.pass(2 * HOUR_MS).await;
    assert_eq!(history(&rig).await.len(), expected.len(), "each removal is counted once");
    rig.assert_sound().await;
}

fn order(state: State) -> usize {
    let ends = [State::Completed, State::Cancelled, State::Dead, State::Expired];
    ends.iter().position(|end| *end == state).expect("a final state")
}

pub(super) async fn a_discard_is_counted_and_so_is_a_job_with_its_own_retention(rig: Rig) {
    let discarded = rig.dead(Rig::job().tenant("acme")).await;
    rig.change(discarded, Change::Discard).await;
    assert_eq!(history(&rig).await, [row(Some("acme"), State::Dead, 1)]);
    let mut own = Rig::job();
    own.policy.retention = Some(Retention::uniform_ms(MINUTE_MS));
    rig.dead(own).await;
    rig.pass(2 * MINUTE_MS).await;
    let both = [row(None, State::Dead, 1), row(Some("acme"), State::Dead, 1)];
    assert_eq!(history(&rig).await, both);
    let running = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    rig.try_change(running, Change::Discard).await.expect_err("it has not ended");
    rig.settle(&job, Outcome::DONE).await;
    assert_eq!(history(&rig).await, both, "a refused discard is not counted");
}

pub(super) async fn the_history_is_by_hour_in_pages_and_filtered_by_queue(rig: Rig) {
    let start = rig.now().await;
    for hours in 0..3 {
        for queue in [QUEUE, "second"] {
            let id = rig.enqueue(Rig::job().queue(queue)).await;
            rig.change(id, Change::Cancel).await;
            rig.change(id, Change::Discard).await;
        }
        assert_eq!(history(&rig).await.len(), 2 * (hours + 1));
        rig.advance(HOUR_MS);
    }
    let (mut query, mut paged) = (RemovedQuery::default(), Vec::new());
    query.limit = 1;
    loop {
        let page = rig.engine().removed(query.clone()).await.expect("removed").value;
        assert!(page.rows.len() <= 1);
        paged.extend(page.rows);
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let hour = |row: &RemovedCount| row.key.hour.as_millis();
    let first = start.as_millis() - start.as_millis() % HOUR_MS as i64;
    let hours: Vec<i64> = paged.iter().map(|row| (hour(row) - first) / HOUR_MS as i64).collect();
    assert_eq!(hours, [0, 0, 1, 1, 2, 2]);
    let mut query = RemovedQuery::default();
    query.queue = Some("second".into());
    query.from = start.plus(HOUR_MS);
    let later = rows(&rig, query).await;
    assert_eq!(later.len(), 2);
    assert!(later.iter().all(|row| &*row.key.queue == "second"), "{later:?}");
    let mut bad = [RemovedQuery::default(), RemovedQuery::default(), RemovedQuery::default()];
    bad[0].limit = 0;
    bad[1].after = Some(Cursor::new("x"));
    bad[2].queue = Some("a b".into());
    for (query, field) in bad.into_iter().zip(["limit", "after", "queue"]) {
        let error = rig.engine().removed(query).await.expect_err("invalid");
        assert_eq!(error.field(), Some(field), "{error}");
    }
}

pub(super) async fn tenants_beyond_the_limit_of_an_hour_are_counted_together(rig: Rig) {
    keep(&rig, Retention::uniform_ms(MINUTE_MS)).await;
    let batch = |first: usize, last: usize| {
        (first..last).map(|n| Rig::job().tenant(format!("t{n:03}"))).collect::<Vec<_>>()
    };
    let surplus = 5;
    for (first, last) in
        [(0, REMOVED_TENANTS_MAX - 10), (REMOVED_TENANTS_MAX - 20, REMOVED_TENANTS_MAX + surplus)]
    {
        rig.enqueue_all(batch(first, last)).await;
        rig.drain(2 * REMOVED_TENANTS_MAX).await;
        rig.pass(2 * MINUTE_MS).await;
    }
    let rows = history(&rig).await;
    let named = rows.iter().filter(|row| row.2.as_deref() != Some(OTHER_TENANT)).count();
    assert_eq!(named, REMOVED_TENANTS_MAX);
    let other: Vec<u64> =
        rows.iter().filter(|row| row.2.as_deref() == Some(OTHER_TENANT)).map(|row| row.4).collect();
    assert_eq!(other, [surplus as u64]);
    let all: u64 = rows.iter().map(|row| row.4).sum();
    assert_eq!(all, (REMOVED_TENANTS_MAX - 10 + 20 + surplus) as u64);
}

pub(super) async fn the_history_is_kept_for_90_days_or_as_long_as_asked(rig: Rig) {
    let remove = async || {
        let id = rig.enqueue_one().await;
        rig.change(id, Change::Cancel).await;
        rig.change(id, Change::Discard).await;
    };
    let compact = async |kept_ms: Option<u64>| {
        let mut request = MaintainRequest::new(Work::Compact, 100);
        request.removed_kept_ms = kept_ms.unwrap_or(request.removed_kept_ms);
        rig.engine().maintain(request).await.expect("compact");
    };
    let hours = async || {
        let rows = rows(&rig, RemovedQuery::default()).await;
        rows.into_iter().map(|row| row.key.hour).collect::<Vec<Timestamp>>()
    };
    remove().await;
    rig.advance(REMOVED_KEPT_DEFAULT_MS - 2 * HOUR_MS);
    compact(None).await;
    assert_eq!(hours().await.len(), 1);
    remove().await;
    rig.advance(4 * HOUR_MS);
    compact(None).await;
    assert_eq!(hours().await.len(), 1, "the first is older than 90 days");
    compact(Some(DAY_MS)).await;
    assert_eq!(hours().await.len(), 1);
    compact(Some(HOUR_MS)).await;
    assert_eq!(hours().await, []);
    let request = MaintainRequest::new(Work::Compact, 1).removed_kept_ms(0);
    let error = rig.engine().maintain(request).await.expect_err("too short");
    assert_eq!(error.field(), Some("removed_kept_ms"));
}
