//! A disk that fills up is noticed before it is full.

use crate::database::Database;
use crate::serving::{Serving, serve};
use serde_json::Value;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn health(server: &Serving) -> Value {
    let answer = server.request("GET", "/healthz", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The metrics of the disk, once it was checked.
fn disk(server: &Serving) -> Value {
    #[expect(clippy::disallowed_methods, reason = "a deadline of the test itself")]
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let disk = health(server)["store"]["disk"].clone();
        if !disk.is_null() {
            return disk;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the disk was not checked");
}

/// Has a server with a limit much too small for its store, and says that it was warned of.
fn is_warned_of(command: &mut Command) {
    let log = tempfile::NamedTempFile::new().unwrap();
    command.args(["--disk-limit", "4096"]).stderr(Stdio::from(log.reopen().unwrap()));
    let server = Serving::by(command);
    let seen = disk(&server);
    assert_eq!((&seen["limit_bytes"], &seen["filling"]), (&4096.into(), &true.into()), "{seen}");
    let metrics = server.request("GET", "/metrics", "");
    assert!(metrics.contains("windlass_disk_limit_bytes 4096"), "{metrics}");
    assert!(metrics.contains("windlass_disk_used_bytes"), "{metrics}");
    server.terminate();
    let mut said = String::new();
    log.reopen().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("filling up"), "{said}");
}

#[test]
fn a_directory_that_uses_most_of_its_limit_is_warned_about_in_log_metrics_and_health() {
    let dir = tempfile::tempdir().unwrap();
    is_warned_of(&mut serve(dir.path(), "127.0.0.1:0"));
}

#[test]
fn a_database_that_uses_most_of_its_limit_is_warned_about_in_log_metrics_and_health() {
    let database = Database::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    is_warned_of(command.args(["serve", "--listen", "127.0.0.1:0", "--store", &database.url()]));
}

#[test]
fn without_a_limit_it_is_the_file_system_that_counts() {
    let dir = tempfile::tempdir().unwrap();
    let seen = disk(&Serving::start(dir.path()));
    let number = |field: &str| seen[field].as_u64().unwrap();
    assert!(number("used_bytes") <= number("limit_bytes"), "{seen}");
    assert!(number("limit_bytes") > 1 << 20, "{seen}");
    let percent = number("used_bytes") as f64 * 100.0 / number("limit_bytes") as f64;
    assert_eq!(seen["filling"], percent >= 80.0, "{seen}");
}

#[test]
fn a_limit_for_nothing_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--disk-limit", "1G"]);
    let refused = command.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("--disk-limit"), "{said}");
}
