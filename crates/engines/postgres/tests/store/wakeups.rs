//! The engine tests whether notifications arrive, and finds jobs without them.

#[path = "../partitions/log_capture.rs"]
mod log_capture;

use crate::common::{OwnSchema, application, open, url};
use log_capture::Said;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tracing::Level;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_postgres::{Options, PostgresEngine};

/// Longer than anything here should take.
const LONG: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Its log lines.
const ARRIVE: &str = "notifications of this server arrive";
const DEAF: &str = "notifications of this server do not arrive";
/// The server's message that carries a notification.
const NOTIFICATION: u8 = b'A';

/// Whether the gauge says that they arrive.
fn is_heard(shown: &PrometheusHandle) -> Option<bool> {
    let shown = shown.render();
    let value =
        shown.lines().find_map(|line| line.strip_prefix("windlass_postgres_wakeups_heard "));
    value.map(|value| value == "1")
}

/// A way to the server on which notifications get lost; its URL.
async fn mute() -> String {
    let address = url();
    let (before, rest) = address.split_once("127.0.0.1:").expect("the server is on loopback");
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (port, after) = rest.split_at(digits);
    let server = format!("127.0.0.1:{port}");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let ours = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.expect("the server");
            let (mut from_client, to_client) = client.into_split();
            let (from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            tokio::spawn(without_notifications(from_server, to_client));
        }
    });
    format!("{before}{ours}{after}")
}

/// Passes on whole messages, but for notifications. Without TLS, so that messages are all there is.
async fn without_notifications(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Option<()> {
    loop {
        let mut head = [0; 5];
        from.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        from.read_exact(&mut body).await.ok()?;
        if head[0] != NOTIFICATION {
            to.write_all(&head).await.ok()?;
            to.write_all(&body).await.ok()?;
        }
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn where_wake_ups_do_not_arrive_that_is_said_and_work_is_found_all_the_same() {
    let (schema, said) = (OwnSchema::new(), Said::default());
    let url = format!("{}?sslmode=disable", mute().await);
    let _guard = tracing::subscriber::set_default(said.clone());
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let options = Options::new(url).schema(&schema.name);
    let deaf = PostgresEngine::connect(options).await.expect("connects");
    until("it is warned of", || !said.lines(Level::WARN, DEAF).is_empty()).await;
    assert_eq!(is_heard(&recorder.handle()), Some(false));
    let waiter = tokio::spawn(async move {
        let waited = deaf.wait(Wait::new(["default"], 10_000)).await;
        waited.expect("waits").value
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let other = open(&schema).await;
    other.enqueue(Enqueue::each([NewJob::new("hello")])).await.expect("enqueues");
    assert!(waiter.await.expect("ends"), "found by looking");
}

#[tokio::test]
async fn where_they_do_that_is_found_out_and_nothing_warned_of() {
    let (schema, said) = (OwnSchema::new(), Said::default());
    let _guard = tracing::subscriber::set_default(said.clone());
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let shown = recorder.handle();
    let options = Options::new(format!("{}?application_name={}", url(), schema.name));
    let _engine = PostgresEngine::connect(options.schema(&schema.name)).await.expect("connects");
    let found_out = |times| {
        let said = said.clone();
        move || said.lines(Level::DEBUG, ARRIVE).len() == times
    };
    until("it is found out", found_out(1)).await;
    assert_eq!(is_heard(&shown), Some(true));

    // The listening connection is lost, and reconnects.
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = $1 AND query LIKE 'NOTIFY %'";
    let ended = application().await.query(sql, &[&schema.name]).await.expect("answers");
    assert_eq!(ended.len(), 1);
    until("it is shown", || is_heard(&shown) == Some(false)).await;
    until("it is found out again", found_out(2)).await;
    assert_eq!(is_heard(&shown), Some(true));
    assert_eq!(said.lines(Level::WARN, DEAF), Vec::<String>::new());
}
