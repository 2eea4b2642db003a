//! `windlass work --exec`: what becomes of a job by what its command does.

use crate::support::{Store, lives, until};
use rustix::process::Signal;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_command_gets_payload_and_job_and_leaves_its_output_as_result() {
    let store = Store::new();
    let echo = store.enqueue(&["echo", r#"{"n":1}"#]);
    let fields = store.enqueue(&["fields", "--queue", "q", "--trace", "00-aa-bb-01"]);
    let vars = "$WINDLASS_JOB_ID $WINDLASS_JOB_KIND $WINDLASS_JOB_QUEUE $WINDLASS_JOB_ATTEMPT $TRACEPARENT";
    let exec = format!("fields=echo {vars}; echo a note >&2");
    let queues = ["--queue", "default", "--queue", "q"];
    let said = store.work(&[&queues[..], &["--exec", "echo=cat", "--exec", &exec]].concat());
    assert!(said.starts_with("2 completed"), "{said}");
    assert_eq!(store.job(&echo)["result"], json!({ "n": 1 }));
    let job = store.job(&fields);
    assert_eq!(job["result_text"], format!("{fields} fields q 1 00-aa-bb-01\n"));
    assert_eq!(job["log"][0]["text"], "a note");
}

#[test]
fn a_failing_command_is_tried_again_and_dead_in_the_end() {
    let store = Store::new();
    let id = store.enqueue(&["x", "--max-attempts", "2", "--backoff", "10ms"]);
    store.work(&["--exec", "x=echo attempt $WINDLASS_JOB_ATTEMPT failed >&2; exit 3"]);
    let job = store.job(&id);
    assert_eq!((&job["state"], &job["failures"]), (&json!("dead"), &json!(2)));
    let errors: Vec<_> = job["history"].as_array().unwrap().iter().map(|it| &it["error"]).collect();
    let error =
        |n| json!({ "code": "exit_3", "message": format!("exit code 3: attempt {n} failed") });
    assert_eq!(errors, [&error(1), &error(2)]);
}

#[test]
fn exit_codes_say_never_and_not_now() {
    let store = Store::new();
    let never = store.enqueue(&["never"]);
    let later = store.enqueue(&["later", "--max-attempts", "1"]);
    let killed = store.enqueue(&["killed", "--max-attempts", "1"]);
    let missing = store.enqueue(&["missing", "--max-attempts", "1"]);
    store.work(&[
        "--exec",
        "never=exit 65",
        "--exec",
        "later=test $WINDLASS_JOB_ATTEMPT = 3 || exit 75",
        "--snooze",
        "10ms",
        "--exec",
        "killed=kill -9 $$",
        "--exec",
        "missing=no-such-command-anywhere",
    ]);
    let of = |id: &str| {
        let job = store.job(id);
        (job["state"].clone(), job["attempt"].clone(), job["error"]["code"].clone())
    };
    assert_eq!(of(&never), (json!("dead"), json!(1), json!("exit_65")));
    assert_eq!(of(&later), (json!("completed"), json!(3), json!(null)));
    assert_eq!(of(&killed), (json!("dead"), json!(1), json!("signal_9")));
    assert_eq!(of(&missing), (json!("dead"), json!(1), json!("exit_127")));
}

#[test]
fn a_timeout_ends_the_whole_process_group_even_if_it_will_not() {
    let store = Store::new();
    let id = store.enqueue(&["x", "--timeout", "300ms", "--max-attempts", "1"]);
    let pids = store.path("pids");
    let stubborn = format!(
        "x=trap '' TERM; (sleep 600) & echo $! > {0}; echo $$ >> {0}; wait; sleep 600",
        pids.display()
    );
    store.work(&["--exec", &stubborn]);
    let job = store.job(&id);
    assert_eq!((&job["state"], &job["error"]["code"]), (&json!("dead"), &json!("timeout")));
    // The worker has waited for its commands: nothing is left now.
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 2);
    assert!(pids.lines().all(|pid| !lives(pid)), "{pids}");
}

#[test]
fn processes_left_by_a_command_end_with_it() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    let pid = store.path("pid");
    store.work(&["--exec", &format!("x=sleep 600 & echo $! > {}; echo '[1]'", pid.display())]);
    assert_eq!(store.job(&id)["result"], json!([1]));
    let pid = std::fs::read_to_string(pid).unwrap();
    until("the process left behind is gone", || !lives(&pid));
}

#[test]
fn a_drained_worker_lets_its_job_finish_and_takes_no_other() {
    let store = Store::new();
    let (first, second) = (store.enqueue(&["x"]), store.enqueue(&["x"]));
    let (started, go) = (store.path("started"), store.path("go"));
    let exec = format!(
        "x=touch {}; while ! test -e {}; do sleep 0.01; done; echo '\"finished\"'",
        started.display(),
        go.display()
    );
    let worker = store.start_work(&["--concurrency", "1", "--exec", &exec, "--json"]);
    until("the first job runs", || started.exists());
    // Not before it has heard: a job that ends earlier makes room for the next.
    worker.ask_to_drain();
    std::fs::write(go, "").unwrap();
    let stats: serde_json::Value = serde_json::from_str(&worker.ended().ok()).unwrap();
    assert_eq!((&stats["claimed"], &stats["completed"]), (&json!(1), &json!(1)));
    assert_eq!(store.job(&first)["result"], "finished");
    assert_eq!(store.job(&second)["state"], "available");
}

