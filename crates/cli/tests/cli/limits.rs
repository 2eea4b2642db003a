//! `windlass work --exec` with limits: who takes too much dies alone.

use crate::support::{Store, lives, until};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_memory_hog_dies_alone() {
    let store = Store::new();
    let hog = store.enqueue(&["hog", "--max-attempts", "1"]);
    let other = store.enqueue(&["other", "--max-attempts", "1"]);
    // The shell keeps all of it.
    let exec = "hog=v=$(head -c 1G /dev/zero | tr '\\0' x); echo ${#v}";
    store.work(&["--memory-max", "64M", "--exec", exec, "--exec", "other=echo '[1]'"]);
    let job = store.job(&hog);
    assert_eq!(job["state"], "dead", "{job}");
    assert_eq!(store.job(&other)["result"], json!([1]));
}

#[test]
fn a_fork_bomb_is_bounded_and_dies_alone() {
    let store = Store::new();
    let bomb = store.enqueue(&["bomb", "--max-attempts", "1"]);
    let other = store.enqueue(&["other", "--max-attempts", "1"]);
    let exec = "bomb=bomb() { bomb & bomb & sleep 0.5; }; bomb; wait; exit 9";
    let said = store.work(&[
        "--processes-max",
        "20",
        "--timeout",
        "20s",
        "--exec",
        exec,
        "--exec",
        "other=echo '[1]'",
    ]);
    assert!(said.starts_with("1 completed"), "{said}");
    let job = store.job(&bomb);
    let error = job["error"]["message"].as_str().unwrap();
    assert_eq!(job["state"], "dead");
    assert!(error.to_lowercase().contains("fork"), "{error}");
    assert_eq!(store.job(&other)["result"], json!([1]));
}

#[test]
fn a_bomb_whose_pieces_leave_the_group_is_ended_whole_and_recorded() {
    let store = Store::new();
    let bomb = store.enqueue(&["bomb", "--max-attempts", "1", "--timeout", "1s"]);
    let other = store.enqueue(&["other", "--max-attempts", "1"]);
    // A unique sleep time identifies the processes of the command. Some hide their parent.
    let time = format!("600.{}", std::process::id());
    let exec = format!("bomb=while :; do setsid sleep {time} & env -i setsid sleep {time} & done");
    store.work(&["--processes-max", "30", "--exec", &exec, "--exec", "other=echo '[1]'"]);
    let job = store.job(&bomb);
    assert_eq!(job["state"], "dead", "{job}");
    assert_eq!(store.job(&other)["result"], json!([1]));
    until("nothing of it is left", || processes_with(&time) == 0);
}

#[test]
fn detached_processes_of_a_command_end_with_it_and_not_before() {
    let store = Store::new();
    store.enqueue(&["short", "--max-attempts", "1"]);
    let id = store.enqueue(&["long", "--max-attempts", "1"]);
    // The user of the commands must be able to write there.
    let all_users = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(store.dir.path(), all_users).unwrap();
    let at = store.dir.path().display();
    let short = format!(
        "short=cd {at}; (setsid sleep 600 & echo $! > pid); until [ -e begun ]; do sleep 0.01; done"
    );
    // The short one ends while these work on, one of which hides whose it is. None may be taken for the
    // short one's.
    let long = format!(
        "long=cd {at}; (setsid sh -c 'sleep 0.5; echo > one' &)
        (env -i PATH=$PATH setsid sh -c 'sleep 1.5; echo > two' &)
        echo > begun; until [ -e one -a -e two ]; do sleep 0.01; done; echo '[2]'"
    );
    let times = ["--concurrency", "2", "--timeout", "20s"];
    store.work(&[&times[..], &["--exec", &short, "--exec", &long]].concat());
    assert_eq!(store.job(&id)["result"], json!([2]));
    let pid = std::fs::read_to_string(store.path("pid")).unwrap();
    until("what the short one left is gone", || !lives(&pid));
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

#[test]
fn a_fork_bomb_takes_nothing_from_the_commands_of_another_worker() {
    let (theirs, ours) = (Store::new(), Store::new());
    theirs.enqueue(&["bomb", "--max-attempts", "1"]);
    let id = ours.enqueue(&["x", "--max-attempts", "1"]);
    // The user of the command must be able to write there.
    let all_users = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(theirs.dir.path(), all_users).unwrap();
    let said = theirs.path("said");
    let bomb = format!(
        "bomb=exec 2>>{}; bomb() {{ bomb & bomb & sleep 600; }}; bomb; wait",
        said.display()
    );
    let worker = theirs.start_work(&["--processes-max", "20", "--exec", &bomb]);
    until("the bomb is at its limit", || {
        std::fs::read_to_string(&said).is_ok_and(|text| text.to_lowercase().contains("fork"))
    });
    let exec = "x=for n in 1 2 3 4 5; do sleep 0.01 & done; wait; echo '[5]'";
    ours.work(&["--processes-max", "20", "--exec", exec]);
    worker.kill();
    let job = ours.job(&id);
    assert_eq!(job["result"], json!([5]), "{job}");
}

#[test]
fn many_children_within_the_limit_are_fine() {
    let store = Store::new();
    // One attempt: a second one would hide that the first was counted together with another user's processes.
    let id = store.enqueue(&["x", "--max-attempts", "1"]);
    let exec = "x=for n in 1 2 3 4 5; do sleep 0.01 & done; wait; echo '[5]'";
    store.work(&["--processes-max", "20", "--exec", exec]);
    let job = store.job(&id);
    assert_eq!(job["result"], json!([5]), "{job}");
}

#[test]
fn a_busy_loop_ends_with_its_cpu_time() {
    let store = Store::new();
    let id = store.enqueue(&["x", "--max-attempts", "1"]);
    store.work(&["--cpu-max", "1s", "--exec", "x=while :; do :; done"]);
    let error = &store.job(&id)["error"];
    assert!(error["message"].as_str().unwrap().contains("CPU time is used up"), "{error}");
}

#[test]
fn output_without_end_is_read_and_bounded() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    let failed = store.enqueue(&["y", "--max-attempts", "1"]);
    store.work(&[
        "--exec",
        "x=head -c 1000000 /dev/zero",
        "--exec",
        "y=seq 100000 >&2; echo the end >&2; exit 1",
    ]);
    let job = store.job(&id);
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!(null)));
    assert!(job["log"][0]["text"].as_str().unwrap().contains("1000000 bytes"), "{job}");
    let error = store.job(&failed)["error"]["message"].as_str().unwrap().to_owned();
    assert!(error.ends_with("100000\nthe end") && error.len() < 8 * 1024, "{error}");
}
