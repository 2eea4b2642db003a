//! Shared by the tests: a kind of jobs, stores, and waiting for conditions.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;
use windlass::{Client, Ctx, Job, JobId, State, Stop};

/// Nothing in these tests takes anywhere near this long, whatever else the machine does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Job, Serialize, Deserialize)]
#[job(output = u32)]
pub(crate) struct Work {
    pub(crate) number: u32,
}

/// Returns the number of the attempt that did it.
pub(crate) async fn work(_: Work, ctx: Ctx) -> Result<u32, Stop> {
    Ok(ctx.attempt())
}

/// A store in memory and one on disk, which lives as long as its directory.
pub(crate) async fn stores() -> [(Client, Option<tempfile::TempDir>); 2] {
    let dir = tempfile::tempdir().unwrap();
    let file = windlass::connect(format!("file:{}", dir.path().display())).await.unwrap();
    [(windlass::connect("memory:").await.unwrap(), None), (file, Some(dir))]
}

pub(crate) async fn completes(client: &Client, id: JobId) -> windlass::Finished {
    let finished = client.wait_for(id, PATIENCE).await.unwrap();
    assert!(finished.is_completed(), "{:?}", finished.job);
    finished
}

pub(crate) async fn state(client: &Client, id: JobId) -> State {
    client.get(id).await.unwrap().unwrap().state
}

/// Waits until `check` answers with something.
pub(crate) async fn eventually<T>(what: &str, check: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}
