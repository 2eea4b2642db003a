//! More connections than the limit: which are accepted, and which requests are served.

use crate::support::{Answer, call, get, json_request, options, post, read, start_with, until};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use windlass_server::ServerHandle;

/// A claim that waits for one minute.
async fn waiting_claim(server: &ServerHandle) -> TcpStream {
    let body = json!({"queues": ["q"], "wait_ms": 60_000}).to_string();
    let mut stream = TcpStream::connect(server.address()).await.expect("connect");
    let request = json_request("POST", "/v1/claim", &body);
    stream.write_all(request.as_bytes()).await.expect("send");
    stream
}

async fn limited(connections: usize) -> ServerHandle {
    let mut options = options();
    options.connections_max = connections;
    start_with(options).await
}

#[tokio::test]
async fn a_connection_that_is_idle_makes_room_for_a_new_one() {
    let server = limited(2).await;
    let mut first = TcpStream::connect(server.address()).await.unwrap();
    until("it is open", || server.status().connections == 1).await;
    let busy = waiting_claim(&server).await;
    until("it waits", || server.status().waiting == 1).await;
    assert_eq!(get(&server, "/v1/stats").await.status, 200);
    assert_eq!(first.read(&mut [0]).await.unwrap(), 0, "the idle one was closed");
    assert_eq!(server.status().waiting, 1, "and the busy one was not");
    drop(busy);
}

#[tokio::test]
async fn silent_connections_do_not_lock_out_clients() {
    let server = limited(20).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(server.address()).await.unwrap());
    }
    for _ in 0..10 {
        assert_eq!(post(&server, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
    }
    until("the others were closed", || server.status().connections <= 20).await;
}

#[tokio::test]
async fn probes_and_workers_are_answered_while_every_connection_is_busy() {
    let server = limited(2).await;
    let opened = post(&server, "/v1/sessions", json!({"worker": "w"})).await;
    let _busy = [waiting_claim(&server).await, waiting_claim(&server).await];
    until("both wait", || server.status().waiting == 2).await;
    assert_eq!(get(&server, "/healthz").await.status, 200);
    assert_eq!(get(&server, "/readyz").await.status, 200);
    let beat = json!({"session": opened.body["session"], "held": [], "upto": 0});
    assert_eq!(post(&server, "/v1/heartbeat", beat).await.status, 200);
    assert_eq!(post(&server, "/v1/settle", json!({"items": []})).await.status, 200);
    let refused = |answer: Answer| {
        assert_eq!((answer.status, &answer.body["code"]), (503, &json!("unavailable")));
        assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    };
    refused(get(&server, "/v1/stats").await);
    refused(post(&server, "/v1/jobs", json!({"kind": "k"})).await);
    refused(call(&server, "GET", "/", json!(null)).await);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_replies_is_given_up() {
    let mut options = options();
    options.read_timeout = Duration::from_millis(300);
    let server = start_with(options).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let stream = socket.connect(server.address()).await.unwrap();
    let (from, mut to) = stream.into_split();
    // More replies than all socket buffers can hold.
    let asking = tokio::spawn(async move {
        let ask = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
        while to.write_all(ask.as_bytes()).await.is_ok() {}
    });
    until("it is open", || server.status().connections == 1).await;
    until("it was closed", || server.status().connections == 0).await;
    asking.await.unwrap();
    drop(from);
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_all_of_its_reply() {
    let mut options = options();
    options.read_timeout = Duration::from_millis(500);
    let server = start_with(options).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(server.address()).await.unwrap();
    let ask = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answer = read(&mut stream).await;
    assert_eq!((answer.status, answer.body["openapi"].is_string()), (200, true));
}
