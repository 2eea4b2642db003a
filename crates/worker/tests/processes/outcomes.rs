//! The input of a command, and how its exit is interpreted.

use crate::support::{self, enqueue, reaches, worker};
use crate::trial::{error, once, outcome, result};
use std::collections::BTreeSet;
use std::time::Duration;
use windlass_core::model::State;
use windlass_worker::process::Process;

trials![
    a_command_reads_the_payload_and_leaves_its_output_as_result,
    a_program_gets_its_arguments_as_they_are,
    a_command_finds_its_job_in_the_environment_and_what_it_was_given,
    a_command_gets_a_clean_environment,
    a_payload_may_be_large_and_need_not_be_read,
    exit_codes_say_done_never_and_try_again,
    a_command_that_cannot_run_now_is_put_off_and_no_failure_counted,
    a_program_that_is_not_there_is_a_failure_that_names_it,
    a_directory_that_is_not_there_is_a_failure,
];

async fn a_command_reads_the_payload_and_leaves_its_output_as_result() {
    let job = outcome(Process::shell("tr a-z A-Z; echo a note >&2"), "hello").await;
    assert_eq!(result(&job), "HELLO");
    assert_eq!(job.log.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["a note"]);
}

async fn a_program_gets_its_arguments_as_they_are() {
    let job = outcome(Process::new("echo").arg("a  b").args(["$HOME", "'"]), "").await;
    assert_eq!(result(&job), "a  b $HOME '\n");
}

async fn a_command_finds_its_job_in_the_environment_and_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let line = "echo $WINDLASS_JOB_ID $WINDLASS_JOB_KIND $WINDLASS_JOB_QUEUE \
        $WINDLASS_JOB_ATTEMPT $GIVEN ${PATH:+inherited}; pwd";
    let job = outcome(Process::shell(line).env("GIVEN", "given").current_dir(dir.path()), "").await;
    let dir = dir.path().canonicalize().unwrap();
    let reported = format!("{} x default 1 given inherited\n{}\n", job.header.id, dir.display());
    assert_eq!(result(&job), reported);
}

async fn a_command_gets_a_clean_environment() {
    let process = Process::new("/usr/bin/env").env("GIVEN", "a").pass_env("CARGO_MANIFEST_DIR");
    let job = outcome(process.pass_env("NOT_SET_HERE"), "").await;
    let harmless = |name: &&str| {
        ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"]
            .contains(name)
            || name.starts_with("LC_")
    };
    let names = result(&job).lines().map(|line| line.split('=').next().unwrap());
    let names: BTreeSet<_> = names.filter(|name| !harmless(name)).collect();
    let expected = ["CARGO_MANIFEST_DIR", "GIVEN", "WINDLASS_JOB_ATTEMPT", "WINDLASS_JOB_ID"];
    let expected = expected.into_iter().chain(["WINDLASS_JOB_KIND", "WINDLASS_JOB_QUEUE"]);
    assert_eq!(names, expected.collect());
}

async fn a_payload_may_be_large_and_need_not_be_read() {
    // The default size limit of a payload, which is also written to a pipe in full.
    let payload = "x".repeat(64 * 1024);
    let job = outcome(Process::new("wc").arg("-c"), &payload).await;
    assert_eq!(result(&job).trim(), "65536");
    assert_eq!(outcome(Process::new("true"), &payload).await.state, State::Completed);
}

async fn exit_codes_say_done_never_and_try_again() {
    let job = outcome(Process::shell("exit 0"), "").await;
    assert_eq!((job.state, job.result), (State::Completed, None));

    // Several attempts are left, and none of them made.
    let engine = support::memory();
    let id = enqueue(&engine, once("never").max_attempts(5)).await;
    let never = Process::shell("echo unreadable >&2; exit 65");
    let running = worker(&engine).handle_process("never", never).build().unwrap().start();
    let job = reaches(&engine, id, State::Dead).await;
    assert_eq!(error(&job), ("exit_65", "exit code 65: unreadable"));
    running.drain().await;

    let job = outcome(Process::shell("echo one >&2; echo two >&2; exit 3"), "").await;
    assert_eq!((job.state, error(&job)), (State::Dead, ("exit_3", "exit code 3: one\ntwo")));
    let job = outcome(Process::shell("kill -9 $$"), "").await;
    assert_eq!(error(&job), ("signal_9", "killed by signal 9"));
}

async fn a_command_that_cannot_run_now_is_put_off_and_no_failure_counted() {
    let engine = support::memory();
    let id = enqueue(&engine, once("later")).await;
    let later = Process::shell("exit 75").snooze(Duration::from_secs(3_600));
    let running = worker(&engine).handle_process("later", later).build().unwrap().start();
    let job = reaches(&engine, id, State::Scheduled).await;
    assert_eq!(job.header.counters.failures, 0);
    running.drain().await;
}

async fn a_program_that_is_not_there_is_a_failure_that_names_it() {
    // A world-readable path; a private one might contain it.
    let process = Process::new("no-such-program-anywhere").env("PATH", "/usr/bin:/bin");
    let job = outcome(process, "").await;
    let (code, message) = error(&job);
    assert_eq!((job.state, code), (State::Dead, "exit_127"));
    assert!(message.contains("cannot start no-such-program-anywhere: No such file"), "{message}");
}

async fn a_directory_that_is_not_there_is_a_failure() {
    let job = outcome(Process::new("true").current_dir("/no/such/directory"), "").await;
    let (_, message) = error(&job);
    assert!(message.starts_with("cannot start the command in /no/such/directory: "), "{message}");
}
