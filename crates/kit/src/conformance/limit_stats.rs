//! Statistics of limits: running and waiting jobs, tokens, and a bounded number of groups.

use crate::rig::{KIND, QUEUE, Rig};
use windlass_core::engine::{Configure, Hold, LimitStats, Outcome, SettleItem};
use windlass_core::limits::LIMIT_GROUPS_LISTED_MAX;
use windlass_core::model::{KindPatch, Limit, NewJob, Rate, Rule};
use windlass_core::time::MINUTE_MS;

fn of_group(group: &str) -> NewJob {
    Rig::job().group(group)
}

/// The statistics of the limit `l`.
async fn stats(rig: &Rig) -> LimitStats {
    let all = rig.engine().limits().await.expect("limits").value;
    all.into_iter().find(|limit| &*limit.name == "l").expect("the limit has statistics")
}

pub(super) async fn limits_report_their_jobs_and_tokens(rig: Rig) {
    let limit = Limit::max_running(9).rate(Rate::window(3, MINUTE_MS));
    if !rig.limited(limit).await {
        assert_eq!(rig.engine().limits().await.expect("limits").value, []);
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    let found = stats(&rig).await;
    assert_eq!((found.running, found.waiting, found.tokens), (0, 0, Some(3)));
    // A lane of the kind in another queue counts, too; one of another kind does not.
    rig.configure(Configure::kind(KIND, KindPatch::limits(["l"]))).await;
    let elsewhere = NewJob::new(KIND).queue("elsewhere");
    rig.enqueue_all([Rig::job(), Rig::job(), Rig::job(), elsewhere.clone()]).await;
    rig.enqueue(NewJob::new("other").queue("elsewhere")).await;
    rig.enqueue(Rig::job().key("k")).await;
    rig.enqueue(Rig::job().key("k")).await;
    let found = stats(&rig).await;
    assert_eq!((found.running, found.waiting), (0, 5), "a job that waits for its key does not count");
    let session = rig.session().await;
    let jobs = rig.take(&session, 2).await;
    let found = stats(&rig).await;
    assert_eq!((found.running, found.waiting, found.tokens), (2, 3, Some(1)));
    let snooze = Outcome::Snooze { delay_ms: MINUTE_MS };
    let item = SettleItem::new(jobs[0].header.id, jobs[0].lease.clone(), snooze);
    rig.try_settle(item.hold(Hold::limit("l", MINUTE_MS))).await.expect("settle");
    let (found, now) = (stats(&rig).await, rig.now().await);
    assert_eq!((found.running, found.waiting, found.tokens), (1, 3, Some(1)));
    assert_eq!((found.held_until, found.groups), (Some(now.plus(MINUTE_MS)), Vec::new()));
    rig.advance(MINUTE_MS);
    let found = stats(&rig).await;
    assert_eq!((found.tokens, found.held_until), (Some(3), None));
}

pub(super) async fn groups_report_their_jobs_and_tokens(rig: Rig) {
    let limit = Limit::max_running(2).rate(Rate::window(3, MINUTE_MS)).by_group();
    if !rig.limited(limit.for_group("own", Rule::running(1))).await {
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    rig.enqueue_all(vec![of_group("deep"); 5]).await;
    rig.enqueue_all(vec![of_group("own"); 2]).await;
    rig.enqueue_one().await;
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 9).await.len(), 2 + 1 + 1);
    let found = stats(&rig).await;
    assert_eq!((found.running, found.waiting, found.tokens), (4, 4, None));
    let groups: Vec<_> = found.groups.into_iter().collect();
    let shown = |group: &windlass_core::engine::GroupStats| {
        (group.group.clone(), group.running, group.waiting, group.tokens)
    };
    let expected = [
        ("deep".to_owned(), 2, 3, Some(1)),
        ("own".to_owned(), 1, 1, None),
        (String::new(), 1, 0, Some(2)),
    ];
    assert_eq!(groups.iter().map(shown).collect::<Vec<_>>(), expected);
    // Jobs of a group are added up over lanes; the line of another limit does not count.
    rig.configure(Configure::limit("m", Limit::max_running(1).by_group())).await;
    rig.configure(Configure::kind("k", KindPatch::limits(["m"]))).await;
    rig.enqueue_all(vec![NewJob::new("other").queue(QUEUE).group("own"); 2]).await;
    rig.enqueue_all(vec![NewJob::new("k").queue("elsewhere").group("own"); 3]).await;
    let found = stats(&rig).await;
    assert_eq!((found.running, found.waiting), (4, 6));
    assert_eq!((found.groups[1].running, found.groups[1].waiting), (1, 3));
}

pub(super) async fn the_busiest_groups_are_listed_and_the_others_add_up(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let groups = LIMIT_GROUPS_LISTED_MAX + 5;
    let group = |n: usize| of_group(&format!("g{n:02}"));
    rig.enqueue_all((0..groups).flat_map(|n| vec![group(n); 2 + usize::from(n >= 5)])).await;
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 99).await.len(), groups);
    let found = stats(&rig).await;
    let listed: Vec<&str> = found.groups.iter().map(|group| group.group.as_str()).collect();
    let busiest: Vec<String> = (5..groups).map(|n| format!("g{n:02}")).collect();
    assert_eq!(listed, busiest);
    assert_eq!((found.running, found.other_running()), (groups as u64, 5));
    assert_eq!((found.waiting, found.other_waiting()), (groups as u64 + 20, 5));
}
