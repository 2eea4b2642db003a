//! Memory use of requests: a small multiple of their size, for any content. A single test, because
//! it measures its own process.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server, ServerHandle};

/// Bytes of each request.
const BODY_BYTES: usize = 16 * 1024 * 1024;
/// Maximum growth of the process for all requests in sequence: a body, its parsed form, a full
/// batch of items, and memory that the allocator retains.
const GROWTH_BYTES_MAX: usize = 8 * BODY_BYTES;
const ID: &str = "01a1e214-0000-7000-8000-000000000000";
/// Timeout of the test; reached only if it hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// A field of this process's status, in bytes.
fn status(field: &str) -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1_024
}

/// Sends `begin`, then `item` repeatedly up to the size of a body, then `end`; returns the head and
/// the body of the reply.
async fn flood(server: &ServerHandle, path: &str, begin: &str, item: &str, end: &str) -> String {
    let count = (BODY_BYTES - begin.len() - end.len()) / (item.len() + 1);
    let size = begin.len() + end.len() + count * (item.len() + 1) - 1;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {size}\r\n\r\n{begin}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = format!("{item},").repeat(1_000);
    for sent in (0..count).step_by(1_000) {
        let left = (count - sent).min(1_000);
        let last = usize::from(sent + left == count);
        stream.write_all(&piece.as_bytes()[..left * (item.len() + 1) - last]).await.unwrap();
    }
    stream.write_all(end.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_costs_a_small_multiple_of_its_own_size() {
    let mut options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
    options.body_bytes_max = BODY_BYTES;
    let server = Server::bind(options).await.unwrap().serve(Arc::new(MemoryEngine::new())).unwrap();
    let job = r#"{"kind":"x"}"#;
    let (id, held) = (format!("\"{ID}\""), format!(r#"{{"id":"{ID}","lease":""}}"#));
    let report = format!(r#"{{"id":"{ID}","lease":"","outcome":"wait"}}"#);
    let parent = format!(
        r#"{{"id":"{ID}","lease":"","outcome":"wait","follow_ups":[{}]}}"#,
        vec![job; 900].join(",")
    );
    let change = format!(r#"{{"id":"{ID}","change":"cancel"}}"#);
    let entries = format!(
        r#"{{"append":{{"log":"l","keep":1,"entries":[{}]}}}}"#,
        vec![r#"{"json":0}"#; 900].join(",")
    );
    let beat = r#"{"session":"s","upto":0,"held":["#;
    let unanswered = r#"{"session":"s","upto":0,"held":[],"unanswered":["#;
    let floods = [
        ("/v1/jobs/batch", r#"{"jobs":["#, job, "]}"),
        ("/v1/jobs", r#"{"kind":"x","tags":["#, r#""""#, "]}"),
        ("/v1/jobs/get", r#"{"ids":["#, &id, "]}"),
        ("/v1/jobs/change", r#"{"items":["#, &change, "]}"),
        ("/v1/settle", r#"{"items":["#, &report, "]}"),
        ("/v1/settle", r#"{"items":["#, &parent, "]}"),
        ("/v1/update", r#"{"items":["#, &held, "]}"),
        ("/v1/claim", r#"{"queues":["#, r#""""#, "]}"),
        ("/v1/claim", r#"{"queues":["q"],"kinds":["#, r#""""#, "]}"),
        ("/v1/wait", r#"{"wait_ms":0,"queues":["#, r#""""#, "]}"),
        ("/v1/heartbeat", beat, &held, "]}"),
        ("/v1/heartbeat", unanswered, "0", "]}"),
        ("/v1/dead/replay", r#"{"ids":["#, &id, "]}"),
        ("/v1/dead/discard", r#"{"ids":["#, &id, "]}"),
        ("/v1/settings", r#"{"items":["#, r#"{"queue":{"name":"q","set":{}}}"#, "]}"),
        ("/internal/records", r#"{"items":["#, r#"{"get":{"key":"k"}}"#, "]}"),
        ("/internal/records", r#"{"items":["#, &entries, "]}"),
    ];
    let before = status("VmRSS");
    for (path, begin, item, end) in floods {
        let reply = flood(&server, path, begin, item, end);
        let reply = tokio::time::timeout(DEADLINE, reply).await.expect("an answer in time");
        let growth = status("VmHWM").saturating_sub(before);
        println!("{path} {begin} {item:.20}: {} KiB", growth / 1_024);
        let reported = format!("{path} {begin} {item:.20}: {growth} bytes; {reply:.400}");
        assert!(reply.starts_with("HTTP/1.1 413"), "{reported}");
        assert!(growth <= GROWTH_BYTES_MAX, "{reported}");
    }
}
