//! A server over a store with keys, and a client with configurable credentials.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server, ServerHandle};
use windlass_services::{Grants, Keys, NewKey};

/// Timeout for all tests; reached only if a test hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A served store.
pub(crate) struct Site {
    pub(crate) server: ServerHandle,
    pub(crate) keys: Keys,
}

/// The response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    /// The body, if it is JSON.
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Asserts that the request was refused with the missing permission.
    #[track_caller]
    pub(crate) fn needs(&self, needs: &str) {
        assert_eq!((self.status, self.body["code"].as_str()), (403, Some("forbidden")), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.body["needs"], needs, "{self:?}");
    }
}

impl Site {
    /// Starts a server without services, so that nothing changes on its own.
    pub(crate) async fn start() -> Self {
        Self::over(Arc::new(MemoryEngine::new())).await
    }

    async fn over(engine: Arc<MemoryEngine>) -> Self {
        let options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
        let server = Server::bind(options).await.expect("bind");
        let server = server.serve(engine.clone()).expect("serve");
        Self { server, keys: Keys::new(engine) }
    }

    /// Starts a server with an admin key, so that authentication is required from the first request
    /// on.
    pub(crate) async fn locked() -> (Self, String) {
        let engine = Arc::new(MemoryEngine::new());
        let admin = NewKey::new("admin", Grants::admin());
        let (_, secret) = Keys::new(engine.clone()).create(admin).await.expect("a key");
        (Self::over(engine).await, secret.expect("a secret").expose().to_owned())
    }

    /// The id and the secret of a new key.
    pub(crate) async fn key_of(&self, new: NewKey) -> (String, String) {
        let (key, secret) = self.keys.create(new).await.expect("a key");
        (key.id, secret.expect("a secret").expose().to_owned())
    }

    /// A new key with these permissions.
    pub(crate) async fn key(&self, may: &str) -> String {
        let grants: Grants = may.parse().expect("permissions");
        let name: String = may.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        self.key_of(NewKey::new(name, grants)).await.1
    }

    /// Sends a request to the JSON routes with this key.
    pub(crate) async fn call(&self, key: &str, method: &str, path: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {key}");
        self.send(method, path, &[("authorization", &bearer)], &body.to_string()).await
    }

    pub(crate) async fn post(&self, key: &str, path: &str, body: Value) -> Answer {
        self.call(key, "POST", path, body).await
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> Answer {
        let bearer = format!("Bearer {key}");
        self.send("GET", path, &[("authorization", &bearer)], "").await
    }

    /// Sends any request. A body that is not JSON is sent as a form.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let address = self.server.address();
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if method != "GET" {
            let is_form = body.is_empty() || body.contains('=');
            let kind =
                if is_form { "application/x-www-form-urlencoded" } else { "application/json" };
            text += &format!("content-type: {kind}\r\ncontent-length: {}\r\n", body.len());
        }
        let mut stream = TcpStream::connect(address).await.expect("connect");
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).await.expect("send");
        let mut answer = String::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_string(&mut answer)).await;
        read.expect("an answer in time").expect("an answer");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a whole answer");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = serde_json::from_str(text).unwrap_or(Value::Null);
        Answer {
            status: status.expect("a status"),
            head: head.to_owned(),
            body,
            text: text.to_owned(),
        }
    }

    /// Claims one job: its id and its lease.
    pub(crate) async fn claimed(&self, key: &str, queue: &str) -> (String, String) {
        let claimed = self.post(key, "/v1/claim", json!({"queues": [queue]})).await;
        let text = |field: &str| claimed.body["jobs"][0][field].as_str().expect("a job").to_owned();
        (text("id"), text("lease"))
    }
}