#[test]
fn a_job_that_outlasts_the_grace_is_given_back_and_its_command_ended() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    let pid = store.path("pid");
    let exec = format!("x=echo $$ > {}; exec sleep 600", pid.display());
    let worker = store.start_work(&["--exec", &exec, "--grace", "50ms"]);
    let written = || std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'));
    until("the job runs", written);
    let said = worker.drain().ok();
    assert!(said.contains("1 released"), "{said}");
    let job = store.job(&id);
    assert_eq!((&job["state"], &job["failures"]), (&json!("available"), &json!(0)));
    assert!(!lives(&std::fs::read_to_string(pid).unwrap()));
}

#[test]
fn a_second_signal_stops_at_once_and_ends_all_commands() {
    // The failure depends on timing and shows in about half of the runs, so several run at once.
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(stop_at_once);
        }
    });
}

fn stop_at_once() {
    let store = Store::new();
    store.enqueue(&["x"]);
    let pids = store.path("pids");
    let exec = format!(
        "x=trap '' TERM; (sleep 600) & echo $! > {0}; echo $$ >> {0}; wait; sleep 600",
        pids.display()
    );
    let worker = store.start_work(&["--exec", &exec, "--grace", "10m"]);
    let read = || std::fs::read_to_string(&pids).unwrap_or_default();
    until("the job runs", || read().lines().count() == 2 && read().ends_with('\n'));
    worker.ask_to_drain();
    // No condition to wait for: a drain that has settled is the hard case, and it is not observable.
    std::thread::sleep(std::time::Duration::from_millis(300));
    worker.signal(Signal::INT);
    worker.ended();
    until("its commands are gone", || read().lines().all(|pid| !lives(pid)));
}

#[test]
fn a_worker_that_is_killed_takes_its_commands_along() {
    let store = Store::new();
    store.enqueue(&["x"]);
    let pids = store.path("pids");
    // One of them has left the command's process group.
    let exec = format!(
        "x=exec >> {}; sleep 600 & echo $!; setsid sleep 600 & echo $!; echo $$; wait",
        pids.display()
    );
    let worker = store.start_work(&["--exec", &exec]);
    let read = || std::fs::read_to_string(&pids).unwrap_or_default();
    until("the job runs", || read().lines().count() == 3 && read().ends_with('\n'));
    worker.kill();
    until("its commands are gone", || read().lines().all(|pid| !lives(pid)));
}

#[test]
fn invalid_options_are_refused_before_any_work() {
    let store = Store::new();
    let refused = |arguments: &[&str], code, parts: &[&str]| {
        store.run(&[&["work"], arguments].concat()).refused(code, parts);
    };
    refused(&[], 2, &["--exec"]);
    refused(&["--exec", "nothing"], 2, &["nothing", "KIND=COMMAND"]);
    refused(&["--exec", "x=true", "--exec", "x=false"], 1, &["x"]);
    refused(&["--exec", "x=true", "--concurrency", "0"], 1, &["concurrency", "0"]);
    refused(&["--http", "x=https://example.org"], 1, &["--http x", "https", "proxy"]);
    refused(
        &["--http", "x=http://localhost", "--memory-max", "1G"],
        1,
        &["--memory-max", "--exec"],
    );
    refused(&["--exec", "x=true", "--memory-max", "1M"], 1, &["--memory-max", "8M"]);
}

/// Variables of the worker that must not reach commands.
const SECRETS: [(&str, &str); 6] = [
    ("WINDLASS_KEY", "wl_s3cr3t"),
    ("WINDLASS_TLS_KEY", "/s3cr3t/worker.key"),
    ("WINDLASS_TLS_CERT", "/s3cr3t/worker.pem"),
    ("DATABASE_URL", "postgres://ada:s3cr3t@db/jobs"),
    ("PGPASSWORD", "s3cr3t"),
    ("AWS_SECRET_ACCESS_KEY", "s3cr3t"),
];

