//! Ghosts: rows about jobs that do not exist. A check finds them, and a repair removes them with what they count for.

use crate::rig::{KEPT_MS, Rig};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{Due, JobError, NewJob, State};
use windlass_core::policy::{Retention, Unique};

/// Tables with a row per job, or with rows about jobs.
const TABLES: [&str; 11] = [
    "life",
    "part",
    "ready",
    "lease",
    "scheduled",
    "aside",
    "finished",
    "key_holder",
    "key_line",
    "unique_key",
    "deadline",
];

/// The queue of the jobs that stay.
const KEPT: &str = "kept";

async fn add(rig: &Rig, job: NewJob) -> JobId {
    let items = rig.engine.enqueue(Enqueue::each([job])).await.expect("enqueues").value;
    items.into_iter().next().expect("one").expect("is taken").id
}

/// One job in each place, with all that can be known of a job.
async fn everywhere(rig: &mut Rig) -> Vec<JobId> {
    let mut ids = Vec::new();
    let job = || NewJob::new("k").json("{}");
    // Dead, with a row in `life`; and with a retention of its own.
    ids.push(add(rig, job()).await);
    let mut own = job();
    own.policy.retention = Some(Retention::uniform_ms(KEPT_MS));
    ids.push(add(rig, own).await);
    let dead = Outcome::Fail { error: JobError::new("bad", "no use") };
    rig.end(&ids, dead).await;
    // Completed.
    let completed = rig.enqueue(1).await;
    rig.complete(&completed).await;
    ids.extend(completed);
    // Waiting for a retry.
    let retried = rig.enqueue(1).await;
    let retry = Outcome::Retry { error: JobError::new("bad", "again"), delay_ms: Some(KEPT_MS) };
    rig.end(&retried, retry).await;
    ids.extend(retried);
    // Running.
    ids.extend(rig.enqueue(1).await);
    assert_eq!(rig.claim(1).await.len(), 1);
    ids.push(add(rig, job().due(Due::After(KEPT_MS))).await);
    // Holds an ordering key and a unique one; and in line behind it.
    ids.push(add(rig, job().key("line").unique(Unique::by("one"))).await);
    ids.push(add(rig, job().key("line")).await);
    let paused = add(rig, job()).await;
    rig.change(paused, Change::Pause).await;
    ids.push(paused);
    // With a part that was changed.
    let edited = rig.enqueue(1).await[0];
    let part = rig.sql(&format!("INSERT INTO {{s}}.part VALUES ('{edited}', 1, 'x', NULL)"));
    rig.client.batch_execute(&part).await.expect("is stored");
    ids.push(edited);
    ids
}

/// How many rows of a table are about jobs that do not exist.
async fn ghosts_in(rig: &Rig, table: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM {{s}}.{table} t WHERE NOT EXISTS (SELECT FROM {{s}}.job j WHERE j.id = t.id)"
    );
    rig.count(&sql).await
}

#[tokio::test]
async fn a_repair_removes_every_row_of_jobs_that_do_not_exist_and_counts_and_claims_are_right() {
    let mut rig = Rig::new().await;
    let kept = [NewJob::new("k").queue(KEPT), NewJob::new("k").queue(KEPT)];
    let kept = [add(&rig, kept[0].clone()).await, add(&rig, kept[1].clone()).await];
    rig.change(kept[1], Change::Pause).await;
    let gone = everywhere(&mut rig).await;
    let ids: Vec<String> = gone.iter().map(|id| format!("'{id}'")).collect();
    let sql = rig.sql(&format!("DELETE FROM {{s}}.job WHERE id IN ({})", ids.join(", ")));
    rig.client.batch_execute(&sql).await.expect("makes ghosts");
    for table in TABLES {
        assert!(ghosts_in(&rig, table).await > 0, "{table} has ghosts");
    }

    let found = rig.engine.check(false).await.expect("checks").value;
    for id in &gone {
        let named = |finding: &&Finding| finding.what.contains(&id.to_string());
        let named = found.findings.iter().find(named).map(|finding| &finding.what);
        assert!(named.is_some_and(|what| what.contains("does not exist")), "{id}: {found:?}");
    }
    assert!(found.findings.iter().any(|finding| finding.what.contains("is counted as")));
    let repaired = rig.engine.check(true).await.expect("checks").value;
    assert_eq!(repaired.findings.len(), found.findings.len());
    assert!(repaired.findings.iter().all(|finding| finding.repaired));
    rig.is_sound().await;

    for table in TABLES {
        assert_eq!(ghosts_in(&rig, table).await, 0, "{table}");
    }
    for lane in rig.engine.stats(StatsRequest::default()).await.expect("counts").value {
        let counts =
            [lane.available, lane.paused, lane.running, lane.scheduled, lane.blocked, lane.dead];
        let expected = if &*lane.queue == KEPT { [1, 1, 0, 0, 0, 0] } else { [0; 6] };
        assert_eq!(counts, expected, "{lane:?}");
    }
    assert_eq!(rig.claim(100).await.len(), 0, "nothing of the ghosts is claimed");
    let claimed = rig.claim_from(KEPT, 100).await;
    assert_eq!(claimed.iter().map(|job| job.header.id).collect::<Vec<_>>(), [kept[0]]);
    assert_eq!(rig.state(kept[1]).await, Some(State::Paused));
    rig.settle(&claimed, Outcome::DONE).await;
    rig.is_sound().await;
}
