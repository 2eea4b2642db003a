//! Claims and waits with a timeout: try, wait for a wake-up, try again. A waiting claim holds no
//! lease and ends with its connection, because the server drops its future.

use crate::access::Who;
use crate::app::App;
use crate::waits::{Sign, join};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::Result;
use windlass_core::engine::{Claim, Claimed, Stamped, Wait};

/// Claims jobs, waiting up to `wait_ms` for ready ones.
pub(crate) async fn claim(
    app: &App,
    who: &Who,
    claim: Claim,
    wait_ms: u64,
) -> Result<Stamped<Claimed>> {
    let mut wait = Wait::new(claim.queues.iter().map(|want| want.queue.clone()), wait_ms);
    wait.kinds = claim.kinds.as_ref().map(|kinds| kinds.iter().map(|it| it.kind.clone()).collect());
    wait.check()?;
    let poll = || app.call(app.engine.claim(claim.clone()));
    let deadline = Instant::now() + Duration::from_millis(wait_ms);
    let (_counted, mut keys) = (Counted::new(&app.waiting), app.access.watch());
    let mut reply = poll().await?;
    if !reply.value.jobs.is_empty() || wait_ms == 0 {
        return Ok(reply);
    }
    let group = join(app, &wait);
    loop {
        let sign = group.sign(app, &mut keys, deadline).await;
        if sign == Sign::Stop {
            return Ok(reply);
        }
        // Do not lease jobs to a key that was revoked during the wait.
        app.access.still(&who.0).await?;
        if sign == Sign::Keys {
            continue;
        }
        reply = poll().await?;
        if !reply.value.jobs.is_empty() {
            group.hit();
            return Ok(reply);
        }
        if sign == Sign::TimeUp {
            return Ok(reply);
        }
    }
}

/// Waits for claimable jobs; answers early on shutdown.
pub(crate) async fn wait(app: &App, who: &Who, mut wait: Wait) -> Result<Stamped<bool>> {
    wait.check()?;
    let deadline = Instant::now() + Duration::from_millis(wait.wait_ms);
    let waits = wait.wait_ms > 0;
    wait.wait_ms = 0;
    let poll = || app.call(app.engine.wait(wait.clone()));
    let (_counted, mut keys) = (Counted::new(&app.waiting), app.access.watch());
    let ready = poll().await?;
    if ready.value || !waits {
        return Ok(ready);
    }
    let group = join(app, &wait);
    loop {
        let sign = group.sign(app, &mut keys, deadline).await;
        if sign != Sign::Stop {
            app.access.still(&who.0).await?;
        }
        if sign == Sign::Keys {
            continue;
        }
        let ready = poll().await?;
        if ready.value || sign != Sign::Check {
            return Ok(ready);
        }
    }
}

/// Counts a request as waiting until dropped.
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