/// The output of a command whose worker has secrets in its environment.
#[track_caller]
fn printed(store: &Store, line: &str, arguments: &[&str]) -> String {
    let id = store.enqueue(&["x", "--max-attempts", "1"]);
    let exec = format!("x={line}");
    let all = [&["work", "--until-empty", "--exec", &exec], arguments].concat();
    let mut work = store.command(&all);
    work.envs(SECRETS);
    let output = work.stdin(std::process::Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let job = store.job(&id);
    job["result_text"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned()
}

#[test]
fn no_secret_of_the_worker_reaches_a_command() {
    let store = Store::new();
    let names = |text: &str| {
        let names = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let env = printed(&store, "env", &[]);
    assert!(!env.contains("s3cr3t") && !env.contains("WINDLASS_STORE"), "{env}");
    let names = names(&env);
    for expected in ["PATH", "WINDLASS_JOB_ID", "WINDLASS_JOB_KIND", "WINDLASS_JOB_ATTEMPT"] {
        assert!(names.iter().any(|name| name == expected), "{expected} in {env}");
    }
    // Neither do the processes between the worker and the command have them, nor their command lines.
    let line = r#"for process in $$ $PPID; do tr '\0' '\n' < /proc/$process/environ; \
        tr '\0' ' ' < /proc/$process/cmdline; done"#;
    let above = printed(&store, line, &["--env", "GIVEN=s3nt"]);
    assert!(above.contains("windlass-process") && above.contains("WINDLASS_JOB_ID="), "{above}");
    assert!(!above.contains("s3cr3t") && !above.contains("WINDLASS_STORE"), "{above}");
}

#[test]
fn a_command_cannot_read_the_environment_of_its_worker() {
    use std::os::unix::process::CommandExt as _;
    let store = Store::new();
    std::fs::set_permissions(store.dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // Root may read everything, so that it takes another user to see this.
    let run = |arguments: &[&str]| {
        let mut command = store.command(arguments);
        command.envs(SECRETS).stdin(std::process::Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let id = run(&["enqueue", "x", "--max-attempts", "1"]).trim().to_owned();
    let exec = "x=cat /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/environ";
    run(&["work", "--until-empty", "--exec", exec]);
    let job = run(&["jobs", "show", &id, "--json"]);
    assert!(!job.contains("s3cr3t") && job.contains("Permission denied"), "{job}");
}

#[test]
fn a_command_gets_the_variables_that_are_named() {
    let store = Store::new();
    let named = ["--env", "GIVEN=a=b", "--pass-env", "PGPASSWORD", "--pass-env", "NOT_SET_HERE"];
    let env = printed(&store, "env", &named);
    assert!(env.contains("\nGIVEN=a=b\n") && env.contains("\nPGPASSWORD=s3cr3t\n"), "{env}");
    assert!(!env.contains("wl_s3cr3t") && !env.contains("NOT_SET_HERE"), "{env}");
    for (flag, value, says) in [
        ("--env", "GIVEN", "NAME=VALUE"),
        ("--env", "=x", "NAME=VALUE"),
        ("--env", "WINDLASS_JOB_ID=1", "set for each job"),
        ("--pass-env", "WINDLASS_PROCESS_ROLE", "set for each job"),
        ("--pass-env", "A=B", "name of a variable"),
    ] {
        let ran = store.run(&["work", "--exec", "x=cat", flag, value]);
        assert!(ran.code != 0 && ran.stderr.contains(says), "{flag} {value}: {ran:?}");
    }
    let ran = store.run(&["work", "--http", "x=http://127.0.0.1:1", "--env", "A=b"]);
    ran.refused(1, &["--env", "--exec"]);
}

#[test]
fn kinds_have_their_own_concurrency_rate_and_floor() {
    let store = Store::new();
    // Two at a time would meet in the directory.
    let alone = store.path("alone").display().to_string();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(store.dir.path(), open).unwrap();
    let exec = format!("alone=mkdir {alone} || exit 65; sleep 0.05; rmdir {alone}");
    let ids: Vec<String> = (0..5).map(|_| store.enqueue(&["alone"])).collect();
    store.work(&["--concurrency", "4", "--kind-concurrency", "alone=1", "--exec", &exec]);
    for id in &ids {
        assert_eq!(store.job(id)["state"], "completed");
    }
    for _ in 0..9 {
        store.enqueue(&["rated"]);
    }
    let ran = store.path("ran").display().to_string();
    let exec = format!("rated=echo >> {ran}");
    let rated = ["--concurrency", "9", "--kind-rate", "rated=3/1h", "--exec", &exec];
    let worker = store.start_work(&rated);
    let lines = || std::fs::read_to_string(&ran).map_or(0, |text| text.lines().count());
    until("three were run", || lines() >= 3);
    worker.drain().ok();
    assert_eq!(lines(), 3);
    let order = store.path("order").display().to_string();
    for n in 0..20 {
        let priority = if n < 15 { "0" } else { "10" };
        store.enqueue(&["ranked", priority, "--priority", priority]);
    }
    let exec = format!("ranked=cat >> {order}; echo >> {order}");
    store.work(&["--concurrency", "1", "--floor", "10=25%", "--exec", &exec]);
    let order = std::fs::read_to_string(&order).unwrap();
    let low = order.lines().take(12).filter(|line| *line == "10").count();
    assert!((2..=4).contains(&low), "{order}");
    for (flag, value, says) in [
        ("--kind-concurrency", "x", "resize=2"),
        ("--kind-concurrency", "y=1", "--kind-concurrency names"),
        ("--kind-concurrency", "x=0", "--kind-concurrency is 0"),
        ("--kind-rate", "x=fast", "mail=10/1s"),
        ("--kind-rate", "x=0/1s", "rate.amount"),
        ("--floor", "10", "10=20%"),
        ("--floor", "10=100%", "--floor is 100"),
    ] {
        let ran = store.run(&["work", "--exec", "x=cat", flag, value]);
        assert!(ran.code != 0 && ran.stderr.contains(says), "{flag} {value}: {ran:?}");
    }
}
