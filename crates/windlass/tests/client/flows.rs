//! Graphs of jobs: stored whole, or refused whole with the name of the node.

use crate::support::{Unspeakable, email};
use windlass::model::OnFailure;
use windlass::{Client, Error, State, job};

/// Asserts that a flow was refused by an error that names all of these, and that nothing is stored.
#[track_caller]
fn assert_refused<T>(result: Result<T, Error>, hints: &[&str]) {
    let Err(error) = result else { panic!("it was stored") };
    let error = error.to_string();
    assert!(hints.iter().all(|hint| error.contains(hint)), "{error}");
}

#[tokio::test]
async fn a_bad_node_is_named_and_nothing_is_stored() {
    let client = windlass::connect("memory:").await.unwrap();
    let good = |client: &Client| {
        let mut flow = client.flow("f");
        flow.add("good", email("ada"));
        flow
    };
    let mut flow = good(&client);
    flow.add("good", email("alan"));
    assert_refused(flow.enqueue().await, &["nodes", "good", "its own name"]);
    let mut flow = good(&client);
    flow.add("no spaces", email("alan"));
    assert_refused(flow.enqueue().await, &["nodes", "no spaces"]);
    let mut flow = good(&client);
    flow.add("late", job(email("alan")).queue("no spaces"));
    assert_refused(flow.enqueue().await, &["nodes.late", "queue"]);
    let mut flow = good(&client);
    flow.add("last", email("alan")).after_job(client.new_id()).node();
    assert_refused(flow.enqueue().await, &["nodes.last.after", "no job has this id"]);
    let mut flow = good(&client);
    let node = flow.add("twice", email("alan")).node();
    flow.add("last", email("alan")).after(&node).after(&node).node();
    assert_refused(flow.enqueue().await, &["nodes.last.after", "once"]);
    let mut flow = good(&client);
    flow.add("silent", Unspeakable);
    assert_refused(flow.enqueue().await, &["payload"]);
    assert_refused(client.flow("no spaces").enqueue().await, &["flow"]);
    let lanes = client.stats().await.unwrap();
    assert!(lanes.iter().all(|lane| lane.available == 0), "{lanes:?}");
}

#[tokio::test]
async fn nodes_run_after_each_other_and_after_jobs_that_exist() {
    let client = windlass::connect("memory:").await.unwrap();
    let before = client.enqueue(email("first")).await.unwrap();
    let mut flow = client.flow("order-1");
    let one = flow.add("one", email("ada")).after_job(before.id()).node();
    let two = flow
        .add("two", job(email("alan")).priority(-1))
        .after(one.on_failure(OnFailure::Run))
        .node();
    assert_eq!(flow.len(), 2);
    let stored = flow.enqueue().await.unwrap();
    assert_eq!(&**stored.name(), "order-1");
    let read = stored.handle(&two).get().await.unwrap();
    assert_eq!((read.state, read.header.flow.as_deref()), (State::Blocked, Some("order-1")));
    let input = &read.inputs[0];
    assert_eq!((input.job, input.name.as_deref()), (one.id(), Some("one")));
    assert_eq!(input.on_failure, OnFailure::Run);
    assert_eq!(stored.named("one").unwrap().id(), one.id());
    assert!(stored.named("three").is_none());
    before.cancel().await.unwrap();
    assert_eq!(stored.handle(&one).get().await.unwrap().state, State::Dead);
    assert_eq!(stored.handle(&two).get().await.unwrap().state, State::Available);
}
