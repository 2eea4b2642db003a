//! Limits as settings: created, changed, removed, listed by queues and kinds, held by reports, shared with others.

use crate::rig::{KIND, QUEUE, Rig, assert_refused};
use windlass_core::engine::{Configure, Gate, Hold, Outcome, SettleItem, Take, Took, Work};
use windlass_core::limits::{
    CLAIM_BATCH_MAX, GROUP_BYTES_MAX, HOLD_MAX_MS, LIMIT_AMOUNT_MAX, LIMIT_WINDOW_MAX,
};
use windlass_core::model::{KindPatch, Limit, NewJob, QueuePatch, Rate, Rule, State};
use windlass_core::time::{MINUTE_MS, SECOND_MS};

fn of_group(group: &str) -> NewJob {
    Rig::job().group(group)
}

/// The number of jobs that start now.
async fn starts(rig: &Rig) -> usize {
    let session = rig.long_session().await;
    rig.take(&session, CLAIM_BATCH_MAX).await.len()
}

pub(super) async fn limits_are_part_of_the_settings(rig: Rig) {
    let limit = Limit::max_running(2).rate(Rate::bucket(100, MINUTE_MS)).by_group();
    let limit = limit.for_group("acme", Rule::running(9));
    if !rig.limited(limit.clone()).await {
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    rig.configure(Configure::kind(KIND, KindPatch::limits(["l"]))).await;
    let settings = async || rig.engine().settings().await.expect("settings").value;
    let found = settings().await;
    assert_eq!(found.limits, [("l".into(), limit)]);
    assert_eq!(found.queues[0].1.limits, ["l".into()]);
    assert_eq!(found.kinds[0].1.limits, ["l".into()]);
    let none: [&str; 0] = [];
    rig.configure(Configure::queue(QUEUE, QueuePatch::limits(none))).await;
    rig.configure(Configure::kind(KIND, KindPatch::limits(none))).await;
    rig.configure(Configure::remove_limit("l")).await;
    assert_eq!(settings().await, Default::default());
}

pub(super) async fn bad_limits_are_refused_and_change_nothing(rig: Rig) {
    if !rig.limited(Limit::max_running(2)).await {
        return;
    }
    let rated = |rate| Limit::new(Rule::rate(rate));
    let set = |limit| Configure::limit("l", limit);
    let list = |names: &[&str]| Configure::queue(QUEUE, QueuePatch::limits(names.iter().copied()));
    let of_kind = |names: &[&str]| Configure::kind(KIND, KindPatch::limits(names.iter().copied()));
    let long = "g".repeat(GROUP_BYTES_MAX + 1);
    let bad = [
        (set(Limit::default()), "limit"),
        (set(Limit::max_running(0)), "max_running"),
        (set(rated(Rate::bucket(0, SECOND_MS))), "rate.amount"),
        (set(rated(Rate::window(1, 0))), "rate.per_ms"),
        (set(rated(Rate::window(LIMIT_WINDOW_MAX + 1, SECOND_MS))), "rate.max"),
        (set(Limit::max_running(1).for_group("g", Rule::running(2))), "overrides"),
        (Configure::limit("a name", Limit::max_running(1)), "limit"),
        (Configure::remove_limit("l"), "limit"),
        (list(&["l", "missing"]), "limits"),
        (of_kind(&["missing"]), "limits"),
        (list(&["l", "l"]), "limits"),
    ];
    let before = rig.engine().settings().await.expect("settings").value;
    for (change, field) in bad {
        assert_refused(rig.try_configure(change).await, "invalid", field);
    }
    assert_refused(
        rig.try_configure(set(Limit::max_running(1).by_group().for_group(long, Rule::running(1)))).await,
        "too_large",
        "overrides",
    );
    let five = ["l", "m", "n", "o", "p"];
    assert_refused(rig.try_configure(list(&five)).await, "too_large", "limits");
    assert_eq!(rig.engine().settings().await.expect("settings").value, before);
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    assert_eq!(starts(&rig).await, 2, "the limit is as it was");
}

pub(super) async fn bad_groups_and_costs_are_refused(rig: Rig) {
    if !rig.can_limit().await {
        return;
    }
    assert_refused(rig.try_enqueue(of_group("")).await, "invalid", "group");
    let long = "g".repeat(GROUP_BYTES_MAX + 1);
    assert_refused(rig.try_enqueue(of_group(&long)).await, "too_large", "group");
    assert_refused(rig.try_enqueue(Rig::job().cost(0)).await, "invalid", "cost");
    let dear = Rig::job().cost(LIMIT_AMOUNT_MAX + 1);
    assert_refused(rig.try_enqueue(dear).await, "invalid", "cost");
    rig.enqueue(of_group(&long[1..]).cost(LIMIT_AMOUNT_MAX)).await;
}

pub(super) async fn a_group_and_a_cost_are_stored_and_handed_out(rig: Rig) {
    if !rig.can_limit().await {
        return;
    }
    let id = rig.enqueue(of_group("g").tenant("t").cost(7)).await;
    let job = rig.get(id).await;
    assert_eq!((job.header.group.as_deref(), job.header.cost), (Some("g"), 7));
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!((claimed.header.group.as_deref(), claimed.header.cost), (Some("g"), 7));
}

pub(super) async fn a_raised_limit_releases_jobs_at_once(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let jobs = rig.enqueue_all(vec![of_group("g"); 6]).await;
    assert_eq!(starts(&rig).await, 1);
    rig.configure(Configure::limit("l", Limit::max_running(3).by_group())).await;
    rig.maintain(Work::Promote).await;
    rig.assert_state(jobs[2], State::Available).await;
    rig.assert_state(jobs[3], State::Blocked).await;
    assert_eq!(starts(&rig).await, 2);
    rig.configure(Configure::limit("l", Limit::max_running(4))).await;
    rig.maintain(Work::Promote).await;
    assert_eq!(starts(&rig).await, 1, "over all jobs now");
    rig.assert_sound().await;
}

pub(super) async fn a_lowered_limit_stops_starts_and_no_running_job(rig: Rig) {
    if !rig.limited(Limit::max_running(3).by_group()).await {
        return;
    }
    rig.enqueue_all(vec![of_group("g"); 9]).await;
    let session = rig.session().await;
    let running = rig.take(&session, 2).await;
    rig.configure(Configure::limit("l", Limit::max_running(1).by_group())).await;
    assert_eq!(starts(&rig).await, 0, "a job that is ready does not start either");
    let held: Vec<_> = running.iter().collect();
    let reply = rig.heartbeat(&session, &held).await.expect("heartbeat");
    assert_eq!((reply.lost, reply.cancel, reply.released), (vec![], vec![], 0));
    rig.settle(&running[0], Outcome::DONE).await;
    assert_eq!(starts(&rig).await, 0, "one still runs");
    rig.settle(&running[1], Outcome::DONE).await;
    assert_eq!(starts(&rig).await, 1);
    rig.assert_sound().await;
}

pub(super) async fn a_limit_that_is_listed_no_more_releases_its_jobs(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    rig.enqueue_all(vec![of_group("g"); 5]).await;
    assert_eq!(starts(&rig).await, 1);
    let error = rig.try_configure(Configure::remove_limit("l")).await;
    assert_refused(error, "invalid", "limit");
    let none: [&str; 0] = [];
    rig.configure(Configure::queue(QUEUE, QueuePatch::limits(none))).await;
    rig.configure(Configure::remove_limit("l")).await;
    rig.maintain(Work::Promote).await;
    assert_eq!(starts(&rig).await, 4);
    rig.assert_sound().await;
}

pub(super) async fn running_jobs_count_when_a_limit_is_listed(rig: Rig) {
    if !rig.can_limit().await {
        return;
    }
    rig.enqueue_all(vec![of_group("g"); 6]).await;
    let session = rig.session().await;
    let running = rig.take(&session, 3).await;
    rig.configure(Configure::limit("l", Limit::max_running(2).by_group())).await;
    rig.configure(Configure::queue(QUEUE, QueuePatch::limits(["l"]))).await;
    assert_eq!(starts(&rig).await, 0, "jobs that were ready wait as well");
    rig.settle(&running[0], Outcome::DONE).await;
    assert_eq!(starts(&rig).await, 0, "two still run");
    rig.settle(&running[1], Outcome::DONE).await;
    assert_eq!(starts(&rig).await, 1);
    rig.assert_sound().await;
}

pub(super) async fn a_group_may_have_a_rule_of_its_own(rig: Rig) {
    let limit = Limit::max_running(1).by_group().for_group("big", Rule::running(3));
    if !rig.limited(limit.for_group("free", Rule::default())).await {
        return;
    }
    for group in ["small", "big", "free"] {
        rig.enqueue_all(vec![of_group(group); 5]).await;
    }
    assert_eq!(starts(&rig).await, 1 + 3 + 5);
}

pub(super) async fn a_report_can_hold_a_limit_for_a_time(rig: Rig) {
    if !rig.limited(Limit::max_running(9)).await {
        return;
    }
    for by_group in [false, true] {
        let limit = Limit::max_running(9);
        let limit = if by_group { limit.by_group() } else { limit };
        rig.configure(Configure::limit("l", limit)).await;
        rig.enqueue_all([of_group("g"), of_group("g"), of_group("h")]).await;
        let session = rig.session().await;
        let job = rig.take_one(&session).await;
        let snooze = Outcome::Snooze { delay_ms: MINUTE_MS };
        let item = SettleItem::new(job.header.id, job.lease.clone(), snooze);
        rig.try_settle(item.hold(Hold::limit("l", MINUTE_MS))).await.expect("settle");
        assert_eq!(rig.get(job.header.id).await.header.counters.failures, 0);
        assert_eq!(starts(&rig).await, usize::from(by_group), "the other group goes on");
        rig.advance(MINUTE_MS - 1);
        assert_eq!(starts(&rig).await, 0);
        rig.advance(1);
        rig.maintain(Work::Promote).await;
        let left = 2 + usize::from(!by_group);
        assert_eq!(starts(&rig).await, left, "the held ones and the snoozed one");
        // Ends what runs.
        rig.advance(MINUTE_MS);
        rig.enqueue_one().await;
        let session = rig.session().await;
        rig.take_one(&session).await;
    }
}

pub(super) async fn a_report_can_hold_its_group_or_its_queue(rig: Rig) {
    if !rig.limited(Limit::max_running(9).by_group()).await {
        return;
    }
    rig.enqueue_all([of_group("g"), of_group("g"), of_group("h"), of_group("h")]).await;
    let session = rig.session().await;
    let report = async |hold: Hold| {
        let job = rig.take_one(&session).await;
        let snooze = Outcome::Snooze { delay_ms: 10 * MINUTE_MS };
        let item = SettleItem::new(job.header.id, job.lease.clone(), snooze).hold(hold);
        rig.try_settle(item).await.expect("settle");
    };
    report(Hold::group(2 * MINUTE_MS)).await;
    report(Hold::queue(MINUTE_MS)).await;
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, Some(Gate::QueueHeld));
    assert_eq!(starts(&rig).await, 0, "the queue is held");
    rig.advance(MINUTE_MS);
    assert_eq!(starts(&rig).await, 1, "the group is held");
    rig.advance(MINUTE_MS);
    assert_eq!(starts(&rig).await, 1);
}

