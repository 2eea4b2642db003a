//! Table locks that would block all workers: a refused lock is requested again later, and a session that prevents it
//! for long is logged as a warning.

use crate::log_capture::Said;
use crate::rig::{LONG_MS, Rig};
use tracing::Level;
use windlass_core::engine::*;

/// How long after a lock that did not come it is asked for again.
const ASK_AGAIN_MS: u64 = 10_000;
/// For how long it may not come before it is worth a warning, and how often that is repeated.
const WARN_AFTER_MS: u64 = 60_000;
const WARN_AGAIN_MS: u64 = 600_000;
/// Makes `ready` much larger than what is alive in it: vacuum clears it, and gives nothing back.
const GROW: &str = "INSERT INTO {s}.ready (lane, flags, rank, seq, id)
        SELECT -1, 0, 0, n, gen_random_uuid() FROM generate_series(1, 20000) n;
    DELETE FROM {s}.ready WHERE lane = -1";
/// Bytes of it.
const SIZE: &str = "SELECT pg_relation_size('{s}.ready')";

/// A rig whose words are kept, and how often it was refused a lock and warned of that.
struct Warned {
    rig: Rig,
    said: Said,
    table: String,
    _listens: tracing::subscriber::DefaultGuard,
}

impl Warned {
    async fn about(table: &str) -> Self {
        let said = Said::default();
        let listens = tracing::subscriber::set_default(said.clone());
        Self { rig: Rig::new().await, said, table: format!("table=\"{table}\""), _listens: listens }
    }

    /// Looks once, so much later.
    async fn later(&self, ms: u64) -> (usize, usize) {
        self.rig.pass(ms);
        self.rig.upkeep(Work::Compact).await;
        (self.refused(), self.warned().len())
    }

    /// How often a lock did not come, however loudly that was said.
    fn refused(&self) -> usize {
        self.said.lines(Level::DEBUG, &self.table).len() + self.warned().len()
    }

    fn warned(&self) -> Vec<String> {
        self.said.lines(Level::WARN, &self.table)
    }

    /// A transaction that keeps the lock, from the first refusal until after the second warning.
    async fn kept(&self, read: &str) {
        let reader = self.rig.meanwhile(read).await;
        assert_eq!(self.later(0).await, (1, 0), "that may pass");
        assert_eq!(self.later(ASK_AGAIN_MS - 1).await, (1, 0), "it is not asked for again soon");
        assert_eq!(self.later(1).await, (2, 0));
        assert_eq!(self.later(WARN_AFTER_MS - ASK_AGAIN_MS).await, (3, 1), "{:?}", self.warned());
        let parts = ["for_s=60", "is busy", "see pg_locks and pg_stat_activity"];
        let warning = self.warned().remove(0);
        assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
        assert_eq!(self.later(ASK_AGAIN_MS).await, (4, 1), "it was said");
        assert_eq!(self.later(WARN_AGAIN_MS).await, (5, 2), "and is said again");
        reader.batch_execute("COMMIT").await.expect("ends");
        assert_eq!(self.later(ASK_AGAIN_MS).await, (5, 2));
    }

    /// Another transaction, long after: counted from the beginning.
    async fn kept_again(&self, read: &str) {
        let reader = self.rig.meanwhile(read).await;
        assert_eq!(self.later(LONG_MS).await, (6, 2), "{:?}", self.warned());
        reader.batch_execute("COMMIT").await.expect("ends");
        assert_eq!(self.later(ASK_AGAIN_MS).await, (6, 2));
        self.rig.is_sound().await;
    }
}

#[tokio::test]
async fn a_lock_that_prevents_a_rewrite_is_logged_after_a_minute() {
    let warned = Warned::about("ready").await;
    let read = "SELECT count(*) FROM {s}.ready";
    let grow = || async {
        warned.rig.client.batch_execute(&warned.rig.sql(GROW)).await.expect("grows");
    };
    grow().await;
    let grown = warned.rig.count(SIZE).await;
    warned.kept(read).await;
    assert!(warned.rig.count(SIZE).await < grown / 2, "it is cleared as soon as it can be");
    grow().await;
    warned.kept_again(read).await;
    assert!(warned.rig.count(SIZE).await < grown / 2);
}

#[tokio::test]
async fn a_lock_that_prevents_new_partitions_is_logged_after_a_minute() {
    let warned = Warned::about("job_default").await;
    let read = "SELECT count(*) FROM {s}.jobs";
    warned.rig.pass(LONG_MS);
    let before = warned.rig.partitions().await;
    warned.kept(read).await;
    let after = warned.rig.partitions().await;
    assert!(after > before, "they are added as soon as they can be");
    warned.kept_again(read).await;
    assert!(warned.rig.partitions().await > after);
}
