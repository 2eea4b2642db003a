//! Hosts that die, and hosts that do not come to `enter`: this binary, started by its tests as a host.

use crate::ends::stubborn;
use crate::support::{self, enqueue, until, worker};
use crate::trial::{ended, error, lines, lives, once};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use windlass_worker::process::Process;

trials![
    commands_die_with_a_host_that_is_killed,
    a_host_that_reads_its_arguments_first_gets_an_error,
];

/// Makes this binary a host whose command writes its processes to this file.
const HOST: &str = "WINDLASS_TEST_HOST";
/// Makes it one that knows no arguments, and finds that out before it enters.
const STRICT: &str = "WINDLASS_TEST_STRICT_HOST";

pub(crate) fn refuse_arguments_if_that_comes_first() {
    if std::env::var_os(STRICT).is_some() && std::env::args_os().len() > 1 {
        eprintln!("unknown argument");
        std::process::exit(2);
    }
}

pub(crate) fn be_one_if_asked() {
    let (host, strict) = (std::env::var_os(HOST), std::env::var_os(STRICT));
    if host.is_none() && strict.is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let process = host.map_or_else(
            || Process::new("true").pass_env(STRICT),
            |it| stubborn(&PathBuf::from(it)),
        );
        let engine = support::memory();
        let id = enqueue(&engine, once("x")).await;
        let running = worker(&engine).handle_process("x", process).build().unwrap().start();
        println!("{}", error(&ended(&engine, id).await).1);
        running.drain().await;
    });
    std::process::exit(0);
}

fn start(variable: &str, value: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(variable, value).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

async fn commands_die_with_a_host_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pids");
    let mut host = start(HOST, &path);
    let pids = lines(&path, 4).await;
    assert!(pids.iter().all(|pid| lives(pid)));
    host.kill().unwrap();
    host.wait().unwrap();
    until("all of it is gone", || !pids.iter().any(|pid| lives(pid))).await;
}

async fn a_host_that_reads_its_arguments_first_gets_an_error() {
    let host = start(STRICT, Path::new("1"));
    let said = tokio::task::spawn_blocking(|| host.wait_with_output().unwrap()).await.unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("does not reach `process::enter()` (exit status: 2)"), "{said}");
    assert!(said.contains("first line of main") && said.ends_with("unknown argument\n"), "{said}");
}
