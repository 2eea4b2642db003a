//! How commands are ended: all of their processes, and no others.

use crate::support::{self, enqueue, reaches, until, worker};
use crate::trial::{ended, error, lines, lives, once, outcome, result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use windlass_core::engine::Change;
use windlass_core::model::State;
use windlass_worker::process::Process;

trials![
    a_timeout_ends_the_process_group_and_processes_that_left_it,
    a_cancelled_command_is_signalled_and_may_clean_up,
    processes_left_by_a_command_end_with_it_even_if_they_hide_while_others_run,
    a_worker_that_has_stopped_has_left_nothing_running,
    the_hosts_own_children_are_left_alone,
    only_its_host_can_end_a_supervisor,
    a_command_without_its_supervisor_dies_and_is_recorded,
];

/// A command that will not end, and neither will what it has started: one process in its group, one
/// outside, one that hides whose it is. Writes the four of them to a file.
pub(crate) fn stubborn(pids: &Path) -> Process {
    let line = "trap '' TERM; exec >> $PIDS
        sleep 600 & echo $!
        setsid sleep 600 & echo $!
        env -i PATH=$PATH setsid sleep 600 & echo $!
        echo $$; while :; do sleep 600; done";
    Process::shell(line).env("PIDS", pids)
}

async fn a_timeout_ends_the_process_group_and_processes_that_left_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pids");
    let engine = support::memory();
    let mut job = once("x");
    job.policy.timeout_ms = Some(500);
    let id = enqueue(&engine, job).await;
    let running = worker(&engine).handle_process("x", stubborn(&path)).build().unwrap().start();
    let pids = lines(&path, 4).await;
    let job = ended(&engine, id).await;
    assert_eq!((job.state, error(&job).0), (State::Dead, "timeout"));
    until("all of it is gone", || !pids.iter().any(|pid| lives(pid))).await;
    running.drain().await;
}

async fn a_cancelled_command_is_signalled_and_may_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    let (started, cleaned) = (dir.path().join("started"), dir.path().join("cleaned"));
    let engine = support::memory();
    let id = enqueue(&engine, once("x")).await;
    let line = "trap 'echo > cleaned; exit 1' TERM; echo > started; while :; do sleep 0.01; done";
    let process = Process::shell(line).current_dir(dir.path());
    let running = worker(&engine).handle_process("x", process).build().unwrap().start();
    until("it runs", || started.exists()).await;
    support::change(&engine, id, Change::Cancel).await;
    reaches(&engine, id, State::Cancelled).await;
    until("it has cleaned up", || cleaned.exists()).await;
    running.drain().await;
}

async fn processes_left_by_a_command_end_with_it_even_if_they_hide_while_others_run() {
    let dir = tempfile::tempdir().unwrap();
    let (pid, go) = (dir.path().join("pid"), dir.path().join("go"));
    let engine = support::memory();
    let long = enqueue(&engine, once("long")).await;
    let wait = Process::shell("until [ -e go ]; do sleep 0.01; done; echo done");
    let leave = Process::shell("env -i PATH=$PATH setsid sleep 600 & echo $! > pid");
    let running = worker(&engine)
        .handle_process("long", wait.current_dir(dir.path()))
        .handle_process("short", leave.current_dir(dir.path()))
        .build()
        .unwrap()
        .start();
    reaches(&engine, long, State::Running).await;
    let short = enqueue(&engine, once("short")).await;
    assert_eq!(ended(&engine, short).await.state, State::Completed);
    // Not in a while: with the command, and although the other one runs on.
    assert!(!lives(&std::fs::read_to_string(pid).unwrap()));
    assert_eq!(support::get(&engine, long).await.state, State::Running);
    std::fs::write(go, "").unwrap();
    assert_eq!(result(&ended(&engine, long).await), "done\n");
    running.drain().await;
}

async fn a_worker_that_has_stopped_has_left_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pids");
    let engine = support::memory();
    enqueue(&engine, once("x")).await;
    let running = worker(&engine).handle_process("x", stubborn(&path)).build().unwrap().start();
    let pids = lines(&path, 4).await;
    running.abort().await;
    assert!(!pids.iter().any(|pid| lives(pid)), "{pids:?}");
}

async fn the_hosts_own_children_are_left_alone() {
    let mut sleep = Command::new("sleep");
    let mut own = sleep.arg("600").stdout(Stdio::null()).spawn().unwrap();
    // One that is dead, but whose end the host has not asked for yet.
    let mut dead = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
    until("it is dead", || !lives(&dead.id().to_string())).await;
    let job = outcome(Process::shell("setsid sleep 600 & echo fine"), "").await;
    assert_eq!(result(&job), "fine\n");
    assert!(own.try_wait().unwrap().is_none());
    own.kill().unwrap();
    own.wait().unwrap();
    assert_eq!(dead.wait().unwrap().code(), Some(7));
}

async fn only_its_host_can_end_a_supervisor() {
    // As a service manager that signals every process of a service.
    let line = "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; sleep 0.1; echo fine";
    assert_eq!(result(&outcome(Process::shell(line), "").await), "fine\n");
}

async fn a_command_without_its_supervisor_dies_and_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let line = "echo $$ > pid; kill -9 $PPID; while :; do sleep 0.01; done";
    let start = tokio::time::Instant::now();
    let job = outcome(Process::shell(line).current_dir(dir.path()), "").await;
    assert!(start.elapsed() < Duration::from_secs(10));
    let (_, message) = error(&job);
    assert!(
        message.contains("supervisor of the command exited without a report (signal: 9"),
        "{message}"
    );
    let pid = std::fs::read_to_string(pid).unwrap();
    until("it is dead", || !lives(&pid)).await;
}
