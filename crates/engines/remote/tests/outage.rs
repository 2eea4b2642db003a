//! Servers that are unreachable, return, hang or send invalid replies.

#[path = "common/server.rs"]
mod server;

use server::serve;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use windlass_core::engine::{Admin as _, Claim, Claimant, Enqueue, Jobs as _, OpenSession, Wait};
use windlass_core::model::NewJob;
use windlass_core::{Error, Result};
use windlass_memory::MemoryEngine;
use windlass_remote::{Options, RemoteEngine};
use windlass_server::{Options as ServerOptions, Server};

fn assert_unavailable<T: std::fmt::Debug>(answer: Result<T>, what: &str) {
    let error = answer.expect_err("no server can have answered");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(what), "{error}");
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable_and_found_again_when_it_is_back() {
    let store = MemoryEngine::new();
    let (engine, handle) = serve(Arc::new(store.clone())).await;
    engine.enqueue(Enqueue::each([NewJob::new("before")])).await.unwrap();
    handle.stop().await;
    assert_unavailable(engine.health().await, "http://127.0.0.1");
    assert_unavailable(
        RemoteEngine::connect(format!("http://{}", handle.address())).await,
        "connect",
    );

    let server = Server::bind(ServerOptions::new(handle.address())).await.unwrap();
    let handle = server.serve(Arc::new(store)).unwrap();
    let epoch = engine.health().await.expect("back again, on new connections").epoch;
    let session = engine.open_session(OpenSession::new("w")).await.unwrap();
    assert_eq!(session.epoch, epoch);
    let by = Claimant::Session { session: session.value.id, claim_no: 1 };
    let claimed = engine.claim(Claim::new(by, "default", 10)).await.unwrap();
    assert_eq!(claimed.value.jobs.len(), 1);
    handle.stop().await;
}

#[tokio::test]
async fn a_server_whose_store_is_away_says_so_and_not_that_it_is_ready() {
    let (behind, store) = serve(Arc::new(MemoryEngine::new())).await;
    let (engine, front) = serve(Arc::new(behind)).await;
    engine.enqueue(Enqueue::each([NewJob::new("through two servers")])).await.unwrap();
    store.stop().await;
    let stores_own = format!("http://{}", store.address());
    assert_unavailable(engine.health().await, &stores_own);
    let mut stream = tokio::net::TcpStream::connect(front.address()).await.unwrap();
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("retry-after"), "{answer}");
}

/// A listener that reads what comes and says `reply`, whatever it was asked.
async fn impostor(reply: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 1024];
                while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                    stream.write_all(reply.as_bytes()).await.unwrap_or_default();
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_in_time() {
    let mut options = Options::new(impostor("").await);
    options.answer_timeout = Duration::from_millis(50);
    assert_unavailable(RemoteEngine::open(options).await, "no answer within 50ms");
}

#[tokio::test]
async fn a_server_that_is_not_windlass_is_recognised() {
    let html = "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 4\r\n\r\n<h1>";
    assert_unavailable(RemoteEngine::connect(impostor(html).await).await, "502");
    let json = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    assert_unavailable(RemoteEngine::connect(impostor(json).await).await, "cannot be read");
    let broken = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{";
    let mut options = Options::new(impostor(broken).await);
    options.answer_timeout = Duration::from_millis(200);
    assert_unavailable(RemoteEngine::open(options).await, "");
}

#[tokio::test]
async fn a_request_the_server_would_not_take_is_refused_before_it_is_sent() {
    let mut options = ServerOptions::new(([127, 0, 0, 1], 0).into());
    options.body_bytes_max = 2_000;
    let server = Server::bind(options).await.unwrap();
    let url = format!("http://{}", server.address());
    let _handle = server.serve(Arc::new(MemoryEngine::new())).unwrap();
    let engine = RemoteEngine::connect(url).await.unwrap();
    let job = || NewJob::new("k").payload(vec![b'1'; 1_500]);
    engine.enqueue(Enqueue::each([job()])).await.unwrap();
    let error = engine.enqueue(Enqueue::each([job(), job()])).await.unwrap_err();
    assert_eq!((error.code(), error.field()), ("too_large", Some("body")), "{error}");
}

#[tokio::test]
async fn a_wait_that_is_dropped_is_over_on_the_server_too() {
    let (engine, handle) = serve(Arc::new(MemoryEngine::new())).await;
    let waiting = tokio::spawn(async move { engine.wait(Wait::new(["q"], 60_000)).await });
    let seen = async |count| {
        while handle.status().waiting != count {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let limit = std::time::Duration::from_secs(30);
    tokio::time::timeout(limit, seen(1)).await.expect("it waits");
    waiting.abort();
    tokio::time::timeout(limit, seen(0)).await.expect("it is over");
}
