//! Searching: pages of jobs filtered by their attributes and by their time of enqueueing.

use crate::rig::{QUEUE, Rig};
use windlass_core::engine::{Filter, List, ListOrder, Outcome, Settle, SettleItem};
use windlass_core::limits::{ID_SKEW_MAX_MS, PAGE_MAX};
use windlass_core::model::{NewJob, State};
use windlass_core::random::SystemRandom;
use windlass_core::time::{DAY_MS, MINUTE_MS};
use windlass_core::{JobId, Timestamp};

pub(super) async fn jobs_are_found_by_their_tenant_their_key_and_any_of_their_tags(rig: Rig) {
    let theirs = rig.enqueue(Rig::job().tenant("acme").tag("a").tag("b ☂")).await;
    let keyed = rig.enqueue(Rig::job().tenant("other").key("k1").tag("b")).await;
    let waiting = rig.enqueue(Rig::job().key("k1")).await;
    rig.enqueue(Rig::job().key("k10").tenant("acme corp").tag("ab")).await;
    let all = Filter::default;
    assert_eq!(found(&rig, all().tenant("acme")).await, [theirs]);
    assert_eq!(found(&rig, all().key("k1")).await, [keyed, waiting]);
    assert_eq!(found(&rig, all().tag("a")).await, [theirs]);
    assert_eq!(found(&rig, all().tag("b ☂")).await, [theirs]);
    assert_eq!(found(&rig, all().tag("b")).await, [keyed]);
    for none in [all().tenant("ACME"), all().key("k"), all().tag("b "), all().key("acme")] {
        assert_eq!(found(&rig, none.clone()).await, [], "{none:?}");
    }
}

pub(super) async fn the_children_of_a_job_are_found_by_it(rig: Rig) {
    let parent = rig.enqueue(NewJob::new("parent").queue(QUEUE)).await;
    let other = rig.enqueue(NewJob::new("parent").queue(QUEUE)).await;
    let session = rig.session().await;
    let mut children = Vec::new();
    for job in rig.take(&session, 2).await {
        let mut report = SettleItem::new(job.header.id, job.lease, Outcome::DONE);
        report.follow_ups = vec![NewJob::new("child").queue("children"); 2];
        let reply = rig.engine().settle(Settle::new([report])).await.expect("settle").value;
        let settled = reply.items.into_iter().next().expect("an answer").expect("settled");
        if job.header.id == parent {
            children = settled.follow_ups.iter().map(|child| child.id).collect();
        }
    }
    children.sort_unstable();
    assert_eq!(children.len(), 2);
    assert_eq!(found(&rig, Filter::default().parent(parent)).await, children);
    assert_eq!(found(&rig, Filter::default().parent(other)).await.len(), 2);
    assert_eq!(found(&rig, Filter::default().parent(children[0])).await, []);
}

pub(super) async fn jobs_are_found_by_when_they_were_enqueued(rig: Rig) {
    let (mut ids, mut times) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let id = rig.enqueue_one().await;
        ids.push(id);
        times.push(rig.get(id).await.header.created_at);
        rig.advance(2 * DAY_MS);
    }
    let from = |at: Timestamp| Filter::default().created_from(at);
    assert_eq!(found(&rig, from(times[2])).await, ids[2..], "including the start time");
    assert_eq!(found(&rig, from(times[2].plus(1))).await, ids[3..]);
    let until = |at: Timestamp| Filter::default().created_until(at);
    assert_eq!(found(&rig, until(times[2])).await, ids[..2], "excluding the end time");
    assert_eq!(found(&rig, until(times[2].plus(1))).await, ids[..3]);
    let window = from(times[1]).created_until(times[3]);
    assert_eq!(found(&rig, window).await, ids[1..3]);
    let between = from(times[1].plus(1)).created_until(times[2]);
    assert_eq!(found(&rig, between).await, []);
    for ever in [from(Timestamp::from_millis(i64::MIN)), until(Timestamp::MAX)] {
        assert_eq!(found(&rig, ever).await, ids);
    }
    for never in [from(Timestamp::MAX), until(Timestamp::from_millis(i64::MIN))] {
        assert_eq!(found(&rig, never).await, []);
    }
}

