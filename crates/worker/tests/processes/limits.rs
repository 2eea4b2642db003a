//! A command over its limits is killed alone. (More such commands: the tests of the command line.)

use crate::support::{self, enqueue, worker};
use crate::trial::{ended, error, once, outcome, result};
use std::time::Duration;
use windlass_core::model::State;
use windlass_worker::BuildError;
use windlass_worker::process::{MEMORY_MIN, Process, USERS};

trials![
    a_memory_hog_dies_alone_and_is_recorded,
    a_bomb_that_goes_off_outside_its_group_is_ended_whole,
    the_least_memory_is_enough_for_a_shell,
    a_busy_loop_ends_with_its_cpu_time,
    a_file_over_the_size_limit_ends_its_writer,
    process_limits_use_a_separate_user_if_the_host_is_root,
    limits_under_which_nothing_runs_are_refused_by_build,
];

async fn a_memory_hog_dies_alone_and_is_recorded() {
    let engine = support::memory();
    let hog = enqueue(&engine, once("hog")).await;
    // The shell keeps all of it.
    let process = Process::shell("v=$(head -c 1G /dev/zero | tr '\\0' x); echo ${#v}");
    let running = worker(&engine)
        .handle_process("hog", process.memory_max(64 << 20))
        .handle_process("other", Process::shell("echo fine"))
        .build()
        .unwrap()
        .start();
    let job = ended(&engine, hog).await;
    assert_eq!(job.state, State::Dead, "{job:?}");
    // The worker goes on.
    let other = enqueue(&engine, once("other")).await;
    assert_eq!(result(&ended(&engine, other).await), "fine\n");
    running.drain().await;
}

async fn a_bomb_that_goes_off_outside_its_group_is_ended_whole() {
    // A name that no other process has: that is how its pieces are known.
    let name = format!("bomb-{}", std::process::id());
    let bomb =
        format!("setsid sh -c \"$BOMB\" {name} & setsid sh -c \"$BOMB\" {name} & sleep 0.05");
    let process = Process::shell("eval \"$BOMB\"").env("BOMB", bomb).processes_max(30);
    let job = outcome(process, "").await;
    assert!(job.state.is_terminal());
    assert_eq!(processes_with(&name), 0);
}

/// Living processes that have this among their arguments.
fn processes_with(argument: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |it: &std::fs::DirEntry| {
        let line = std::fs::read(it.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|it| it == argument.as_bytes())
    };
    all.filter(has).count()
}

async fn the_least_memory_is_enough_for_a_shell() {
    let job = outcome(Process::shell("echo fine").memory_max(MEMORY_MIN), "").await;
    assert_eq!(result(&job), "fine\n");
}

async fn a_busy_loop_ends_with_its_cpu_time() {
    let busy = Process::shell("while :; do :; done").cpu_max(Duration::from_millis(10));
    let job = outcome(busy, "").await;
    let (code, message) = error(&job);
    assert!(code == "signal_24" && message.contains("CPU time is used up"), "{code}: {message}");
}

async fn a_file_over_the_size_limit_ends_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let write = Process::shell("exec head -c 100000 /dev/zero > file").current_dir(dir.path());
    let job = outcome(write.file_size_max(1_000), "").await;
    let (code, message) = error(&job);
    assert!(code == "signal_25" && message.contains("too large"), "{code}: {message}");
    assert_eq!(std::fs::metadata(dir.path().join("file")).unwrap().len(), 1_000);
}

async fn process_limits_use_a_separate_user_if_the_host_is_root() {
    let job = outcome(Process::shell("id -u").processes_max(20), "").await;
    let uid: u32 = result(&job).trim().parse().unwrap();
    let host = rustix::process::getuid().as_raw();
    assert!(if host == 0 { USERS.contains(&uid) } else { uid == host }, "{uid}");
}

async fn limits_under_which_nothing_runs_are_refused_by_build() {
    let refused = |process: Process| {
        let built = worker(&support::memory()).handle_process("x", process).build();
        let Err(BuildError::Option { option, .. }) = built else { panic!("{built:?}") };
        option
    };
    let process = || Process::new("true");
    assert_eq!(refused(process().memory_max(1 << 20)), "memory_max");
    assert_eq!(refused(process().cpu_max(Duration::ZERO)), "cpu_max");
    assert_eq!(refused(process().processes_max(0)), "processes_max");
}
