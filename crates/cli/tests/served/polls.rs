//! Many claims that wait at one server process: each is answered once, none is lost, and they cost little.

use crate::serving::Serving;
use crate::waiting::{PATIENCE, until};
use serde_json::{Value, json};
use std::collections::HashSet;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Claims that wait.
const POLLS: usize = 500;
/// Allowed memory of the server for them: a debug build, and far below the limit for 2,000 of them.
const MEMORY_KB_MAX: u64 = 60 * 1024;

/// A claim on a connection of its own; its jobs, once it is answered.
async fn claim(address: String) -> Vec<Value> {
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let body = json!({"queues": ["polls"], "wait_ms": 60_000, "limit": 1}).to_string();
    let length = body.len();
    let request = format!(
        "POST /v1/claim HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut claimed: Value = serde_json::from_str(body).unwrap();
    serde_json::from_value(claimed["jobs"].take()).unwrap()
}

fn enqueue(server: &Serving, count: usize) {
    let jobs: Vec<Value> = (0..count).map(|_| json!({"kind": "k", "queue": "polls"})).collect();
    let answer = server.request("POST", "/v1/jobs/batch", &json!({ "jobs": jobs }).to_string());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The memory a process holds now.
fn memory_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// The connections a process has open, and a few files.
fn connections(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_waiting_claims_get_one_job_each_and_cost_little() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::start(dir.path());
    let before_kb = memory_kb(server.pid());
    let address = server.address.clone();
    let polls: JoinSet<_> = (0..POLLS).map(|_| claim(address.clone())).collect();
    until("all are connected", || connections(server.pid()) >= POLLS).await;
    let grown_kb = memory_kb(server.pid()).saturating_sub(before_kb);
    assert!(grown_kb < MEMORY_KB_MAX, "{grown_kb} kB for {POLLS} claims that wait");
    enqueue(&server, POLLS);
    let claimed = tokio::time::timeout(PATIENCE, polls.join_all()).await.unwrap();
    assert!(claimed.iter().all(|jobs| jobs.len() == 1), "every poll got one job");
    let ids: HashSet<_> = claimed.iter().flatten().map(|job| job["id"].to_string()).collect();
    assert_eq!(ids.len(), POLLS, "every poll got a different job");
}
