//! Clients that are slow, many or idle cost what they are allowed to, and no more.

use crate::spy::Spy;
use crate::support::{get, options, post, read, start_over, start_with, until};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_given_up() {
    let mut options = options();
    options.read_timeout_ms = 50;
    let server = start_with(options).await;
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 10\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let answer = read(&mut slow).await;
    assert_eq!((answer.status, &answer.body["code"]), (408, &json!("unavailable")));
}

#[tokio::test]
async fn a_head_that_does_not_arrive_in_time_ends_the_connection() {
    let mut options = options();
    options.read_timeout_ms = 50;
    let server = start_with(options).await;
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    slow.write_all(b"POST /v1/jobs HT").await.unwrap();
    until("it is noticed", || server.status().connections == 1).await;
    until("it is closed", || server.status().connections == 0).await;
    assert_eq!(get(&server, "/healthz").await.status, 200);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let mut options = options();
    options.connections_max = 2;
    let server = start_with(options).await;
    let first = TcpStream::connect(server.address()).await.unwrap();
    let second = TcpStream::connect(server.address()).await.unwrap();
    until("both are open", || server.status().connections == 2).await;
    let third = get(&server, "/healthz");
    tokio::pin!(third);
    let early = tokio::time::timeout(std::time::Duration::from_millis(50), &mut third).await;
    assert!(early.is_err(), "no room yet");
    drop((first, second));
    assert_eq!(third.await.status, 200);
}

#[tokio::test]
async fn bodies_beyond_the_room_for_all_of_them_wait_or_are_given_up() {
    let mut options = options();
    (options.body_bytes_max, options.bodies_bytes_max) = (4_096, 4_096);
    options.read_timeout_ms = 200;
    let server = start_with(options).await;
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 4096\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    // The slow one is given up in its time, and then there is room again.
    assert_eq!(read(&mut slow).await.status, 408);
    assert_eq!(post(&server, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
}

#[tokio::test]
async fn a_store_that_falls_silent_is_answered_for_in_time() {
    let spy = Spy::default();
    let mut options = options();
    options.call_timeout_ms = 50;
    let server = start_over(Arc::new(spy.clone()), options).await;
    spy.silent.store(true, Ordering::SeqCst);
    let answer = post(&server, "/v1/jobs", json!({"kind": "k"})).await;
    assert_eq!((answer.status, &answer.body["code"]), (503, &json!("unavailable")), "{answer:?}");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(get(&server, "/healthz").await.status, 200, "the process lives");
    assert_eq!(get(&server, "/readyz").await.status, 503, "but cannot serve");
    spy.silent.store(false, Ordering::SeqCst);
    assert_eq!(get(&server, "/readyz").await.status, 200);
}
