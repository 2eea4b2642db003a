//! Topics: queues whose subscriptions each get a copy of every new job that they want.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use windlass_core::JobId;
use windlass_core::Result;
use windlass_core::engine::{
    Capability, Change, ClaimedJob, Configure, Disposition, Edits, Enqueue, Enqueued, Filter, Get,
    List, Outcome, SettleItem,
};
use windlass_core::limits::{CALL_COPIES_MAX, SUBSCRIPTIONS_MAX};
use windlass_core::model::{Due, Join, NewJob, PartSet, QueuePatch, State, Subscription};
use windlass_core::policy::Unique;
use windlass_core::time::HOUR_MS;

const TOPIC: &str = "orders";

fn subscriptions(names: &[&str]) -> Vec<Subscription> {
    names.iter().map(|name| Subscription::new(*name, format!("{TOPIC}.{name}"))).collect()
}

async fn subscribe(rig: &Rig, subscriptions: Vec<Subscription>) -> Result<()> {
    let patch = QueuePatch::subscriptions(subscriptions);
    rig.try_configure(Configure::queue(TOPIC, patch)).await
}

/// Makes the topic, with subscriptions of these names; `false` if the engine has no topics, which it must say.
async fn topic(rig: &Rig, names: &[&str]) -> bool {
    let answer = subscribe(rig, subscriptions(names)).await;
    match rig.has(Capability::Topics) {
        true => answer.expect("the subscriptions are accepted"),
        false => drop(assert_code(answer, "unsupported")),
    }
    rig.has(Capability::Topics)
}

fn job() -> NewJob {
    NewJob::new(KIND).queue(TOPIC)
}

fn ids(enqueued: &Enqueued) -> Vec<JobId> {
    enqueued.copies.iter().map(|copy| copy.id).collect()
}

async fn publish(rig: &Rig, job: NewJob) -> Enqueued {
    let enqueued = rig.try_enqueue(job).await.expect("enqueue");
    assert_eq!((enqueued.disposition, enqueued.state), (Disposition::Published, None));
    enqueued
}

/// The number of jobs of the store, in any state.
async fn jobs(rig: &Rig) -> usize {
    let all = List::new(Filter::default()).limit(100);
    rig.engine().list(all).await.expect("list").value.rows.len()
}

/// The one job that can be claimed from the queue of a subscription.
async fn take_from(rig: &Rig, subscription: &str) -> ClaimedJob {
    let session = rig.session().await;
    let mut claimed = rig.take_from(&session, &format!("{TOPIC}.{subscription}"), 5).await;
    assert_eq!(claimed.len(), 1, "of subscription {subscription}: {claimed:?}");
    claimed.remove(0)
}

