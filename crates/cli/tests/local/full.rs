//! A full disk under a server: new jobs are refused, everything else goes on, also after a restart, and when
//! there is room again so do new jobs. Nothing acknowledged is lost.

use crate::serving::{Serving, serve};
use crate::small_disk::SmallDisk;
use crate::{ask, windlass};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// The size of the whole disk.
const DISK_MB: u32 = 64;
/// Space on the disk that another user leaves.
const LEFT_BYTES: u64 = 3 * 1024 * 1024;
/// More jobs of this size than fit.
const PAYLOAD_BYTES: usize = 30_000;
const JOBS_MAX: usize = 1_000;
/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(dir: &Path, log: &NamedTempFile) -> Serving {
    let mut command = serve(dir, "127.0.0.1:0");
    Serving::by(command.args(["--log", "info"]).stderr(Stdio::from(log.reopen().unwrap())))
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a deadline of the test itself")]
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn enqueue(server: &Serving, payload_bytes: usize) -> (u16, Value) {
    let job = json!({ "kind": "k", "payload": "x".repeat(payload_bytes) });
    ask(server, "POST", "/v1/jobs", &job.to_string())
}

/// Enqueues until there is no room, and adds what was acknowledged.
fn enqueue_until_full(server: &Serving, acknowledged: &mut BTreeSet<String>) {
    for _ in 0..JOBS_MAX {
        let (status, body) = enqueue(server, PAYLOAD_BYTES);
        if status != 201 {
            assert_eq!((status, &body["code"]), (503, &"store_full".into()), "{body}");
            assert!(body["detail"].as_str().unwrap().contains("disk"), "{body}");
            return;
        }
        acknowledged.insert(body["id"].as_str().unwrap().to_owned());
    }
    panic!("the disk never got full");
}

fn claim(server: &Serving, limit: usize) -> Vec<Value> {
    let claim = json!({ "queues": ["default"], "limit": limit, "worker": "w" });
    let (status, body) = ask(server, "POST", "/v1/claim", &claim.to_string());
    assert_eq!(status, 200, "{body}");
    body["jobs"].as_array().unwrap().clone()
}

/// Completes jobs, and adds them to those that are done.
fn complete(server: &Serving, jobs: &[Value], done: &mut BTreeSet<String>) {
    let item =
        |job: &Value| json!({ "id": job["id"], "lease": job["lease"], "outcome": "complete" });
    let items: Vec<Value> = jobs.iter().map(item).collect();
    let (status, body) = ask(server, "POST", "/v1/settle", &json!({ "items": items }).to_string());
    assert_eq!(status, 200, "{body}");
    for item in body["items"].as_array().unwrap() {
        assert_eq!(item["ok"], true, "{body}");
        done.insert(item["id"].as_str().unwrap().to_owned());
    }
}

/// Checks everything that a server reports while it refuses new jobs.
fn assert_full(server: &Serving, log: &NamedTempFile) {
    let (status, ready) = ask(server, "GET", "/readyz", "");
    assert_eq!((status, &ready["code"]), (503, &"store_full".into()), "{ready}");
    let (status, alive) = ask(server, "GET", "/healthz", "");
    assert_eq!((status, &alive["store"]["accepts_jobs"]), (200, &false.into()), "{alive}");
    let store = &alive["store"];
    assert!(store["up"] == true && store["reason"].as_str().unwrap().contains("disk"), "{alive}");
    until("metrics say so", || {
        server.request("GET", "/metrics", "").contains("windlass_store_full 1")
    });
    let logged = std::fs::read_to_string(log.path()).unwrap();
    assert!(logged.contains("full") && logged.contains("new jobs are refused"), "{logged}");
}

fn assert_normal(server: &Serving, log: &NamedTempFile) {
    until("it is ready", || ask(server, "GET", "/readyz", "").0 == 200);
    let (_, alive) = ask(server, "GET", "/healthz", "");
    assert_eq!(alive["store"]["accepts_jobs"], true, "{alive}");
    until("metrics say so", || {
        server.request("GET", "/metrics", "").contains("windlass_store_full 0")
    });
    let logged = std::fs::read_to_string(log.path()).unwrap();
    assert!(logged.contains("new jobs are accepted again"), "{logged}");
}

#[test]
fn a_full_disk_refuses_new_jobs_and_nothing_else_also_after_a_restart() {
    let Some(disk) = SmallDisk::mount(DISK_MB) else { return };
    let dir = disk.path().join("store");
    let log = NamedTempFile::new().unwrap();
    let server = start(&dir, &log);
    let (mut acknowledged, mut done) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..20 {
        acknowledged.insert(enqueue(&server, 10).1["id"].as_str().unwrap().to_owned());
    }
    let early = claim(&server, 5);
    disk.fill_to(LEFT_BYTES);
    enqueue_until_full(&server, &mut acknowledged);
    disk.fill();
    assert_full(&server, &log);
    assert_eq!(enqueue(&server, 10).0, 503, "even a small one");

    complete(&server, &early, &mut done);
    for _ in 0..10 {
        complete(&server, &claim(&server, 2), &mut done);
        disk.fill();
    }
    assert_eq!(done.len(), 25);
    let (_, waiting) = ask(&server, "GET", "/v1/jobs?state=available&limit=1", "");
    let path = format!("/v1/jobs/{}/cancel", waiting["jobs"][0]["id"].as_str().unwrap());
    let (status, changed) = ask(&server, "POST", &path, "{}");
    assert_eq!((status, &changed["state"]), (200, &"cancelled".into()), "{changed}");

    // Killed and started again on the full disk.
    drop(server);
    disk.fill();
    let log = NamedTempFile::new().unwrap();
    let server = start(&dir, &log);
    until("its health is known", || ask(&server, "GET", "/readyz", "").0 == 503);
    assert_full(&server, &log);
    assert_eq!(enqueue(&server, 10).1["code"], "store_full");
    complete(&server, &claim(&server, 2), &mut done);
    disk.fill();
    // A regular stop, and another start.
    server.terminate();
    disk.fill();
    let log = NamedTempFile::new().unwrap();
    let server = start(&dir, &log);
    until("its health is known", || ask(&server, "GET", "/readyz", "").0 == 503);
    assert_full(&server, &log);
    complete(&server, &claim(&server, 2), &mut done);

    disk.free();
    assert_normal(&server, &log);
    let (status, last) = enqueue(&server, PAYLOAD_BYTES);
    assert_eq!(status, 201, "{last}");
    acknowledged.insert(last["id"].as_str().unwrap().to_owned());
    let (_, page) = ask(&server, "GET", "/v1/jobs?limit=1000", "");
    let jobs = page["jobs"].as_array().unwrap();
    let ids = |jobs: &mut dyn Iterator<Item = &Value>| -> BTreeSet<String> {
        jobs.map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    };
    let there = ids(&mut jobs.iter());
    assert!(acknowledged.is_subset(&there), "lost: {:?}", acknowledged.difference(&there));
    let completed = ids(&mut jobs.iter().filter(|job| job["state"] == "completed"));
    assert_eq!(completed, done);
    server.terminate();
    let checked = windlass(&dir, &["check"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn a_server_whose_new_store_does_not_fit_waits_for_room() {
    let Some(disk) = SmallDisk::mount(DISK_MB) else { return };
    let dir = disk.path().join("store");
    disk.fill();
    let log = NamedTempFile::new().unwrap();
    let server = start(&dir, &log);
    assert!(server.said().contains("the disk is full"), "{}", server.said());
    let (status, ready) = ask(&server, "GET", "/readyz", "");
    assert_eq!(status, 503, "{ready}");
    assert_eq!(enqueue(&server, 10).0, 503);
    disk.free();
    until("it is ready", || ask(&server, "GET", "/readyz", "").0 == 200);
    assert_eq!(enqueue(&server, 10).0, 201);
    server.terminate();
}
