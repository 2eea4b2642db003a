//! Measurements over time.

use crate::clock::START;
use crate::spy::{SeenSteps, Spy};
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_core::engine::{Engine, Enqueue};
use windlass_core::model::NewJob;
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};
use windlass_services::{Flows, Resolution, Sample, SampleQuery, Samples, ServiceOptions};

fn sampler() -> ServiceOptions {
    only(|o| o.sample.enabled = true)
}

async fn series(engine: &Arc<impl Engine + 'static>, resolution: Resolution) -> Vec<Sample> {
    let query = SampleQuery::new(resolution, START, START.plus(DAY_MS));
    Samples::new(engine.clone()).read(&query).await.expect("a good query")
}

async fn fill(engine: &dyn Engine, queue: &str, count: usize) {
    let jobs = (0..count).map(|_| NewJob::new("x").queue(queue));
    engine.enqueue(Enqueue::each(jobs)).await.expect("stored");
}

#[tokio::test(start_paused = true)]
async fn each_minute_leaves_averages_and_maxima_of_every_queue() {
    let engine = memory();
    fill(&*engine, "mail", 10).await;
    let services = start(&engine, sampler());
    sleep(Duration::from_secs(60)).await;
    fill(&*engine, "mail", 30).await;
    fill(&*engine, "web", 2).await;
    sleep(Duration::from_secs(65)).await;
    services.stop().await;
    let minutes = series(&engine, Resolution::Minute).await;
    let starts: Vec<_> = minutes.iter().map(|minute| minute.start).collect();
    assert_eq!(starts, [START, START.plus(MINUTE_MS)]);
    let first = minutes[0].queue("mail").unwrap();
    assert!((59..=60).contains(&first.samples), "each second: {}", first.samples);
    assert_eq!((first.depth.max(), first.average(first.depth)), (10, 10.0));
    assert_eq!(minutes[0].queue("web"), None);
    let second = minutes[1].queue("mail").unwrap();
    assert_eq!((second.available.max(), second.running.max()), (40, 0));
    assert!(second.oldest_ms.max() >= 119_000, "{}", second.oldest_ms.max());
    assert_eq!(minutes[1].queue("web").unwrap().depth.max(), 2);

    let query = SampleQuery::new(Resolution::Minute, START.plus(1), START.plus(DAY_MS));
    let web = Samples::new(engine.clone()).read(&query.queue("web")).await.unwrap();
    assert_eq!((web.len(), web[0].queues.len()), (1, 1));
    let endless = SampleQuery::new(Resolution::Minute, START, START.plus(30 * DAY_MS));
    let error = Samples::new(engine).read(&endless).await.unwrap_err();
    assert_eq!(error.field(), Some("from"));
}

#[tokio::test(start_paused = true)]
async fn hours_are_summed_from_the_minutes_of_all_leaders() {
    let engine = memory();
    fill(&*engine, "mail", 4).await;
    for _ in 0..3 {
        // Three leaders, one after the other.
        let services = start(&engine, sampler());
        sleep(Duration::from_millis(HOUR_MS / 2)).await;
        services.stop().await;
    }
    fill(&*engine, "mail", 4).await;
    let services = start(&engine, sampler());
    sleep(Duration::from_millis(HOUR_MS)).await;
    services.stop().await;
    let hours = series(&engine, Resolution::Hour).await;
    let starts: Vec<_> = hours.iter().map(|hour| hour.start).collect();
    assert_eq!(starts, [START, START.plus(HOUR_MS)], "each once");
    let first = hours[0].queue("mail").unwrap();
    assert!((3_450..=3_600).contains(&first.samples), "{}", first.samples);
    assert_eq!(first.average(first.depth), 4.0);
    let second = hours[1].queue("mail").unwrap();
    assert_eq!(second.depth.max(), 8);
    assert!((5.9..6.1).contains(&second.average(second.depth)), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn measurements_of_processes_that_overlap_still_average() {
    let engine = memory();
    fill(&*engine, "mail", 6).await;
    let mut options = sampler();
    options.leadership = false;
    let both = [start(&engine, options.clone()), start(&engine, options)];
    sleep(Duration::from_secs(65)).await;
    for services in both {
        services.stop().await;
    }
    let minutes = series(&engine, Resolution::Minute).await;
    assert_eq!(minutes.len(), 1, "one row for the minute");
    let mail = minutes[0].queue("mail").unwrap();
    assert_eq!((mail.average(mail.depth), mail.depth.max()), (6.0, 6));
    assert!(mail.samples > 100, "of both");
}

#[tokio::test(start_paused = true)]
async fn minutes_that_cannot_be_stored_are_kept_until_they_can() {
    let store = memory();
    fill(&*store, "mail", 1).await;
    let spy = Arc::new(Spy::new(store.clone(), 0, SeenSteps::default()));
    let services = start(&spy, sampler());
    sleep(Duration::from_secs(58)).await;
    // The queues can be measured all the while, but nothing can be written.
    spy.set_records_away(true);
    sleep(Duration::from_secs(6)).await;
    spy.set_records_away(false);
    sleep(Duration::from_secs(60)).await;
    services.stop().await;
    let minutes = series(&store, Resolution::Minute).await;
    let counts: Vec<_> = minutes.iter().map(|m| m.queue("mail").unwrap().samples).collect();
    assert_eq!(minutes[0].start, START);
    assert!(counts[0] >= 55, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn counts_of_several_processes_add_up_by_minute_and_hour() {
    let engine = memory();
    fill(&*engine, "mail", 3).await;
    let services = start(&engine, sampler());
    let stop = CancellationToken::new();
    let servers = [Flows::default(), Flows::default()];
    for server in &servers {
        tokio::spawn(server.clone().write(engine.clone(), stop.clone()));
        server.count(START, "mail", |flow| flow.enqueued += 40);
        server.count(START.plus(1_000), "mail", |flow| flow.completed += 10);
    }
    servers[0].count(START.plus(MINUTE_MS), "mail", |flow| flow.enqueued += 1);
    let open = servers[0].unwritten("mail", START.plus(MINUTE_MS));
    assert_eq!(open.enqueued, 1, "the other minute is none of it");
    sleep(Duration::from_millis(HOUR_MS + 2 * MINUTE_MS)).await;
    stop.cancel();
    services.stop().await;

    let minutes = series(&engine, Resolution::Minute).await;
    let flow = |sample: &Sample| sample.queue("mail").expect("it is there").flow;
    assert_eq!((flow(&minutes[0]).enqueued, flow(&minutes[0]).completed), (80, 20));
    assert_eq!(flow(&minutes[1]).enqueued, 1);
    assert_eq!(minutes[0].queue("mail").unwrap().depth.max(), 3, "beside what was measured");
    let hours = series(&engine, Resolution::Hour).await;
    assert_eq!((flow(&hours[0]).enqueued, flow(&hours[0]).completed), (81, 20));
}
