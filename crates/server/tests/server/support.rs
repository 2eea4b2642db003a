//! Test servers, and a raw HTTP client.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass_core::engine::Engine;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server, ServerHandle};

/// Timeout for all tests; reached only if a test hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Options of a server on a free port.
pub(crate) fn options() -> Options {
    Options::new(([127, 0, 0, 1], 0).into())
}

/// Starts a server over a new memory engine.
pub(crate) async fn start() -> ServerHandle {
    start_with(options()).await
}

/// Starts a server with these options over a new memory engine.
pub(crate) async fn start_with(options: Options) -> ServerHandle {
    start_over(Arc::new(MemoryEngine::new()), options).await
}

/// Starts a server with these options over this engine.
pub(crate) async fn start_over(engine: Arc<dyn Engine>, options: Options) -> ServerHandle {
    let server = Server::bind(options).await.expect("bind");
    server.serve(engine).expect("serve")
}

/// The response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The body, if it is JSON.
    pub(crate) body: Value,
    /// The raw body.
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Asserts that a request was refused with a problem on this field.
pub(crate) fn assert_problem(answer: &Answer, status: u16, field: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    assert_eq!(answer.body["field"], field, "{answer:?}");
    assert_eq!(answer.body["status"], status);
    assert!(answer.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
}

/// Asserts that a request was refused with this code.
pub(crate) fn assert_code(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.body["code"].as_str()), (status, Some(code)), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
}

/// A time of a reply, in milliseconds.
pub(crate) fn millis(time: &Value) -> i64 {
    let time = time.as_str().expect("a text").parse::<windlass_core::Timestamp>();
    time.expect("RFC 3339").as_millis()
}

/// Enqueues and claims a job: its id and its lease. No other job may be claimable on its queue.
pub(crate) async fn claimed(server: &ServerHandle, job: Value) -> (String, String) {
    let created = post(server, "/v1/jobs", job.clone()).await;
    let queue = job.get("queue").and_then(Value::as_str).unwrap_or("default");
    let claimed = post(server, "/v1/claim", json!({"queues": [queue]})).await;
    let job = &claimed.body["jobs"][0];
    assert_eq!(job["id"], created.body["id"], "{created:?} {claimed:?}");
    let text = |field: &str| job[field].as_str().expect("a text").to_owned();
    (text("id"), text("lease"))
}

/// Creates a dead letter.
pub(crate) async fn dead(server: &ServerHandle, job: Value) -> String {
    let (id, lease) = claimed(server, job).await;
    let error = json!({"code": "smtp_550", "message": "no such mailbox"});
    let report = json!({"id": id, "lease": lease, "outcome": "fail", "error": error});
    let settled = post(server, "/v1/settle", json!({"items": [report]})).await;
    assert_eq!(settled.body["items"][0]["state"], "dead", "{settled:?}");
    id
}

/// The ids of the jobs in a page.
pub(crate) fn ids(page: &Answer) -> Vec<&str> {
    let jobs = page.body["jobs"].as_array().unwrap_or_else(|| panic!("no page: {page:?}"));
    jobs.iter().map(|job| job["id"].as_str().expect("an id")).collect()
}

/// Sends a request with this method and a JSON body.
pub(crate) async fn call(server: &ServerHandle, method: &str, path: &str, body: Value) -> Answer {
    send(server.address(), &json_request(method, path, &body.to_string())).await
}

/// Sends a `POST` with a JSON body.
pub(crate) async fn post(server: &ServerHandle, path: &str, body: Value) -> Answer {
    send(server.address(), &json_request("POST", path, &body.to_string())).await
}

/// Sends a `GET`.
pub(crate) async fn get(server: &ServerHandle, path: &str) -> Answer {
    send(
        server.address(),
        &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"),
    )
    .await
}

/// The text of a request with a JSON body.
pub(crate) fn json_request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends a text, and reads until the server closes the connection.
pub(crate) async fn send(address: SocketAddr, request: &str) -> Answer {
    send_bytes(address, request.as_bytes()).await
}

/// Sends bytes, and reads until the server closes the connection.
pub(crate) async fn send_bytes(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.expect("connect");
    stream.write_all(request).await.expect("send");
    read(&mut stream).await
}

/// Reads a response until the server closes the connection.
pub(crate) async fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut bytes)).await;
    read.expect("an answer in time").expect("an answer");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
    let bytes = bytes.get(end + 4..).unwrap_or_default().to_vec();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no answer: {head:?}")),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        head,
        bytes,
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
