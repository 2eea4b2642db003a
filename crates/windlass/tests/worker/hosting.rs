//! Workers host the services: one set for all workers of a client.

use crate::store::Store;
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use windlass::engine::Engine;
use windlass::services::{ServiceOptions, Services};
use windlass::{Client, Error, State};

const SOON: Duration = Duration::from_millis(50);

async fn leader(client: &Client) -> Option<String> {
    Services::leader(&**client.engine()).await.unwrap().map(|leader| leader.label)
}

fn labelled(label: &str) -> ServiceOptions {
    let mut options = ServiceOptions::default();
    options.label = label.to_owned();
    options
}

#[tokio::test]
async fn a_delayed_job_runs_with_nothing_but_a_worker_on_every_store() {
    for (client, _dir) in stores().await {
        let worker = client.worker().handle(work).build().unwrap().start();
        let id = client.enqueue(Work { number: 1 }).delay(SOON).await.unwrap().id();
        completes(&client, id).await;
        worker.drain().await;
    }
}

#[tokio::test]
async fn workers_of_one_client_share_the_services_until_the_last_has_drained() {
    let client = windlass::connect("memory:").await.unwrap();
    assert!(client.services().status().is_none(), "not needed yet");
    let one = client.worker().handle(work).build().unwrap().start();
    let other = client.clone().worker().handle(work).build().unwrap().start();
    eventually("a leader", async || leader(&client).await).await;
    let term = client.services().status().unwrap().leader;

    one.drain().await;
    let status = client.services().status().expect("the other worker needs them");
    assert_eq!(status.leader, term, "the same ones");
    let id = client.enqueue(Work { number: 1 }).delay(SOON).await.unwrap().id();
    completes(&client, id).await;

    other.drain().await;
    assert!(client.services().status().is_none());
    assert_eq!(leader(&client).await, None, "resigned when the drain is over");

    let again = client.worker().handle(work).build().unwrap().start();
    let id = client.enqueue(Work { number: 2 }).delay(SOON).await.unwrap().id();
    completes(&client, id).await;
    again.drain().await;
}

#[tokio::test]
async fn another_process_takes_over_as_soon_as_the_last_worker_has_drained() {
    let engine = windlass::connect("memory:").await.unwrap().engine().clone();
    let (here, there) = (Client::new(engine.clone()), Client::new(engine));
    let mine = here.worker().service_options(labelled("here")).handle(work);
    let mine = mine.build().unwrap().start();
    eventually("the first to lead", async || leader(&here).await).await;
    let theirs = there.worker().service_options(labelled("there")).handle(work);
    let theirs = theirs.build().unwrap().start();
    assert_eq!(leader(&here).await.as_deref(), Some("here"));
    mine.drain().await;
    let next = async || leader(&here).await.filter(|label| label == "there");
    let start = tokio::time::Instant::now();
    eventually("the second to lead", next).await;
    let ttl = ServiceOptions::default().lead_ttl;
    assert!(start.elapsed() < ttl / 2, "notified without waiting");
    theirs.drain().await;
}

#[tokio::test]
async fn a_worker_without_services_leaves_the_store_to_others() {
    let client = windlass::connect("memory:").await.unwrap();
    let without = client.worker().services(false).handle(work).build().unwrap().start();
    let id = client.enqueue(Work { number: 1 }).delay(SOON).await.unwrap().id();
    // Well past its time, and past the pace at which the services would have looked.
    let due = client.get(id).await.unwrap().unwrap().header.run_at;
    let past = async || {
        let now = client.engine().health().await.unwrap().now;
        (now > due.plus(600)).then_some(())
    };
    eventually("the time to pass", past).await;
    assert_eq!(state(&client, id).await, State::Scheduled);
    assert!(client.services().status().is_none() && leader(&client).await.is_none());

    let with = client.worker().handle(work).build().unwrap().start();
    completes(&client, id).await;
    with.drain().await;
    without.drain().await;
}

#[tokio::test]
async fn one_set_of_services_has_one_set_of_options() {
    let client = windlass::connect("memory:").await.unwrap();
    let build = |options| client.worker().service_options(options).handle(work).build();
    let worker = build(labelled("mine")).unwrap().start();
    assert_eq!(
        eventually("a leader", async || leader(&client).await).await,
        "mine",
        "the options are those of the services that run"
    );
    let error = Error::from(build(labelled("other")).unwrap_err());
    assert!(error.to_string().contains("service_options"), "{error}");
    assert_eq!(error.code(), "build");
    drop(build(labelled("mine")).unwrap());
    // A worker without options of its own uses the running services.
    drop(client.worker().handle(work).build().unwrap());
    worker.drain().await;

    let defaults = windlass::connect("memory:").await.unwrap();
    let worker = defaults.worker().handle(work).build().unwrap().start();
    eventually("the services", async || defaults.services().status()).await;
    let late = defaults.worker().service_options(labelled("late")).handle(work).build();
    assert!(late.is_err(), "they run already, with others");
    worker.drain().await;

    let mut wrong = ServiceOptions::default();
    wrong.promote.batch = 0;
    let error = defaults.worker().service_options(wrong).handle(work).build().unwrap_err();
    assert!(error.to_string().contains("promote.batch"), "{error}");
}

#[tokio::test]
async fn behind_a_server_the_server_hosts_the_services() {
    let memory = windlass::connect("memory:").await.unwrap();
    let remote: Arc<dyn Engine> = Store::called("remote", memory.engine().clone());
    let client = Client::new(remote);
    let worker = client.worker().handle(work).build().unwrap().start();
    let id = client.enqueue(Work { number: 1 }).await.unwrap().id();
    completes(&client, id).await;
    assert!(client.services().status().is_none());
    worker.drain().await;
}