pub(super) async fn a_job_is_found_by_when_it_came_whatever_time_its_id_carries(rig: Rig) {
    let now = rig.now().await;
    let margin_ms = MINUTE_MS;
    let made_at = [now.minus(ID_SKEW_MAX_MS - margin_ms), now.plus(ID_SKEW_MAX_MS - margin_ms)];
    let ids = made_at.map(|at| JobId::new(at, &SystemRandom));
    rig.enqueue_all(ids.map(|id| Rig::job().id(id))).await;
    let created_at = rig.get(ids[0]).await.header.created_at;
    let last = rig.get(ids[1]).await.header.created_at;
    let window = Filter::default().created_from(created_at).created_until(last.plus(1));
    assert_eq!(found(&rig, window).await, ids);
}

pub(super) async fn all_conditions_of_a_search_must_match(rig: Rig) {
    let since = rig.now().await;
    let dead = rig.dead(Rig::job().tenant("t").tag("x")).await;
    rig.dead(Rig::job().tenant("t")).await;
    let alive = rig.enqueue(Rig::job().tenant("t").tag("x")).await;
    let elsewhere = rig.enqueue(Rig::job().queue("other").tenant("t").tag("x")).await;
    let search = || Filter::default().tenant("t").tag("x").created_from(since);
    assert_eq!(found(&rig, search()).await, [dead, alive, elsewhere]);
    assert_eq!(found(&rig, search().queue(QUEUE)).await, [dead, alive]);
    let mut in_state = search();
    in_state.state = Some(State::Dead);
    assert_eq!(found(&rig, in_state.clone()).await, [dead]);
    assert_eq!(found(&rig, in_state.queue("other")).await, []);
    assert_eq!(found(&rig, search().created_until(since.plus(1)).kind("nothing")).await, []);
}

pub(super) async fn the_pages_of_a_search_cover_what_it_finds_once(rig: Rig) {
    let (mut wanted, from) = (Vec::new(), rig.now().await.plus(MINUTE_MS));
    rig.enqueue_all(vec![Rig::job().tag("wanted"); 5]).await;
    rig.advance(MINUTE_MS);
    for _ in 0..3 {
        wanted.extend(rig.enqueue_all(vec![Rig::job().tag("wanted"); 20]).await);
        rig.enqueue_all(vec![Rig::job().tag("other"); 1_500]).await;
        rig.advance(MINUTE_MS);
    }
    wanted.sort_unstable();
    let until = rig.now().await;
    rig.enqueue_all(vec![Rig::job().tag("wanted"); 5]).await;
    let search = Filter::default().tag("wanted").created_from(from).created_until(until);
    for limit in [1, 7, PAGE_MAX] {
        let listed = pages(&rig, &search, ListOrder::Oldest, limit).await;
        assert_eq!(listed, wanted, "in pages of {limit}");
    }
    wanted.reverse();
    assert_eq!(pages(&rig, &search, ListOrder::Newest, 9).await, wanted);
}

/// The jobs that match, oldest first.
pub(super) async fn found(rig: &Rig, filter: Filter) -> Vec<JobId> {
    let mut backwards = pages(rig, &filter, ListOrder::Newest, 3).await;
    backwards.reverse();
    let found = pages(rig, &filter, ListOrder::Oldest, PAGE_MAX).await;
    assert_eq!(backwards, found, "{filter:?} either way");
    found
}

/// All jobs that match, page by page.
pub(super) async fn pages(rig: &Rig, filter: &Filter, order: ListOrder, limit: u32) -> Vec<JobId> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let list = List::new(filter.clone()).order(order).limit(limit).after(after);
        let page = rig.engine().list(list).await.expect("list").value;
        assert!(
            page.rows.len() <= limit as usize && ids.len() < 10_000,
            "the listing does not end"
        );
        ids.extend(page.rows.iter().map(|job| job.header.id));
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}
