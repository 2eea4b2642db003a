//! Slow uploads, and their effect on other clients.

use crate::support::{DEADLINE, json_request, options, post, read, start, start_with};
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;
use windlass_server::ServerHandle;

/// Maximum time for a small request beside slow uploads, on a busy machine.
const PROMPTLY: Duration = Duration::from_secs(3);

/// Starts to upload a batch and sends only its beginning.
async fn upload(server: &ServerHandle, announced: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.expect("connect");
    let head = format!(
        "POST /v1/jobs/batch HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("send");
    stream.write_all(&vec![b' '; sent]).await.expect("send");
    stream
}

#[tokio::test]
async fn uploads_that_send_nothing_do_not_delay_workers() {
    let server = start().await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(upload(&server, 64 * 1024 * 1024, 0).await);
    }
    let begin = Instant::now();
    let opened = post(&server, "/v1/sessions", json!({"worker": "w"})).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    assert_eq!(post(&server, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
    assert!(begin.elapsed() < PROMPTLY, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn uploads_that_fill_their_memory_leave_workers_theirs() {
    let mut options = options();
    (options.body_bytes_max, options.bodies_bytes_max) = (512 * 1024, 512 * 1024);
    let server = start_with(options).await;
    let opened = post(&server, "/v1/sessions", json!({"worker": "w"})).await;
    let mut slow = upload(&server, 512 * 1024, 500 * 1024).await;
    // The upload holds memory once the server has read the sent bytes.
    let refused = async {
        loop {
            let answer = post(&server, "/v1/jobs", json!({"kind": "k".repeat(64)})).await;
            if answer.status == 503 {
                return answer;
            }
        }
    };
    let refused = tokio::time::timeout(DEADLINE, refused).await.expect("no memory for producers");
    assert_eq!(refused.body["code"], "unavailable", "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let begin = Instant::now();
    let beat = json!({"session": opened.body["session"], "held": [], "upto": 0});
    assert_eq!(post(&server, "/v1/heartbeat", beat).await.status, 200);
    assert_eq!(post(&server, "/v1/settle", json!({"items": []})).await.status, 200);
    assert_eq!(post(&server, "/v1/sessions", json!({"worker": "w"})).await.status, 201);
    assert!(begin.elapsed() < PROMPTLY, "{:?}", begin.elapsed());
    // Completing the upload gets a reply and releases the memory.
    slow.write_all(&vec![b' '; 12 * 1024]).await.unwrap();
    assert_eq!(read(&mut slow).await.status, 400);
    assert_eq!(post(&server, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
}

#[tokio::test]
async fn a_body_of_unknown_length_is_read_in_full() {
    let server = start().await;
    let body = json!({"kind": "k", "payload": "x".repeat(40_000)}).to_string();
    let request = json_request("POST", "/v1/jobs", "")
        .replace("content-length: 0", "transfer-encoding: chunked");
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    for piece in body.as_bytes().chunks(1_000) {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await.unwrap();
        stream.write_all(piece).await.unwrap();
        stream.write_all(b"\r\n").await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(read(&mut stream).await.status, 201);
}
