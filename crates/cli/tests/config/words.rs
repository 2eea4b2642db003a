//! The output of `windlass config`.

use crate::{stderr, stdout, windlass};

/// More than ten mistakes, each of another sort.
const MISTAKEN: &str = r#"[store]
url = "postgress://ada:s3cr3t@db/jobs"

[server]
lisen = "127.0.0.1:7474"
listen = "localhost"
connections_max = "100"
call_timeout = 30
grace = "2h"
hosts = "jobs.example.org"

[services]
leadership = "yes"
promote.interval = "1h"
retain = "5m"

[logs]
level = "info"

[log]
level = "warm"

[queues.mail]
max_depth = 0
order = "random"
retention.finished = "7"

[schedules.report]
kind = "send_report"
cron = "61 6 * * *"

[schedules.sweep]
every = "15m"

[schedules.sync]
kind = "sync"
every = "15m"
after_completion = "5m"

[schedules.poll]
kind = "poll"
after_completion = "5m"
missed = "all"
"#;

/// The error messages for them.
const SAID: &str = r#"error: the configuration has 19 mistakes:
  windlass.toml:2: store.url is "postgress://***@db/jobs": scheme "postgress" is not known; the known ones: memory: (in this process, nothing kept), file:DIR (durable, in one directory), postgres://USER@HOST/DATABASE (shared by any number of processes), redis://HOST:PORT (likewise), http://HOST:PORT or https://HOST:PORT (a server)
  windlass.toml:5: server.lisen is not a setting; did you mean server.listen?
  windlass.toml:6: server.listen is "localhost": write an address and a port, as in 127.0.0.1:7474 or [::1]:7474
  windlass.toml:7: server.connections_max is "100": write a whole number without quotes; it must be between 1 and 1000000
  windlass.toml:8: server.call_timeout is "30": write it with its unit and in quotes, as in "30s"
  windlass.toml:9: server.grace is "2h": it must be between 0s and 1h
  windlass.toml:10: server.hosts is "jobs.example.org": write a list of texts, like ["one", "two"]
  windlass.toml:13: services.leadership is "yes": write true or false, without quotes
  windlass.toml:14: services.promote.interval is "1h": it must be between 5ms and 1m
  windlass.toml:15: services.retain is "5m": set services.retain.enabled, services.retain.interval, services.retain.batch
  windlass.toml:17: logs is not a setting; did you mean log?
  windlass.toml:21: log.level is "warm": use one of off, error, warn, info, debug, trace, or levels by module, as in "warn,windlass_services=info"
  windlass.toml:24: queues.mail.max_depth is "0": it must be between 1 and 9223372036854775807, or "none"
  windlass.toml:25: queues.mail.order is "random": use strict, lifo, fair, or ageing=TIME
  windlass.toml:26: queues.mail.retention.finished is "7": write it like 500ms, 10s, 5m, 1h30m or 7d
  windlass.toml:30: schedules.report.cron is "61 6 * * *": Component error: Number out of bounds.; use `minute hour day month weekday`, e.g. `30 2 * * MON-FRI`
  windlass.toml:32: schedules.sweep.kind is "not set": name the kind of the job
  windlass.toml:38: schedules.sync.after_completion is "set beside cron or every": keep one of them
  windlass.toml:43: schedules.poll.missed is "all": leave it out: a schedule after completion has one fire at a time, which may be late
"#;

