//! Claims and waits with a timeout: try, wait for a wake-up, try again; waits for the end of a job and for events. A waiting claim holds no
//! lease and ends with its connection, because the server drops its future.

use crate::access::Who;
use crate::app::App;
use crate::event_stream;
use crate::waits::{Sign, join};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Claim, Claimed, EventsReply, EventsRequest, Get, Stamped, Wait};
use windlass_core::limits::WAIT_MAX_MS;
use windlass_core::{JobId, Result, within_range};

/// Interval before the second look at a job; doubles with each look.
const LOOK_FIRST: Duration = Duration::from_millis(5);
/// Longest interval between two looks: the end of a job is noticed no later than this.
const LOOK_LONGEST: Duration = Duration::from_millis(500);

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

/// Reads events, and waits up to `wait_ms` for one if there is none; answers early on shutdown.
pub(crate) async fn events(
    app: &App,
    who: &Who,
    mut request: EventsRequest,
) -> Result<Stamped<EventsReply>> {
    request.check()?;
    let read = |request: &EventsRequest| {
        app.call_within(app.engine.events(request.clone()), request.wait_ms)
    };
    let deadline = Instant::now() + Duration::from_millis(request.wait_ms);
    let _place = match request.wait_ms {
        0 => return read(&request).await,
        _ => event_stream::place(&app.event_readers)?,
    };
    let (_counted, mut keys) = (Counted::new(&app.waiting), app.access.watch());
    loop {
        tokio::select! {
            biased;
            () = app.stopping.cancelled() => return read(&request.wait_ms(0)).await,
            // Does not answer a key that was revoked during the wait.
            _ = keys.changed() => app.access.still(&who.0).await?,
            reply = read(&request) => return reply,
        }
        let left = deadline.saturating_duration_since(Instant::now());
        request.wait_ms = left.as_millis().try_into().unwrap_or(0);
    }
}

/// Waits until a job has ended or does not exist, at most `wait_ms`. Reads it at growing intervals, because engines do not
/// announce ends; the layer below merges the reads of concurrent requests.
pub(crate) async fn ended(app: &App, who: &Who, id: JobId, wait_ms: u64) -> Result<()> {
    within_range("wait_ms", wait_ms, 0..=WAIT_MAX_MS)?;
    let deadline = Instant::now() + Duration::from_millis(wait_ms);
    let (_counted, mut pause) = (Counted::new(&app.waiting), LOOK_FIRST);
    while Instant::now() < deadline {
        let found = app.call(app.engine.get(Get::new([id]))).await?.value.into_iter().next();
        if found.flatten().is_none_or(|job| job.state.is_terminal()) {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = app.stopping.cancelled() => return Ok(()),
            () = tokio::time::sleep_until(deadline.min(Instant::now() + pause)) => {}
        }
        // Does not answer a key that was revoked during the wait.
        app.access.still(&who.0).await?;
        pause = (pause * 2).min(LOOK_LONGEST);
    }
    Ok(())
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
