//! At every default isolation level of a database, commits concurrent with maintenance are not lost.

use super::rig::{KEPT_MS, Open, Rig};
use crate::bouncer::Bouncer;
use crate::common::database::OwnDatabase;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_core::engine::*;

const LEVELS: [&str; 2] = ["repeatable read", "serializable"];
/// How often a test tries to commit while a lock is waited for, which is 50 to 100 ms.
const TRIES: usize = 50;

/// Commits a job while `ready` is being rewritten, and expects it to be there afterwards.
async fn a_job_survives_a_rewrite(rig: &Rig) {
    let mut client = rig.connect().await;
    let mut jobs = 1;
    for _ in 0..TRIES {
        rig.grow("ready").await;
        let before = rig.file("ready").await;
        let open = Open::with_job(rig, &mut client).await;
        jobs += 1;
        let waited = rig.upkeep_beside(open, Work::Compact, "ready").await;
        if waited && rig.file("ready").await != before {
            rig.is_sound().await;
            assert_eq!(rig.complete_all().await, jobs);
            return;
        }
    }
    panic!("the table was never rewritten just after a commit");
}

#[tokio::test]
async fn a_job_that_commits_while_ready_is_rewritten_is_not_lost() {
    for level in LEVELS {
        a_job_survives_a_rewrite(&Rig::at_level(level).await).await;
    }
}

#[tokio::test]
async fn a_job_that_commits_while_ready_is_rewritten_through_a_pooler_is_not_lost() {
    for level in LEVELS {
        let database = OwnDatabase::with(&[("default_transaction_isolation", level)]).await;
        let bouncer = Bouncer::before(&database.url(), "");
        a_job_survives_a_rewrite(&Rig::reached_at(database, bouncer.url()).await).await;
    }
}

#[tokio::test]
async fn a_job_that_commits_while_its_partition_is_dropped_is_not_lost() {
    for level in LEVELS {
        let mut dropped = false;
        for _ in 0..TRIES {
            let rig = Rig::at_level(level).await;
            let mut client = rig.connect().await;
            let open = Open::with_job(&rig, &mut client).await;
            rig.clock.advance(KEPT_MS * 5 / 4);
            let partitions = "SELECT count(*) FROM windlass.partition";
            let before = rig.number(partitions).await;
            let waited = rig.upkeep_beside(open, Work::Retain, "job").await;
            dropped = waited && rig.number(partitions).await < before;
            if dropped {
                rig.is_sound().await;
                assert_eq!(rig.complete_all().await, 2, "{level}");
                break;
            }
        }
        assert!(dropped, "the partition was never dropped just after a commit");
    }
}

/// Jobs enqueued at a time under load. Workers keep up, so that tables are small but for what is dead in them.
const BATCH: usize = 20;
/// How often tables are rewritten meanwhile.
const REWRITES: usize = 8;

#[tokio::test]
async fn nothing_is_lost_where_tables_are_rewritten_under_load() {
    for level in LEVELS {
        let rig = Rig::at_level(level).await;
        let before = rig.file("ready").await;
        let is_over = AtomicBool::new(false);
        let produce = async {
            let mut stored = 1;
            while !is_over.load(Ordering::Relaxed) {
                stored += rig.enqueue(BATCH).await.len();
            }
            stored
        };
        let consume = async {
            let mut done = 0;
            while !is_over.load(Ordering::Relaxed) {
                done += rig.complete(10 * BATCH as u32).await;
            }
            done
        };
        let rewrite = async {
            for _ in 0..REWRITES {
                rig.grow("ready").await;
                rig.grow("lease").await;
                rig.upkeep(Work::Compact).await;
            }
            is_over.store(true, Ordering::Relaxed);
        };
        let (stored, done, ()) = tokio::join!(produce, consume, rewrite);
        assert_ne!(rig.file("ready").await, before, "it was rewritten");
        rig.is_sound().await;
        assert_eq!(done + rig.complete_all().await, stored, "{level}");
    }
}
