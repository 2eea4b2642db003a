//! Shared by these tests: a runtime for each, a job run to its end, and the state of processes.

use crate::support::{self, enqueue, eventually, get, worker};
use libtest_mimic::Trial;
use std::path::Path;
use std::sync::Arc;
use windlass_core::JobId;
use windlass_core::engine::Engine;
use windlass_core::model::{Job, NewJob};
use windlass_worker::process::Process;

/// Makes tests of async functions.
macro_rules! trials {
    ($($test:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::trial::trial(stringify!($test), $test)),*]
        }
    };
}

/// Makes a test of an async function.
pub(crate) fn trial<F: Future<Output = ()> + 'static>(name: &str, test: fn() -> F) -> Trial {
    Trial::test(name, move || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all().build()?.block_on(test());
        Ok(())
    })
}

/// A job that is tried once.
pub(crate) fn once(kind: &str) -> NewJob {
    NewJob::new(kind.to_owned()).max_attempts(1)
}

/// The outcome of one attempt with this payload and this command.
pub(crate) async fn outcome(process: Process, payload: &str) -> Job {
    let engine = support::memory();
    let id = enqueue(&engine, once("x").payload(payload.to_owned())).await;
    let running = worker(&engine).handle_process("x", process).build().unwrap().start();
    let job = ended(&engine, id).await;
    running.drain().await;
    job
}

/// Waits until a job has ended.
pub(crate) async fn ended(engine: &Arc<dyn Engine>, id: JobId) -> Job {
    let look = || async {
        let job = get(engine, id).await;
        job.state.is_terminal().then_some(job)
    };
    eventually("the end of the job", look).await
}

pub(crate) fn result(job: &Job) -> &str {
    let result = job.result.as_ref().unwrap_or_else(|| panic!("no result: {job:?}"));
    str::from_utf8(&result.bytes).unwrap()
}

/// Code and message of the error.
pub(crate) fn error(job: &Job) -> (&str, &str) {
    let error = job.error.as_ref().unwrap_or_else(|| panic!("no error: {job:?}"));
    (&error.code, &error.message)
}

/// Waits until a file has the given number of complete lines, and returns them.
pub(crate) async fn lines(path: &Path, count: usize) -> Vec<String> {
    let look = || async {
        let text = std::fs::read_to_string(path).ok()?;
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        (text.ends_with('\n') && lines.len() == count).then_some(lines)
    };
    eventually("what the command writes", look).await
}

/// Whether a process runs; zombies do not count.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}
