//! A server of one's own, and a client that says exactly what it is told.

use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass_core::engine::Engine;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server, ServerHandle};

/// Nothing in these tests takes this long unless it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Options of a server on a port of its own.
pub(crate) fn options() -> Options {
    Options::new(([127, 0, 0, 1], 0).into())
}

/// A server over a fresh memory engine.
pub(crate) async fn start() -> ServerHandle {
    start_with(options()).await
}

/// The same with these options.
pub(crate) async fn start_with(options: Options) -> ServerHandle {
    start_over(Arc::new(MemoryEngine::new()), options).await
}

/// The same over this engine.
pub(crate) async fn start_over(engine: Arc<dyn Engine>, options: Options) -> ServerHandle {
    let server = Server::bind(options).await.expect("bind");
    server.serve(engine).expect("serve")
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// `POST` with a JSON body.
pub(crate) async fn post(server: &ServerHandle, path: &str, body: Value) -> Answer {
    send(server.address(), &json_request("POST", path, &body.to_string())).await
}

/// `GET`.
pub(crate) async fn get(server: &ServerHandle, path: &str) -> Answer {
    send(server.address(), &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
        .await
}

/// A whole request with a JSON body.
pub(crate) fn json_request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends a text, and reads until the server closes.
pub(crate) async fn send(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.expect("connect");
    stream.write_all(request.as_bytes()).await.expect("send");
    read(&mut stream).await
}

/// Reads an answer, until the server closes.
pub(crate) async fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut bytes)).await;
    read.expect("an answer in time").expect("an answer");
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no answer: {text:?}")),
        head: head.to_owned(),
        body: serde_json::from_str(body).unwrap_or(Value::Null),
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
