//! The queues that a worker serves: by default those of its handlers' job types.

use crate::support::PATIENCE;
use serde::{Deserialize, Serialize};
use windlass::{Ctx, Job, Stop, job};

#[derive(Job, Serialize, Deserialize)]
#[job(queue = "mail", output = String)]
struct Letter;

#[derive(Job, Serialize, Deserialize)]
#[job(queue = "parcels", output = String)]
struct Parcel;

async fn letter(_: Letter, ctx: Ctx) -> Result<String, Stop> {
    Ok(format!("letter on {}", ctx.queue()))
}

fn parcel(_: Parcel, ctx: Ctx) -> Result<String, Stop> {
    Ok(format!("parcel on {}", ctx.queue()))
}

async fn letters(jobs: Vec<Letter>) -> Result<String, Stop> {
    Ok(format!("{} letters", jobs.len()))
}

#[tokio::test]
async fn a_worker_serves_the_queues_of_its_handlers_types_by_default() {
    let client = windlass::connect("memory:").await.unwrap();
    let worker = client.worker().handle(letter).handle_blocking(parcel);
    let worker = worker.handle_kind("note", async |_: windlass::Raw| {}).build().unwrap().start();
    let letter = client.enqueue(Letter).await.unwrap();
    assert_eq!(letter.wait_for(PATIENCE).await.unwrap(), "letter on mail");
    let parcel = client.enqueue(Parcel).await.unwrap();
    assert_eq!(parcel.wait_for(PATIENCE).await.unwrap(), "parcel on parcels");
    // A handler that was added by kind has no queue of its own: its jobs are on `default`.
    let note = client.enqueue(windlass::job_of("note")).await.unwrap();
    note.wait_for(PATIENCE).await.unwrap();
    worker.drain().await;
}

#[tokio::test]
async fn a_batch_handlers_type_names_its_queue_too() {
    let client = windlass::connect("memory:").await.unwrap();
    let worker = client.worker().handle_batch(letters, 5).build().unwrap().start();
    let letter = client.enqueue(Letter).await.unwrap();
    assert_eq!(letter.wait_for(PATIENCE).await.unwrap(), "1 letters");
    worker.drain().await;
}

#[tokio::test]
async fn a_handler_that_can_never_run_is_refused_with_both_names() {
    let client = windlass::connect("memory:").await.unwrap();
    let error = client.worker().queue("bulk").handle(letter).build().unwrap_err().to_string();
    assert!(error.contains("kind \"letter\" can never run"), "{error}");
    assert!(error.contains("its jobs go to queue \"mail\""), "{error}");
    assert!(error.contains("serves only \"bulk\""), "{error}");
    assert!(client.worker().weighted([("bulk", 1)]).handle_blocking(parcel).build().is_err());
    assert!(client.worker().queue("bulk").handle_batch(letters, 5).build().is_err());
}

#[tokio::test]
async fn a_handler_that_is_added_by_kind_serves_the_queues_that_are_named() {
    let client = windlass::connect("memory:").await.unwrap();
    let worker = client.worker().queue("bulk").handle_kind(Letter::KIND, letter);
    let worker = worker.build().unwrap().start();
    let letter = client.enqueue(job(Letter).queue("bulk")).await.unwrap();
    assert_eq!(letter.wait_for(PATIENCE).await.unwrap(), "letter on bulk");
    worker.drain().await;
}