#[test]
fn all_mistakes_are_reported_together_with_their_key_and_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("windlass.toml"), MISTAKEN).unwrap();
    let checked = windlass(dir.path(), &["config", "check"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(1));
    similar(&stderr(&checked), SAID);
    let refused = windlass(dir.path(), &["serve"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "it does not start");
    similar(&stderr(&refused), SAID);
    assert!(!dir.path().join("windlass-data").exists(), "and leaves nothing behind");
}

/// The same, line by line, so that a failure shows the line.
#[track_caller]
fn similar(said: &str, expected: &str) {
    let (said, expected): (Vec<_>, Vec<_>) = (said.lines().collect(), expected.lines().collect());
    for (said, expected) in said.iter().zip(&expected) {
        assert_eq!(said, expected);
    }
    assert_eq!(said.len(), expected.len(), "{said:#?}");
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_line_and_column() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("own.toml");
    std::fs::write(&path, "[server]\nlisten = 127.0.0.1:7474\n").unwrap();
    let checked = windlass(dir.path(), &["config", "check", "own.toml"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(1));
    let said = stderr(&checked);
    assert!(said.contains("own.toml:2: column "), "{said}");
    assert!(said.contains("not TOML"), "{said}");
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["config", "check", "none.toml"][..], &["serve", "--config", "none.toml"]] {
        let refused = windlass(dir.path(), arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let said = stderr(&refused);
        assert!(said.contains("none.toml") && said.contains("--config PATH"), "{said}");
    }
    let nothing = windlass(dir.path(), &["config", "check"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("windlass config example"), "{}", stderr(&nothing));
}

#[test]
fn flags_go_before_variables_before_the_file_before_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[server]\nlisten = \"127.0.0.1:1\"\ngrace = \"1s\"\ncall_timeout = \"1s\"\n\
                [queues.\"mail.eu\"]\nmax_depth = 3\n";
    std::fs::write(dir.path().join("windlass.toml"), file).unwrap();
    let mut show = windlass(dir.path(), &["config", "show", "--listen", "127.0.0.1:3"]);
    show.args([
        "--store",
        "postgres://ada:s3cr3t@db/jobs",
        "--set",
        "services.retain.interval=10s",
    ]);
    show.env("WINDLASS_SERVER_LISTEN", "127.0.0.1:2").env("WINDLASS_SERVER_GRACE", "2s");
    show.env("WINDLASS_SEVER_GRACE", "3s");
    let shown = show.output().unwrap();
    let (said, noted) = (stdout(&shown), stderr(&shown));
    let line = |key: &str| {
        let line = said.lines().find(|line| line.starts_with(&format!("{key} = ")));
        line.unwrap_or_else(|| panic!("{key} in {said}{noted}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("server.listen"), r#"server.listen = "127.0.0.1:3" # --listen"#);
    assert_eq!(line("server.grace"), r#"server.grace = "2s" # WINDLASS_SERVER_GRACE"#);
    assert_eq!(line("server.call_timeout"), r#"server.call_timeout = "1s" # windlass.toml:4"#);
    assert_eq!(line("server.read_timeout"), r#"server.read_timeout = "30s" # default"#);
    assert_eq!(line("services.retain.interval"), r#"services.retain.interval = "10s" # --set"#);
    assert_eq!(line("store.url"), r#"store.url = "postgres://***@db/jobs" # --store"#);
    assert_eq!(
        line("queues.\"mail.eu\".max_depth"),
        r#"queues."mail.eu".max_depth = 3 # windlass.toml:6"#
    );
    assert!(noted.contains("did you mean WINDLASS_SERVER_GRACE?"), "{noted}");
}

#[test]
fn mistakes_in_flags_and_variables_name_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut serve = windlass(dir.path(), &["serve", "--set", "server.gracee=1s", "--log", "loud"]);
    serve.env("WINDLASS_SERVER_CONNECTIONS_MAX", "many");
    let said = stderr(&serve.output().unwrap());
    let expected = r#"error: the configuration has 3 mistakes:
  WINDLASS_SERVER_CONNECTIONS_MAX: server.connections_max is "many": write a whole number; it must be between 1 and 1000000
  --log: log.level is "loud": use one of off, error, warn, info, debug, trace, or levels by module, as in "warn,windlass_services=info"
  --set: server.gracee is not a setting; did you mean server.grace?
"#;
    similar(&said, expected);
}

#[test]
fn every_command_finds_the_store_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[store]\nurl = \"file:./here\"\n";
    std::fs::write(dir.path().join("windlass.toml"), file).unwrap();
    let enqueued = windlass(dir.path(), &["enqueue", "greet"]).output().unwrap();
    assert!(enqueued.status.success(), "{}", stderr(&enqueued));
    assert!(dir.path().join("here").exists() && !dir.path().join("windlass-data").exists());
    let worked = windlass(dir.path(), &["work", "--exec", "greet=cat", "--until-empty"]).output();
    let worked = worked.unwrap();
    assert!(stdout(&worked).contains("1 completed"), "{}{}", stdout(&worked), stderr(&worked));
}