pub(super) async fn a_report_can_hold_all_limits_of_its_job_or_else_its_queue(rig: Rig) {
    if !rig.limited(Limit::max_running(9)).await {
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    // Jobs of the kind run under both limits, others in the queue under one, and those of another queue under none.
    rig.configure(Configure::limit("m", Limit::max_running(9).by_group())).await;
    rig.configure(Configure::kind(KIND, KindPatch::limits(["m"]))).await;
    let elsewhere = |kind: &str, group: &str| NewJob::new(kind).queue("elsewhere").group(group);
    let session = rig.long_session().await;
    let hold = async |queue: &str| {
        let got = rig.take_from(&session, queue, 1).await;
        let snooze = Outcome::Snooze { delay_ms: 10 * MINUTE_MS };
        let item = SettleItem::new(got[0].header.id, got[0].lease.clone(), snooze);
        rig.try_settle(item.hold(Hold::limits(MINUTE_MS))).await.expect("settle");
    };
    let from = async |queue: &str| rig.take_from(&session, queue, 9).await.len();
    rig.enqueue_all([of_group("g"), NewJob::new("other").queue(QUEUE)]).await;
    hold(QUEUE).await;
    assert_eq!(from(QUEUE).await, 0, "its limit over all jobs is held");
    rig.enqueue_all([elsewhere(KIND, "g"), elsewhere(KIND, "h"), elsewhere("other", "g")]).await;
    assert_eq!(from("elsewhere").await, 2, "its limit by group is held for its group");
    rig.advance(MINUTE_MS - 1);
    assert_eq!(from(QUEUE).await + from("elsewhere").await, 0);
    rig.advance(1);
    assert_eq!(from(QUEUE).await + from("elsewhere").await, 2);
    // Without a limit, the queue is held.
    rig.enqueue_all([elsewhere("other", "g"), elsewhere("other", "g"), of_group("g")]).await;
    hold("elsewhere").await;
    assert_eq!((from("elsewhere").await, from(QUEUE).await), (0, 1));
    rig.advance(MINUTE_MS);
    assert_eq!(from("elsewhere").await, 1);
}

pub(super) async fn bad_holds_are_refused_and_the_lease_stays(rig: Rig) {
    if !rig.limited(Limit::max_running(9)).await {
        return;
    }
    rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let report = |hold| {
        let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE).hold(hold);
        rig.try_settle(item)
    };
    assert_refused(report(Hold::limit("other", 1)).await, "invalid", "hold.limit");
    assert_refused(report(Hold::group(1)).await, "invalid", "hold.group");
    assert_refused(report(Hold::queue(HOLD_MAX_MS + 1)).await, "invalid", "hold.ms");
    report(Hold::limit("l", 1)).await.expect("settle");
}