pub(super) async fn each_subscription_gets_a_copy_of_a_job(rig: Rig) {
    if !topic(&rig, &["billing", "search"]).await {
        return;
    }
    let new = job().json(r#"{"order":7}"#).priority(-3).tag("eu").due(Due::After(0));
    let enqueued = publish(&rig, new.clone()).await;
    let named: Vec<_> = enqueued.copies.iter().map(|it| (&*it.subscription, &*it.queue)).collect();
    assert_eq!(named, [("billing", "orders.billing"), ("search", "orders.search")]);
    assert!(rig.find(enqueued.id).await.is_none(), "the topic stores no job");
    for copy in &enqueued.copies {
        assert_eq!((copy.disposition, copy.state), (Disposition::Created, Some(State::Available)));
        let stored = rig.engine().get(Get::new([copy.id]).parts(PartSet::ALL)).await.expect("get");
        let stored = stored.value[0].clone().expect("the copy exists");
        assert_eq!((&stored.header.queue, stored.header.priority), (&copy.queue, -3));
        assert_eq!((&stored.header.tags, &stored.parts), (&new.tags, &new.parts));
        // Each ends by itself.
        let claimed = take_from(&rig, &copy.subscription).await;
        assert_eq!(claimed.header.id, copy.id);
        rig.settle(&claimed, Outcome::DONE).await;
        rig.assert_state(copy.id, State::Completed).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn a_subscription_gets_the_kinds_and_tags_that_it_wants(rig: Rig) {
    if !topic(&rig, &["all"]).await {
        return;
    }
    let mut wanted = subscriptions(&["all", "paid", "eu", "paid-eu"]);
    wanted[1] = wanted[1].clone().kinds(["paid", "refunded"]);
    wanted[2] = wanted[2].clone().tags(["de", "fr"]);
    wanted[3] = wanted[3].clone().kinds(["paid"]).tags(["de"]);
    subscribe(&rig, wanted).await.expect("subscribe");
    let of = |kind: &str, tags: &[&str]| {
        tags.iter().fold(NewJob::new(kind).queue(TOPIC), |job, tag| job.tag(*tag))
    };
    for (job, expected) in [
        (of("viewed", &[]), vec!["all"]),
        (of("viewed", &["us"]), vec!["all"]),
        (of("viewed", &["us", "fr"]), vec!["all", "eu"]),
        (of("refunded", &[]), vec!["all", "paid"]),
        (of("refunded", &["de"]), vec!["all", "paid", "eu"]),
        (of("paid", &["de"]), vec!["all", "paid", "eu", "paid-eu"]),
    ] {
        let enqueued = publish(&rig, job.clone()).await;
        let got: Vec<&str> = enqueued.copies.iter().map(|it| &*it.subscription).collect();
        assert_eq!(got, expected, "{job:?}");
    }
    subscribe(&rig, vec![Subscription::new("paid", "p").kinds(["paid"])]).await.expect("subscribe");
    let before = jobs(&rig).await;
    let unwanted = publish(&rig, of("viewed", &[])).await;
    assert_eq!((unwanted.copies.len(), jobs(&rig).await), (0, before), "no subscription wants it");
}

pub(super) async fn a_repeated_enqueue_to_a_topic_stores_each_copy_once(rig: Rig) {
    if !topic(&rig, &["a", "b"]).await {
        return;
    }
    let id = Rig::fresh_id();
    let first = publish(&rig, job().id(id)).await;
    assert_eq!(first.id, id);
    let again = publish(&rig, job().id(id)).await;
    assert_eq!(ids(&again), ids(&first));
    assert!(again.copies.iter().all(|copy| copy.disposition == Disposition::Existing));
    assert_eq!(jobs(&rig).await, 2);
    // A subscription that was added meanwhile gets its copy.
    subscribe(&rig, subscriptions(&["a", "b", "c"])).await.expect("subscribe");
    let third = publish(&rig, job().id(id)).await;
    assert_eq!(third.copies[2].disposition, Disposition::Created);
    // A copy's id is derived, and reserved.
    assert_refused(rig.try_enqueue(job().id(third.copies[2].id)).await, "invalid", "id");
    rig.assert_sound().await;
}

pub(super) async fn the_copies_of_a_job_are_stored_all_or_none(rig: Rig) {
    if !topic(&rig, &["a", "full"]).await {
        return;
    }
    let full = format!("{TOPIC}.full");
    rig.configure(Configure::queue(full.as_str(), QueuePatch::max_depth(Some(1)))).await;
    publish(&rig, job()).await;
    let before = jobs(&rig).await;
    let error = assert_code(rig.try_enqueue(job()).await, "queue_full");
    assert!(error.to_string().contains(&full), "{error}");
    assert_eq!(jobs(&rig).await, before, "the other subscription got a copy");
    // Other jobs of the call are stored, unless all must be.
    let each = rig.engine().enqueue(Enqueue::each([Rig::job(), job(), Rig::job()])).await;
    let each = each.expect("enqueue").value;
    assert_eq!((each[0].is_ok(), each[1].is_ok(), each[2].is_ok()), (true, false, true));
    let whole = rig.try_enqueue_whole([Rig::job(), job(), Rig::job()]).await;
    let codes: Vec<&str> = whole.iter().map(|it| it.as_ref().map_or_else(|e| e.code(), |_| "")).collect();
    assert_eq!(codes, ["aborted", "queue_full", "aborted"]);
    assert_eq!(jobs(&rig).await, before + 2);
    rig.assert_sound().await;
}

pub(super) async fn jobs_of_a_batch_are_answered_in_their_order_whatever_they_are_copied_to(rig: Rig) {
    if !topic(&rig, &["a", "b"]).await {
        return;
    }
    let other = || NewJob::new("other").queue(TOPIC);
    let batch = || [Rig::job(), job(), Rig::job(), other(), Rig::job()];
    let whole = rig.try_enqueue_whole(batch()).await;
    let each = rig.engine().enqueue(Enqueue::each(batch())).await.expect("enqueue").value;
    for answers in [whole, each] {
        let copies: Vec<usize> =
            answers.iter().map(|it| it.as_ref().expect("stored").copies.len()).collect();
        assert_eq!(copies, [0, 2, 0, 2, 0]);
    }
    assert_eq!(jobs(&rig).await, 2 * 7);
    rig.assert_sound().await;
}

pub(super) async fn a_key_is_in_order_within_each_subscription(rig: Rig) {
    if !topic(&rig, &["a", "b"]).await {
        return;
    }
    let first = publish(&rig, job().key("customer 7")).await;
    let second = publish(&rig, job().key("customer 7")).await;
    for (index, subscription) in ["a", "b"].into_iter().enumerate() {
        let claimed = take_from(&rig, subscription).await;
        assert_eq!(claimed.header.id, first.copies[index].id);
        rig.assert_state(second.copies[index].id, State::Blocked).await;
        rig.settle(&claimed, Outcome::DONE).await;
        assert_eq!(take_from(&rig, subscription).await.header.id, second.copies[index].id);
    }
    rig.assert_sound().await;
}

pub(super) async fn a_unique_key_is_held_in_the_queue_of_each_subscription(rig: Rig) {
    if !topic(&rig, &["a", "b"]).await {
        return;
    }
    let unique = || job().unique(Unique::by("u"));
    let first = publish(&rig, unique()).await;
    let claimed = take_from(&rig, "a").await;
    rig.settle(&claimed, Outcome::DONE).await;
    let second = publish(&rig, unique()).await;
    let got: Vec<_> = second.copies.iter().map(|copy| copy.disposition).collect();
    assert_eq!(got, [Disposition::Created, Disposition::Existing]);
    assert_eq!(second.copies[1].id, first.copies[1].id);
    rig.assert_sound().await;
}

pub(super) async fn follow_ups_and_children_are_copied_as_well(rig: Rig) {
    if !topic(&rig, &["a", "b"]).await {
        return;
    }
    let session = rig.long_session().await;
    let id = rig.enqueue_one().await;
    let claimed = rig.take_one(&session).await;
    if rig.has(Capability::Flows) {
        // It waits for both copies of its child.
        let child = job().joins(Join::SELF);
        let item = SettleItem::new(id, claimed.lease.clone(), Outcome::WaitForJobs);
        let settled = rig.try_settle(item.follow_up(Rig::job().queue("elsewhere")).follow_up(child)).await;
        let settled = settled.expect("the report is accepted");
        let copies: Vec<usize> = settled.follow_ups.iter().map(|it| it.copies.len()).collect();
        assert_eq!((settled.state, copies), (State::Blocked, vec![0, 2]));
        for subscription in ["a", "b"] {
            rig.assert_state(id, State::Blocked).await;
            let claimed = take_from(&rig, subscription).await;
            assert_eq!(claimed.header.parent, Some(id));
            rig.settle(&claimed, Outcome::DONE).await;
        }
        rig.assert_state(id, State::Available).await;
    } else {
        let item = SettleItem::new(id, claimed.lease.clone(), Outcome::Release);
        rig.try_settle(item).await.expect("release");
    }
    let claimed = rig.take_one(&session).await;
    let item = SettleItem::new(id, claimed.lease.clone(), Outcome::DONE).follow_up(job());
    let settled = rig.try_settle(item.clone()).await.expect("settle");
    assert_eq!(settled.follow_ups[0].disposition, Disposition::Published);
    let count = jobs(&rig).await;
    assert!(rig.try_settle(item).await.expect("repeated").already);
    assert_eq!(jobs(&rig).await, count, "a repeated report copies nothing again");
    for subscription in ["a", "b"] {
        assert_eq!(take_from(&rig, subscription).await.header.parent, Some(id));
    }
    rig.assert_sound().await;
}

pub(super) async fn copies_run_after_the_jobs_that_their_original_names(rig: Rig) {
    if !topic(&rig, &["a", "b"]).await || !rig.has(Capability::Flows) {
        return;
    }
    let (first, topical) = (Rig::fresh_id(), Rig::fresh_id());
    let whole = rig.try_enqueue_whole([Rig::job().id(first), job().after(first)]).await;
    let copies = ids(whole[1].as_ref().expect("stored"));
    for copy in &copies {
        rig.assert_state(*copy, State::Blocked).await;
    }
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    rig.settle(&claimed, Outcome::DONE).await;
    for copy in copies {
        rig.assert_state(copy, State::Available).await;
    }
    // There is no job to run after: its copies have ids of their own.
    let whole = rig.try_enqueue_whole([job().id(topical), Rig::job().after(topical)]).await;
    assert_refused(whole[1].clone(), "invalid", "after");
    rig.assert_sound().await;
}

pub(super) async fn jobs_cannot_be_moved_to_a_topic(rig: Rig) {
    if !topic(&rig, &["a"]).await || !rig.has(Capability::Move) {
        return;
    }
    let id = rig.enqueue_one().await;
    assert_refused(rig.try_change(id, Change::Move(TOPIC.into())).await, "invalid", "queue");
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let item = SettleItem::new(id, claimed.lease.clone(), Outcome::Release);
    assert_refused(rig.try_settle(item.queue(TOPIC)).await, "invalid", "queue");
    rig.settle(&claimed, Outcome::fail("e", "m")).await;
    let mut edits = Edits::default();
    edits.queue = Some(TOPIC.into());
    assert_refused(rig.try_change(id, Change::Replay(edits.into())).await, "invalid", "queue");
    assert_eq!(&*rig.get(id).await.header.queue, QUEUE);
    rig.assert_sound().await;
}

pub(super) async fn subscriptions_that_cannot_work_are_refused(rig: Rig) {
    if !topic(&rig, &["a"]).await {
        return;
    }
    let of = |name: &str, queue: &str| Subscription::new(name, queue);
    let many = (0..=SUBSCRIPTIONS_MAX).map(|n| of(&format!("s{n}"), &format!("q{n}")));
    for (bad, code, field) in [
        (vec![of("", "q")], "invalid", "subscriptions.name"),
        (vec![of("s", "")], "invalid", "subscriptions.queue"),
        (vec![of("s", TOPIC)], "invalid", "subscriptions.queue"),
        (vec![of("s", "p"), of("s", "q")], "invalid", "subscriptions.name"),
        (vec![of("s", "q"), of("t", "q")], "invalid", "subscriptions.queue"),
        (vec![of("s", "q").kinds([""])], "invalid", "subscriptions.kinds"),
        (many.collect(), "too_large", "subscriptions"),
    ] {
        assert_refused(subscribe(&rig, bad).await, code, field);
    }
    // No topic leads to a topic.
    let leads_on = |from: &'static str, to: &'static str| {
        Configure::queue(from, QueuePatch::subscriptions([Subscription::new("s", to)]))
    };
    for change in [leads_on("first", TOPIC), leads_on("orders.a", "last")] {
        assert_refused(rig.try_configure(change).await, "invalid", "subscriptions.queue");
    }
    let settings = rig.engine().settings().await.expect("settings").value;
    let queues: Vec<_> =
        settings.queues.iter().map(|(name, it)| (&**name, it.subscriptions.len())).collect();
    assert_eq!(queues, [(TOPIC, 1)], "nothing has changed");
}

pub(super) async fn without_subscriptions_a_topic_is_a_queue_again(rig: Rig) {
    let before = rig.enqueue(job()).await;
    if !topic(&rig, &["a"]).await {
        return;
    }
    let copy = ids(&publish(&rig, job()).await)[0];
    subscribe(&rig, Vec::new()).await.expect("unsubscribe");
    let after = rig.try_enqueue(job().due(Due::After(HOUR_MS))).await.expect("enqueue");
    assert_eq!((after.disposition, after.copies.len()), (Disposition::Created, 0));
    // What was stored before the change stays where it is, and runs.
    let session = rig.session().await;
    assert_eq!(rig.take_from(&session, TOPIC, 5).await[0].header.id, before);
    assert_eq!(take_from(&rig, "a").await.header.id, copy);
    rig.assert_sound().await;
}

pub(super) async fn a_call_cannot_store_too_many_copies(rig: Rig) {
    let names: Vec<String> = (0..SUBSCRIPTIONS_MAX).map(|n| format!("s{n}")).collect();
    if !topic(&rig, &names.iter().map(String::as_str).collect::<Vec<_>>()).await {
        return;
    }
    // Jobs of other queues do not count.
    let over = CALL_COPIES_MAX / SUBSCRIPTIONS_MAX + 1;
    let batch = (0..5).map(|_| Rig::job()).chain((0..over).map(|_| job()));
    let whole = rig.try_enqueue_whole(batch).await;
    assert_refused(whole[5 + over - 1].clone(), "too_large", "jobs");
    assert_eq!(jobs(&rig).await, 0);
}
