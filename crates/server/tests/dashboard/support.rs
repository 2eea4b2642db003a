//! A server with direct access to its engine, and a client that sends the headers of a browser.

use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{JobError, KindPatch, NewJob, State};
use windlass_core::policy::Breaker;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server, ServerHandle};
use windlass_services::{Grants, Keys, NewKey};

/// Timeout for all tests; reached only if a test hangs.
const DEADLINE: Duration = Duration::from_secs(30);

/// A server over an engine that tests can access directly.
pub(crate) struct Site {
    pub(crate) server: ServerHandle,
    pub(crate) engine: Arc<MemoryEngine>,
    claims: std::sync::atomic::AtomicU64,
}

/// The response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The page that an action leads to, and the name of the notice there.
    #[track_caller]
    pub(crate) fn leads_to(&self) -> (&str, &str) {
        assert_eq!(self.status, 303, "{self:?}");
        let location = self.header("location").expect("a location");
        let (page, notice) = location.split_once("notice=").expect("a notice");
        (page.trim_end_matches(['?', '&']), notice.split('&').next().unwrap_or_default())
    }

    /// Asserts that a page contains this text.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.body.contains(text), "{text:?} is not in {} {}", self.status, self.body);
        self
    }

    #[track_caller]
    pub(crate) fn hides(&self, text: &str) -> &Self {
        assert!(!self.body.contains(text), "{text:?} is in {} {}", self.status, self.body);
        self
    }
}

impl Site {
    /// Starts a server without services, so that nothing changes on its own.
    pub(crate) async fn start() -> Self {
        Self::over(Arc::new(MemoryEngine::new())).await
    }

    /// Starts a server over a store with a key, and returns a key for each of these permissions.
    pub(crate) async fn locked<const N: usize>(permissions: [&str; N]) -> (Self, [String; N]) {
        let engine = Arc::new(MemoryEngine::new());
        let (keys, mut secrets) = (Keys::new(engine.clone()), Vec::new());
        for (index, may) in permissions.into_iter().enumerate() {
            let grants: Grants = may.parse().expect("permissions");
            let (_, secret) = keys
                .create(NewKey::new(format!("key-{index}"), grants))
                .await
                .expect("the key is created");
            secrets.push(secret.expect("a secret").expose().to_owned());
        }
        (Self::over(engine).await, secrets.try_into().expect("one key for each"))
    }

    async fn over(engine: Arc<MemoryEngine>) -> Self {
        let options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
        let server = Server::bind(options).await.expect("bind");
        let server = server.serve(engine.clone()).expect("serve");
        Self { server, engine, claims: 0.into() }
    }

    pub(crate) fn host(&self) -> String {
        self.server.address().to_string()
    }

    /// The URL of a page.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host())
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.request("GET", path, headers, "").await
    }

    /// Submits a form of a dashboard page, as a browser does.
    pub(crate) async fn post(&self, path: &str, form: &str) -> Reply {
        self.request("POST", path, &[("sec-fetch-site", "same-origin")], form).await
    }

    /// Sends a request to the JSON routes.
    pub(crate) async fn json(&self, path: &str, body: &str) -> Reply {
        let (host, length) = (self.host(), body.len());
        let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        let kind = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
        self.send(&format!("{head}{kind}\r\n{body}")).await
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let host = self.host();
        let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            text += &format!("host: {host}\r\n");
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if method == "POST" {
            let (kind, length) = ("application/x-www-form-urlencoded", body.len());
            text += &format!("content-type: {kind}\r\ncontent-length: {length}\r\n");
        }
        self.send(&format!("{text}\r\n{body}")).await
    }

    async fn send(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(self.server.address()).await.expect("connect");
        stream.write_all(request.as_bytes()).await.expect("send");
        let mut text = String::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_string(&mut text)).await;
        read.expect("an answer in time").expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole answer");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Reply { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) async fn enqueue(&self, job: NewJob) -> JobId {
        let answer =
            self.engine.enqueue(Enqueue::each([job])).await.expect("enqueue").value.remove(0);
        answer.expect("stored").id
    }

    /// Claims one job of a queue, if one is ready.
    pub(crate) async fn claim(&self, queue: &str) -> Option<ClaimedJob> {
        self.claim_of(queue, None).await
    }

    /// Claims one job of a queue and a kind, if one is ready.
    pub(crate) async fn claim_kind(&self, queue: &str, kind: &str) -> Option<ClaimedJob> {
        self.claim_of(queue, Some(KindWant { kind: kind.into(), limit: 1 })).await
    }

    async fn claim_of(&self, queue: &str, kind: Option<KindWant>) -> Option<ClaimedJob> {
        let number = self.claims.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let claim_id = ClaimId::new(format!("test-{number}"));
        let by = Claimant::Alone { claim_id, worker: "tester".to_owned(), lease_ms: 60_000 };
        let mut claim = Claim::new(by, queue.to_owned(), 1);
        claim.kinds = kind.map(|kind| vec![kind]);
        let reply = self.engine.claim(claim).await.expect("claim");
        reply.value.jobs.into_iter().next()
    }

    pub(crate) async fn configure(&self, changes: impl IntoIterator<Item = Configure>) {
        let reply = self.engine.configure(changes.into_iter().collect()).await.expect("configure");
        reply.value.into_iter().collect::<Result<Vec<_>, _>>().expect("configured");
    }

    /// Opens the circuit breaker of a kind, as its service does.
    pub(crate) async fn open_breaker(&self, kind: &str) {
        let now = self.engine.health().await.expect("health").now;
        let breaker = Breaker::Open { since: now, next_probe_at: now.plus(60_000) };
        let value = json!({"breaker": breaker, "upto": 0, "gated": true}).to_string().into();
        let put = RecordOp::Put { key: format!("brk/{kind}"), value, expect: Expect::Any };
        let reply = self.engine.records(vec![put]).await.expect("records");
        reply.value.into_iter().collect::<Result<Vec<_>, _>>().expect("stored");
        self.configure([Configure::kind(kind, KindPatch::permits(Some(0)))]).await;
    }

    pub(crate) async fn settle(&self, job: &ClaimedJob, outcome: Outcome) {
        let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
        let reply = self.engine.settle(Settle::new([item])).await.expect("settle");
        reply.value.items.into_iter().next().expect("an answer").expect("settled");
    }

    /// A dead job.
    pub(crate) async fn dead(&self, queue: &str, message: &str) -> JobId {
        self.dead_of(queue, "breaks", message).await
    }

    /// A dead job of a kind.
    pub(crate) async fn dead_of(&self, queue: &str, kind: &str, message: &str) -> JobId {
        let id = self.enqueue(NewJob::new(kind).queue(queue)).await;
        let job = self.claim(queue).await.expect("the job just enqueued");
        self.settle(&job, Outcome::Fail { error: JobError::new("broken", message) }).await;
        id
    }

    pub(crate) async fn state(&self, id: JobId) -> Option<State> {
        let reply = self.engine.get(Get::new([id])).await.expect("get");
        reply.value.into_iter().next().flatten().map(|job| job.state)
    }
}