pub(super) async fn tokens_can_be_taken_for_other_work(rig: Rig) {
    if !rig.limited(Limit::new(Rule::rate(Rate::window(3, MINUTE_MS))).by_group()).await {
        return;
    }
    let take = async |request: Take| rig.engine().take(request).await.map(|reply| reply.value);
    let of = |group: &str| Take::new("l").group(group);
    assert_eq!(take(of("g").cost(2)).await, Ok(Took::Granted));
    rig.enqueue_all(vec![of_group("g"); 3]).await;
    assert_eq!(starts(&rig).await, 1, "one token was left");
    let now = rig.now().await;
    assert_eq!(take(of("g")).await, Ok(Took::At(now.plus(MINUTE_MS))));
    assert_eq!(take(of("h").cost(3)).await, Ok(Took::Granted), "another group");
    assert_refused(take(of("h").cost(4)).await, "invalid", "cost");
    assert_refused(take(of("h").cost(0)).await, "invalid", "cost");
    assert_refused(take(Take::new("missing")).await, "invalid", "limit");
    rig.configure(Configure::limit("slots", Limit::max_running(1))).await;
    assert_refused(take(Take::new("slots")).await, "invalid", "limit");
}

pub(super) async fn ready_jobs_go_back_in_line_when_others_took_their_tokens(rig: Rig) {
    if !rig.limited(Limit::new(Rule::rate(Rate::window(2, MINUTE_MS))).by_group()).await {
        return;
    }
    let jobs = rig.enqueue_all(vec![of_group("g"); 3]).await;
    let other = rig.enqueue(of_group("h")).await;
    rig.assert_state(jobs[1], State::Available).await;
    rig.engine().take(Take::new("l").group("g").cost(2)).await.expect("take");
    let session = rig.session().await;
    let started = rig.take(&session, 9).await;
    assert_eq!(started.iter().map(|job| job.header.id).collect::<Vec<_>>(), [other]);
    for id in jobs {
        rig.assert_state(id, State::Blocked).await;
    }
    rig.advance(MINUTE_MS);
    assert_eq!(starts(&rig).await, 2);
    rig.assert_sound().await;
}
