//! A claim that waits: looks, waits for a sign, looks again. While it waits it holds no lease, and it
//! ends when its connection does, because the server drops it then.

use crate::app::App;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::Result;
use windlass_core::engine::{Claim, Claimed, Stamped, Wait};

/// The first pause after a sign that led to nothing; doubles each time.
const PAUSE_MIN_MS: u64 = 5;
/// The longest such pause.
const PAUSE_MAX_MS: u64 = 1_000;

/// Claims, waiting up to `wait_ms` for something to claim.
pub(crate) async fn claim(app: &App, claim: Claim, wait_ms: u64) -> Result<Stamped<Claimed>> {
    let mut wait = Wait::new(claim.queues.iter().map(|want| want.queue.clone()), wait_ms);
    wait.kinds = claim.kinds.as_ref().map(|kinds| kinds.iter().map(|it| it.kind.clone()).collect());
    wait.check()?;
    let deadline = Instant::now() + Duration::from_millis(wait_ms);
    let mut pause_ms = PAUSE_MIN_MS;
    let _counted = Counted::new(&app.waiting);
    loop {
        let reply = app.call(app.engine.claim(claim.clone())).await?;
        if !reply.value.jobs.is_empty() {
            return Ok(reply);
        }
        wait.wait_ms = u64::try_from((deadline - Instant::now()).as_millis()).unwrap_or(0);
        if wait.wait_ms == 0 || !is_worth_another_look(app, &wait).await? {
            return Ok(reply);
        }
        // A sign may lead to nothing, again and again: others are faster, or a limit of the claim is in
        // the way. A pause that grows keeps that from becoming a spin.
        if pause_ms > PAUSE_MIN_MS {
            let pause = Duration::from_millis(pause_ms).min(deadline - Instant::now());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = app.stopping.cancelled() => return Ok(reply),
            }
        }
        pause_ms = (pause_ms * 2).min(PAUSE_MAX_MS);
    }
}

/// Whether something may be claimable now; not when the time is up or the server stops.
async fn is_worth_another_look(app: &App, wait: &Wait) -> Result<bool> {
    tokio::select! {
        ready = app.call_within(app.engine.wait(wait.clone()), wait.wait_ms) => Ok(ready?.value),
        () = app.stopping.cancelled() => Ok(false),
    }
}

/// Waits for something to claim, and answers early if the server stops.
pub(crate) async fn wait(app: &App, wait: Wait) -> Result<Stamped<bool>> {
    let _counted = Counted::new(&app.waiting);
    let wait_ms = wait.wait_ms;
    tokio::select! {
        ready = app.call_within(app.engine.wait(wait), wait_ms) => ready,
        () = app.stopping.cancelled() => {
            Ok(app.call(app.engine.health()).await?.map(|()| false))
        }
    }
}

/// Counts a request for as long as it waits, however it ends.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
