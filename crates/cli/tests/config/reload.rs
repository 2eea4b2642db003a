//! A running server and SIGHUP, by effect.

use crate::serving::Serving;
use crate::windlass;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A server with a file, and what it says.
struct Configured {
    dir: tempfile::TempDir,
    server: Serving,
    /// Lines of stderr.
    complaints: Arc<Mutex<String>>,
}

impl Configured {
    fn start(file: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), file);
        let mut command = windlass(dir.path(), &["serve", "--listen", "127.0.0.1:0"]);
        let (server, complaints) = start(command.stderr(Stdio::piped()));
        Self { dir, server, complaints }
    }

    /// Has it read another file.
    fn reload(&self, file: &str) {
        write(self.dir.path(), file);
        let pid = self.server.pid().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    /// Waits until it has said this on stdout.
    #[track_caller]
    fn says(&self, part: &str) {
        until(part, || self.server.said().contains(part));
    }

    #[track_caller]
    fn complains(&self, part: &str) {
        until(part, || self.complaints.lock().unwrap().contains(part));
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let answer = self.server.request(method, path, body);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Completes a job of this kind, and returns its path.
    fn completed(&self, kind: &str) -> String {
        let (status, _) =
            self.ask("POST", "/v1/jobs", &format!(r#"{{"kind":"{kind}","queue":"mail"}}"#));
        assert_eq!(status, 201);
        let (_, claimed) = self.ask("POST", "/v1/claim", r#"{"queues":["mail"],"wait_ms":10000}"#);
        let job: serde_json::Value = serde_json::from_str(&claimed).unwrap();
        let (id, lease) = (&job["jobs"][0]["id"], &job["jobs"][0]["lease"]);
        let items = format!(r#"{{"items":[{{"id":{id},"lease":{lease},"outcome":"complete"}}]}}"#);
        assert_eq!(self.ask("POST", "/v1/settle", &items).0, 200);
        format!("/v1/jobs/{}", id.as_str().unwrap())
    }
}

fn write(dir: &Path, file: &str) {
    // Whole or not at all, as a good editor does it.
    std::fs::write(dir.join("new.toml"), file).unwrap();
    std::fs::rename(dir.join("new.toml"), dir.join("windlass.toml")).unwrap();
}

fn start(command: &mut Command) -> (Serving, Arc<Mutex<String>>) {
    let mut server = Serving::by(command);
    let complaints = Arc::new(Mutex::new(String::new()));
    let (stderr, kept) = (server.stderr(), complaints.clone());
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            *kept.lock().unwrap() += &format!("{line}\n");
        }
    });
    (server, complaints)
}

#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a test waits by the real clock")]
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn a_reload_changes_queues_limits_and_services_of_a_running_server() {
    let before =
        "[services]\nretain.interval = \"1d\"\n\n[queues.mail]\nretention.finished = \"0s\"\n";
    let server = Configured::start(before);
    server.says("queues.mail.retention.finished: \"7d\" becomes \"0s\"");
    let first = server.completed("first");
    assert_eq!(server.ask("GET", &first, "").0, 200, "it is retained for a day");

    let after = "[server]\nlisten = \"127.0.0.1:1\"\nbody_bytes_max = 600\nconnections_max = 5\n\n\
                 [services]\nretain.interval = \"50ms\"\n\n\
                 [queues.mail]\nretention.finished = \"0s\"\nmax_depth = 1\n";
    server.reload(after);
    server.says("services.retain.interval: \"1d\" becomes \"50ms\"");
    let gone = |job: &str| server.ask("GET", job, "").0 == 404;
    until("the first job is removed", || gone(&first));
    let second = server.completed("second");
    until("so is what ends later", || gone(&second));
    let job = r#"{"kind":"k","queue":"mail"}"#;
    assert_eq!(server.ask("POST", "/v1/jobs", job).0, 201);
    let (status, said) = server.ask("POST", "/v1/jobs", job);
    assert_eq!(status, 429, "the queue is full: {said}");
    let large = format!(r#"{{"kind":"k","payload":"{}"}}"#, "x".repeat(700));
    assert_eq!(server.ask("POST", "/v1/jobs", &large).0, 413, "requests are smaller now");
    server.says("server.connections_max: stays 10000; restart the server for 5");
    assert!(!server.server.said().contains("server.listen:"), "a flag goes before the file");
}

#[test]
fn a_file_with_a_mistake_changes_nothing_and_says_why() {
    let server = Configured::start("[queues.mail]\nmax_depth = 1\n");
    server
        .reload("[server]\nbody_bytes_max = 600\ngrace = \"2h\"\n\n[queues.mail]\nmax_depth = 2\n");
    server.complains("not reloaded, nothing is changed: the configuration has a mistake:");
    server.complains("windlass.toml:3: server.grace is \"2h\": it must be between 0s and 1h");
    let job = format!(r#"{{"kind":"k","queue":"mail","payload":"{}"}}"#, "x".repeat(700));
    assert_eq!(server.ask("POST", "/v1/jobs", &job).0, 201, "requests are as large as before");
    assert_eq!(server.ask("POST", "/v1/jobs", &job).0, 429, "and the queue as deep");
    std::fs::remove_file(server.dir.path().join("windlass.toml")).unwrap();
    let pid = server.server.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    server.complains("windlass.toml:1: cannot read it");
    assert_eq!(server.ask("POST", "/v1/jobs", &job).0, 429, "it does not fall back to defaults");
    server.server.terminate();
}

#[test]
fn the_log_gets_louder_and_quieter() {
    let server = Configured::start("[log]\nlevel = \"error\"\n");
    server.reload("[log]\nlevel = \"info\"\n");
    server.says("log.level: \"error\" becomes \"info\"");
    server.reload("[log]\nlevel = \"info\"\n[services]\nlead_ttl = \"5s\"\n");
    server.complains("lead_ttl_ms=5000");
    server.reload("[log]\nlevel = \"error\"\n[services]\nlead_ttl = \"5s\"\n");
    server.says("log.level: \"info\" becomes \"error\"");
    server.reload("[log]\nlevel = \"error\"\n[services]\nlead_ttl = \"6s\"\n");
    server.says("services.lead_ttl: \"5s\" becomes \"6s\"");
    server.server.terminate();
    assert!(!server.complaints.lock().unwrap().contains("lead_ttl_ms=6000"), "that is not heard");
}

#[test]
fn two_servers_with_one_file_agree_and_the_second_has_nothing_to_do() {
    let file =
        "[queues.mail]\nmax_depth = 5\n[schedules.report]\nkind = \"send\"\nevery = \"1d\"\n";
    let first = Configured::start(file);
    first.says("queues.mail.max_depth: \"none\" becomes 5");
    first.says("schedules.report is new");
    let (_, schedules) = first.ask("GET", "/v1/schedules", "");
    assert!(schedules.contains("\"report\""), "{schedules}");
    first.reload(file);
    first.says("reloaded: nothing has changed");
    let store = first.server.url();
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), file);
    let mut second = windlass(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    let (second, _) = start(second.stderr(Stdio::piped()));
    assert!(
        !second.said().contains("becomes") && !second.said().contains("is new"),
        "{}",
        second.said()
    );
}
