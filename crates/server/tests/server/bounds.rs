//! Slow, numerous and idle clients stay within their limits.

use crate::spy::Spy;
use crate::support::{
    DEADLINE, get, options, post, read, send, start, start_over, start_with, until,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_given_up() {
    let mut options = options();
    options.read_timeout = Duration::from_millis(50);
    let server = start_with(options).await;
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 10\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let answer = read(&mut slow).await;
    assert_eq!((answer.status, &answer.body["code"]), (408, &json!("unavailable")));
}

#[tokio::test]
async fn a_head_that_does_not_arrive_in_time_ends_the_connection() {
    let mut options = options();
    options.read_timeout = Duration::from_millis(50);
    let server = start_with(options).await;
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    slow.write_all(b"POST /v1/jobs HT").await.unwrap();
    until("it is noticed", || server.status().connections == 1).await;
    until("it is closed", || server.status().connections == 0).await;
    assert_eq!(get(&server, "/healthz").await.status, 200);
}

#[tokio::test]
async fn bodies_beyond_the_room_for_all_of_them_wait_or_are_given_up() {
    let mut options = options();
    (options.body_bytes_max, options.bodies_bytes_max) = (4_096, 4_096);
    options.read_timeout = Duration::from_millis(200);
    let server = start_with(options).await;
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 4096\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    // The slow request times out, which releases its memory.
    assert_eq!(read(&mut slow).await.status, 408);
    assert_eq!(post(&server, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
}

#[tokio::test]
async fn a_store_that_falls_silent_is_answered_for_in_time() {
    let spy = Spy::default();
    let mut options = options();
    options.call_timeout = Duration::from_millis(50);
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

/// Sends `begin`, then one byte at a time until the server closes the connection.
async fn dribble(address: std::net::SocketAddr, begin: &str) -> Vec<u8> {
    let (mut from, mut to) = TcpStream::connect(address).await.expect("connect").into_split();
    to.write_all(begin.as_bytes()).await.expect("send");
    let dribbling = tokio::spawn(async move {
        while to.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let mut answer = Vec::new();
    // A reset counts as an end too: the client was still sending.
    let _ = tokio::time::timeout(DEADLINE, from.read_to_end(&mut answer)).await.expect("an end");
    dribbling.abort();
    answer
}

#[tokio::test]
async fn a_slow_sender_gets_no_more_time_than_others() {
    let mut options = options();
    options.read_timeout = Duration::from_millis(100);
    let server = start_with(options).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
    let body = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 1000000\r\n\r\n{";
    let slow = [head, body].map(|begin| dribble(server.address(), begin));
    let [_, answer] = futures_util::future::join_all(slow).await.try_into().unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    until("both are closed", || server.status().connections == 0).await;
    assert_eq!(post(&server, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
}

#[tokio::test]
async fn long_headers_and_invalid_http_are_refused_without_affecting_other_clients() {
    let server = start().await;
    let get = |headers: &str| format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let close = "connection: close\r\n";
    let bad = [
        (get(&format!("x-long: {}\r\n{close}", "y".repeat(300_000))), 431),
        (get(&format!("{many}{close}")), 431),
        (get(&format!("no colon here\r\n{close}")), 400),
        (get(&format!("bad name: y\r\n{close}")), 400),
        (format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n{close}\r\n", "y".repeat(70_000)), 414),
        ("\u{16}\u{3}\u{1}\u{2} this is TLS\r\n\r\n".to_owned(), 400),
        ("POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n".to_owned(), 400),
    ];
    for (request, status) in bad {
        let answer = send(server.address(), &request).await;
        assert_eq!(answer.status, status, "{:.80}", request.escape_debug().to_string());
    }
    assert_eq!(send(server.address(), &get(close)).await.status, 200);
}
