//! Tests the workloads on a queue in memory, whose completions can be delayed.

use super::*;
use crate::About;
use std::sync::Mutex;

/// The waiting jobs, and the numbers of enqueued and completed ones.
#[derive(Clone, Default)]
struct Toy {
    waiting: Arc<Mutex<Vec<Payload>>>,
    stored: Arc<AtomicU64>,
    completed: Arc<AtomicU64>,
    /// Number of jobs that are never completed.
    stuck: u64,
}

impl Queue for Toy {
    async fn open(url: &str) -> Result<Self> {
        Ok(Self { stuck: url.parse()?, ..Self::default() })
    }

    fn about(&self) -> About {
        About { version: "1".into(), settings: String::new(), bulk: 7, bulk_callers: 2 }
    }

    async fn enqueue(&self, job: Payload) -> Result<()> {
        self.enqueue_many(vec![job]).await
    }

    async fn enqueue_many(&self, mut jobs: Vec<Payload>) -> Result<()> {
        tokio::task::yield_now().await;
        self.stored.fetch_add(jobs.len() as u64, Ordering::SeqCst);
        self.waiting.lock().unwrap().append(&mut jobs);
        Ok(())
    }

    async fn work(&self, seen: Seen) -> Result<()> {
        let queue = self.clone();
        tokio::spawn(async move {
            loop {
                let taken = queue.waiting.lock().unwrap().pop();
                let Some(job) = taken else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                };
                seen.start(job.n);
                let reachable = queue.stored.load(Ordering::SeqCst).saturating_sub(queue.stuck);
                if queue.completed.load(Ordering::SeqCst) < reachable {
                    queue.completed.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        Ok(self.stored.load(Ordering::SeqCst) - self.completed.load(Ordering::SeqCst))
    }
}

async fn answer(workload: Workload, jobs: u64, others: u64, stuck: u64) -> Answer {
    let (url, seconds) = (stuck.to_string(), 0.2);
    let order = Order { workload, url, jobs, others, seconds, fill_seconds: 5.0 };
    run::<Toy>(&order).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_workload_is_measured() {
    for workload in [Workload::W1seq, Workload::W1c64, Workload::W4, Workload::W6] {
        let answer = answer(workload, 5, 0, 0).await;
        assert!(answer.jobs > 0 && answer.p50_ms <= answer.p99_ms, "{workload:?}: {answer:?}");
        assert!(answer.p99_ms.is_some(), "{workload:?}: {answer:?}");
    }
    assert_eq!(answer(Workload::W2, 100, 0, 0).await.jobs, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_when_the_store_shows_the_jobs_as_completed() {
    let answer = answer(Workload::W3, 1_000, 0, 0).await;
    assert_eq!((answer.jobs, answer.others), (1_000, 0));
    assert!(answer.seconds < 0.2, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_were_started_and_not_completed_do_not_count() {
    let answer = answer(Workload::W3, 1_000, 0, 10).await;
    assert_eq!(answer.jobs, 990);
    assert!(answer.seconds >= 0.2, "it waits for them as long as it may: {answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_wait_behind_and_are_not_waited_for() {
    let answer = answer(Workload::W5, 500, 300, 300).await;
    assert_eq!((answer.jobs, answer.others), (500, 300));
}

#[test]
fn a_percentile_is_one_of_the_values() {
    let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    assert_eq!(percentile(&mut values, 50.0), Some(50.0));
    assert_eq!(percentile(&mut values, 99.0), Some(99.0));
    assert_eq!(percentile(&mut [], 50.0), None);
}
