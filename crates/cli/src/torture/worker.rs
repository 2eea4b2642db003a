//! An ordinary worker: `windlass-worker` with handlers that are slow, fail, panic, exceed their timeout, save
//! checkpoints and enqueue follow-ups.

use super::client::Order;
use super::limits;
use super::stage::{RESULT_BYTES, Stage, is_payload_of};
use super::waits;
use super::{
    BACKOFF, CALL_MAX, COMPACT_EVERY_MS, FOLLOW_UP, HEARTBEAT_MS, KINDS, LEAD_TTL_MS, LEASE_MS,
    RETAIN_EVERY_MS, TRIM_EVERY_MS,
};
use crate::connect::Url;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_core::model::NewJob;
use windlass_core::random::{Random as _, Seeded};
use windlass_services::ServiceOptions;
use windlass_worker::{Ctx, Data, Raw, Stop, Worker};

/// Number of jobs that a worker runs at a time.
const CONCURRENCY: u32 = 12;
/// Maximum duration of most handlers.
const HANDLER_MAX_MS: u64 = 40;
/// Maximum duration of handlers under limits, so that slots are in short supply.
const LIMITED_MAX_MS: u64 = 200;
/// Maximum duration of slow handlers: some take longer than a lease, which must not matter, and some exceed the
/// timeout.
const SLOW_MAX_MS: u64 = 2 * LEASE_MS;
/// Timeout of a handler.
const TIMEOUT: Duration = Duration::from_millis(LEASE_MS + LEASE_MS / 2);
/// Maximum delay that a handler requests.
const DELAY_MAX_MS: u64 = 200;
/// Number of distinct ordering keys of follow-ups.
const KEYS: u64 = 8;
/// In runs with graphs, one attempt in this many checks what it waited for, which reads its job.
const WAITS_CHECKED_IN: u64 = 4;
/// Time that running handlers have to finish when the worker stops.
const GRACE: Duration = Duration::from_secs(5);

/// Works until the order to stop.
pub(super) async fn run(stage: Arc<Stage>, number: u64) {
    let mut builder = Worker::builder(Arc::new(stage.client()))
        .name(format!("{}-{number}", stage.spec.name))
        .queue(stage.spec.queue.clone())
        .concurrency(CONCURRENCY)
        .session(Duration::from_millis(LEASE_MS), Duration::from_millis(HEARTBEAT_MS))
        .call_timeout(CALL_MAX)
        .timeout(TIMEOUT)
        .grace(GRACE)
        .data(stage.clone())
        .handle_kind(FOLLOW_UP, handle);
    for kind in KINDS {
        builder = builder.handle_kind(kind, handle);
    }
    if stage.spec.limits {
        for limited in limits::ALL {
            builder = builder.handle_kind(&limited.name_in(&stage.spec.queue), handle_limited);
        }
    }
    builder = match &stage.spec.url {
        // The server runs the services.
        Url::Http(_) => builder.remote(),
        // Same services as `serve`, but with a shorter lead TTL, so that a killed leader is replaced sooner.
        _ => {
            let mut options = ServiceOptions::default();
            options.lead_ttl = Duration::from_millis(LEAD_TTL_MS);
            if stage.spec.retention_ms.is_some() {
                options.retain.interval = Duration::from_millis(RETAIN_EVERY_MS);
                options.compact.interval = Duration::from_millis(COMPACT_EVERY_MS);
                options.trim.interval = Duration::from_millis(TRIM_EVERY_MS);
            }
            builder.service_options(options)
        }
    };
    let worker = match builder.build() {
        Ok(worker) => worker.start(),
        Err(error) => return stage.bad("worker", error),
    };
    stage.ordered(Order::Stop).await;
    let stopped = worker.drain().await;
    if stopped.undelivered > 0 {
        stage.bad("worker", format!("{} results were not delivered", stopped.undelivered));
    }
}

/// A handler of a job under a limit: mostly short, and sometimes another attempt is needed.
async fn handle_limited(
    Raw(bytes): Raw,
    ctx: Ctx,
    Data(stage): Data<Arc<Stage>>,
) -> Result<(), Stop> {
    if !is_payload_of(ctx.id(), &bytes) {
        stage.bad("claim", format!("job {} arrived without its payload", ctx.id()));
    }
    let random = Seeded::new(seed_of(&ctx));
    let delay = Duration::from_millis(random.below(DELAY_MAX_MS));
    let (drawn, short) = (random.below(1_000), random.below(LIMITED_MAX_MS));
    tokio::time::sleep(Duration::from_millis(short)).await;
    match drawn {
        0..30 => return Err(Stop::retry("by chance").after(delay)),
        30..45 => return Err(Stop::snooze(delay)),
        45..60 => return Err(Stop::release()),
        // Proves that the job runs.
        60..160 => ctx.save_checkpoint_bytes("half").await?,
        _ => {}
    }
    stage.ended.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// A seed for the decisions of an attempt.
fn seed_of(ctx: &Ctx) -> u64 {
    ctx.id().as_bytes().iter().fold(u64::from(ctx.attempt()), |seed, byte| {
        seed.wrapping_mul(31).wrapping_add((*byte).into())
    })
}

/// A handler that ends in every possible way, mostly with success.
async fn handle(
    Raw(bytes): Raw,
    ctx: Ctx,
    Data(stage): Data<Arc<Stage>>,
) -> Result<Option<String>, Stop> {
    if ctx.header().parent.is_none() && !is_payload_of(ctx.id(), &bytes) {
        stage.bad("claim", format!("job {} arrived without its payload", ctx.id()));
    }
    let random = Seeded::new(seed_of(&ctx));
    let delay = Duration::from_millis(random.below(DELAY_MAX_MS));
    let (drawn, short) = (random.below(1_000), random.below(HANDLER_MAX_MS));
    tokio::time::sleep(Duration::from_millis(short)).await;
    let flows = stage.spec.flows;
    if flows && random.below(WAITS_CHECKED_IN) == 0 {
        waits::check(&ctx, &stage).await?;
    }
    match drawn {
        0..60 => return Err(Stop::retry("by chance").after(delay)),
        60..80 => return Err(Stop::retry("by chance, and as the job says")),
        80..110 => return Err(Stop::snooze(delay)),
        110..140 => return Err(Stop::release()),
        140..160 => panic!("by chance"),
        160..175 => return Err(Stop::fatal("by chance")),
        175..185 => tokio::time::sleep(Duration::from_millis(random.below(SLOW_MAX_MS))).await,
        185..215 => ctx.set_progress(1, Some(2), "half"),
        // During an outage the checkpoint cannot be saved; then the attempt fails, as in any application.
        215..245 => ctx.save_checkpoint_bytes("half").await?,
        // Follow-ups enqueue no follow-ups, or the run would never end.
        245..320 if ctx.header().parent.is_none() => {
            let job = NewJob::new(FOLLOW_UP).queue(stage.spec.queue.clone()).backoff(BACKOFF);
            ctx.follow_up(job.key(format!("f{}", random.below(KEYS))))?;
        }
        320..380 if flows && ctx.header().parent.is_none() => {
            return Err(waits::for_children(&ctx, &stage, &random)?);
        }
        380..440 if flows => return Err(waits::for_signal(&random)),
        _ => {}
    }
    stage.ended.fetch_add(1, Ordering::Relaxed);
    Ok(stage.spec.retention_ms.map(|_| "r".repeat(RESULT_BYTES)))
}
