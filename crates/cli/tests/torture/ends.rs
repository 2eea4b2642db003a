//! How a run ends before its time: by a signal, and by the death of the one who leads it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long anything may take on a busy machine.
const LOOKS_MAX: u32 = 6_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A run that would take an hour, with its evidence in `home`.
fn started(home: &Path) -> Child {
    let store = format!("file:{}", home.join("stores").display());
    started_on(home, &[&store, "--serve"])
}

fn started_on(home: &Path, store: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.arg("torture").args(store).args(["--seconds", "3600", "--seed", "1"]);
    command.arg("--evidence").arg(home.join("evidence"));
    command.current_dir(home).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so() {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    panic!("{what}: not so in time");
}

/// Waits until a client has an acknowledged job.
fn until_at_work(home: &Path) {
    until("a client works", || {
        let Ok(entries) = std::fs::read_dir(home.join("evidence")) else { return false };
        entries.map(|entry| entry.unwrap().path()).any(|path| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            path.extension().is_some_and(|it| it == "ndjson") && text.contains("\"enqueued\"")
        })
    });
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")));
    let lists = lists.map(Result::unwrap_or_default).collect::<Vec<_>>().join(" ");
    lists.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Whether a process is there and not merely waiting to be buried.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn a_signal_ends_the_faults_early_and_there_is_a_verdict_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let run = started(home.path());
    until_at_work(home.path());
    let sent = Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = run.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert!(output.status.success() && last.starts_with("kept, seed 1: "), "{text}");
    assert!(last.contains(" 0 lost, 0 stale leases accepted, 0 stuck, 0 key-order violations"));
    assert!(home.path().join("evidence/schedule.json").is_file(), "it was asked for");
}

#[test]
#[cfg(target_os = "linux")]
fn all_processes_end_with_their_leader_even_stopped_ones() {
    let home = tempfile::tempdir().unwrap();
    let mut run = started(home.path());
    until_at_work(home.path());
    let all = children(run.id());
    assert!(all.len() >= 5, "{all:?}");
    let sent = Command::new("kill").args(["-STOP", &all[0].to_string()]).status().unwrap();
    assert!(sent.success());
    run.kill().unwrap();
    run.wait().unwrap();
    until("all are gone", || !all.iter().any(|pid| is_alive(*pid)));
}

#[test]
#[cfg(target_os = "linux")]
fn a_started_database_ends_with_the_process_that_started_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    // Started by root, it runs as another user, who must get there.
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // A relative path, as people type it.
    let mut run = started_on(home.path(), &["--start-postgres", "stores"]);
    let numbers = || {
        let homes = std::fs::read_dir(home.path().join("stores")).into_iter().flatten().flatten();
        let files = homes.map(|it| it.path().join("data/postmaster.pid"));
        let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
        texts.filter_map(|text| text.lines().next()?.parse().ok()).collect::<Vec<u32>>()
    };
    until("it is there", || numbers().iter().any(|pid| is_alive(*pid)));
    run.kill().unwrap();
    run.wait().unwrap();
    until("it is gone", || !numbers().iter().any(|pid| is_alive(*pid)));
}
