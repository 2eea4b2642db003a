//! Keys as people use them: made with the command, asked for by a real server, and never in a log.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod serving;

use serving::{Serving, serve};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const PAYLOAD: &str = "p4yl0ad-n0b0dy-may-see";

/// The command on a store, with a key in the environment.
fn windlass(store: &str, key: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(args).env("WINDLASS_STORE", store).env_remove("WINDLASS_KEY").stdin(Stdio::null());
    command.envs(key.map(|key| ("WINDLASS_KEY", key))).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A fresh key that may do this.
#[track_caller]
fn key(store: &str, by: Option<&str>, may: &str) -> String {
    let name = may.replace([':', ',', '*'], "-");
    let made = windlass(store, by, &["keys", "create", "--name", &name, "--may", may]);
    let secret = ok(&made).trim().to_owned();
    assert!(secret.starts_with("wl_") && secret.len() == 84, "{secret}");
    assert!(!text(&made.stderr).contains(&secret), "on stdout only, for scripts");
    secret
}

fn directory(dir: &Path) -> String {
    format!("file:{}", dir.display())
}

#[test]
fn a_key_is_shown_once_listed_without_its_secret_and_revoked_by_its_id() {
    let dir = tempfile::tempdir().unwrap();
    let store = directory(&dir.path().join("store"));
    let secret = key(&store, None, "enqueue:invoice,work:mail");
    let id = secret.split('_').nth(1).unwrap();
    let expires =
        ["keys", "create", "--name", "brief", "--may", "view", "--expires", "90d", "--json"];
    let brief: serde_json::Value =
        serde_json::from_str(&ok(&windlass(&store, None, &expires))).unwrap();
    assert!(
        brief["secret"].as_str().unwrap().starts_with("wl_") && brief["expires_at"].is_string()
    );
    let listed = ok(&windlass(&store, None, &["keys", "list"]));
    assert!(listed.contains(id) && listed.contains("enqueue:invoice,work:mail"), "{listed}");
    assert!(listed.contains("expires"), "{listed}");
    assert!(!listed.contains(secret.split('_').nth(2).unwrap()), "{listed}");
    ok(&windlass(&store, None, &["keys", "revoke", id]));
    assert!(ok(&windlass(&store, None, &["keys", "list"])).contains("revoked"));
    let audit = ok(&windlass(&store, None, &["audit", "--action", "key", "--json"]));
    let audit: serde_json::Value = serde_json::from_str(&audit).unwrap();
    let actions: Vec<_> =
        audit["actions"].as_array().unwrap().iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["key.revoke", "key.create", "key.create"], "{audit}");
    assert!(audit["actions"][0]["who"].as_str().unwrap().starts_with("cli:"), "{audit}");

    for (may, says) in [("admni", "use enqueue:KIND"), ("enqueue:a b", "may.enqueue")] {
        let refused = windlass(&store, None, &["keys", "create", "--name", "x", "--may", may]);
        assert!(!refused.status.success() && text(&refused.stderr).contains(says), "{refused:?}");
    }
    let unknown = windlass(&store, None, &["keys", "revoke", "missing"]);
    assert!(text(&unknown.stderr).contains("does not exist"), "{unknown:?}");
}

#[test]
fn commands_send_their_key_from_the_environment_or_the_url_and_report_missing_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let (store, admin) = (directory(dir.path()), key(&directory(dir.path()), None, "admin"));
    let server = Serving::start(dir.path());
    // Through the server that owns the directory, too.
    for (at, by, good) in [
        (&*store, Some(&*admin), true),
        (&*server.url(), Some(&*admin), true),
        (&*format!("http://{admin}@{}", server.address), None, true),
        (&*server.url(), None, false),
        (&*store, None, false),
    ] {
        let listed = windlass(at, by, &["jobs", "list"]);
        assert_eq!(listed.status.success(), good, "{}", text(&listed.stderr));
        if !good {
            let said = text(&listed.stderr);
            assert!(said.contains("WINDLASS_KEY") && said.contains("unauthenticated"), "{said}");
        }
    }
    let producer = key(&server.url(), Some(&admin), "enqueue:greet");
    ok(&windlass(&server.url(), Some(&producer), &["enqueue", "greet", "{}"]));
    let refused = windlass(&server.url(), Some(&producer), &["enqueue", "other", "{}"]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("enqueue:other"), "{said}");
    // A worker whose key is for working only leaves the store's upkeep to the server.
    let worker = key(&server.url(), Some(&admin), "work:default,view");
    let work = ["work", "--exec", "greet=cat", "--until-empty"];
    let worked = windlass(&server.url(), Some(&worker), &work);
    ok(&worked);
    assert!(!text(&worked.stderr).contains("leadership"), "{}", text(&worked.stderr));
    let jobs = ok(&windlass(&server.url(), Some(&admin), &["jobs", "list", "--json"]));
    assert!(jobs.contains("completed"), "{jobs}");
}

#[test]
fn the_lines_that_serve_prints_work_with_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let admin = key(&directory(dir.path()), None, "admin");
    let server = Serving::start(dir.path());
    let mut looks = PATIENCE.as_millis() / LOOK_EVERY.as_millis();
    while !server.said().contains("stop with ctrl-c") {
        assert!(looks > 0, "{}", server.said());
        looks -= 1;
        std::thread::sleep(LOOK_EVERY);
    }
    let said = server.said();
    let run = |title: &str, key: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(title)).unwrap().trim();
        let shown = Command::new("sh").args(["-c", line]).env("WINDLASS_KEY", key).output();
        text(&shown.unwrap().stdout)
    };
    assert!(run("enqueue a job:", &admin).contains("\"id\""), "{said}");
    assert!(run("claim a job:", &admin).contains("Ada"), "{said}");
    assert!(run("list jobs:", &admin).contains("running"), "{said}");
    assert!(run("list jobs:", "").contains("unauthenticated"), "{said}");
}

#[test]
fn a_store_with_keys_may_be_served_to_other_machines() {
    let dir = tempfile::tempdir().unwrap();
    let refused = serve(dir.path(), "0.0.0.0:0").output().unwrap();
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("windlass keys create"), "{said}");
    key(&directory(dir.path()), None, "admin");
    let server = Serving::start_at(dir.path(), "0.0.0.0:0");
    assert!(server.request("GET", "/healthz", "").starts_with("HTTP/1.1 200"));
    assert!(server.request("GET", "/v1/jobs", "").starts_with("HTTP/1.1 401"));
}

#[test]
fn no_payload_and_no_key_is_ever_in_the_most_talkative_log() {
    let dir = tempfile::tempdir().unwrap();
    let (home, log) = (dir.path().join("store"), dir.path().join("log"));
    let mut secrets = vec![key(&directory(&home), None, "admin")];
    let output = File::create(&log).unwrap();
    let mut command = serve(&home, "127.0.0.1:0");
    command.args(["--log", "trace"]).stdin(Stdio::null());
    command.stdout(output.try_clone().unwrap()).stderr(output);
    let mut process = command.spawn().unwrap();
    let logged = || std::fs::read_to_string(&log).unwrap();
    let mut looks = PATIENCE.as_millis() / LOOK_EVERY.as_millis();
    let address = loop {
        let said = logged();
        let line = said.lines().find_map(|line| line.strip_prefix("listening on http://"));
        if let Some(address) = line {
            break address.to_owned();
        }
        assert!(looks > 0, "{said}");
        looks -= 1;
        std::thread::sleep(LOOK_EVERY);
    };
    let url = format!("http://{address}");
    let admin = secrets[0].clone();
    let mut said = String::new();
    let mut run = |by: &str, args: &[&str]| {
        let output = windlass(&url, Some(by), args);
        said += &text(&output.stderr);
        output
    };
    let payload = format!(r#"{{"x":"{PAYLOAD}"}}"#);
    ok(&run(&admin, &["enqueue", "greet", &payload]));
    ok(&run(&admin, &["enqueue", "breaks", &payload, "--max-attempts", "1"]));
    ok(&run(&admin, &["schedules", "add", "s", "greet", &payload, "--every", "1h"]));
    run(&admin, &["work", "--exec", "greet=cat", "--exec", "breaks=false", "--until-empty"]);
    ok(&run(&admin, &["dead", "list"]));
    ok(&run(&admin, &["jobs", "list"]));
    secrets.push(key(&url, Some(&admin), "enqueue:greet"));
    let (producer, wrong) = (secrets[1].clone(), format!("{}0000", &admin[..80]));
    assert!(!run(&producer, &["enqueue", "other", &payload]).status.success());
    assert!(!run(&wrong, &["jobs", "list"]).status.success());
    let id = producer.split('_').nth(1).unwrap().to_owned();
    ok(&run(&admin, &["keys", "revoke", &id]));
    ok(&run(&admin, &["audit"]));
    secrets.push(wrong);
    process.kill().unwrap();
    process.wait().unwrap();
    let logged = logged();
    assert!(logged.contains("TRACE") || logged.contains("DEBUG"), "it talks: {logged}");
    for text in [&logged, &said] {
        assert!(!text.contains(PAYLOAD), "a payload");
        for secret in &secrets {
            let part = secret.split('_').nth(2).unwrap();
            assert!(!text.contains(&part[..24]), "a key");
        }
    }
}

/// A server that refuses every request and records it.
struct Listener {
    address: String,
    heard: Arc<Mutex<String>>,
}

impl Listener {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = Arc::new(Mutex::new(String::new()));
        let keep = heard.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).unwrap_or(0);
                keep.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
                let refuse =
                    "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(refuse.as_bytes());
            }
        });
        Self { address, heard }
    }

    /// The requests since the last call.
    fn heard(&self) -> String {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

#[test]
fn a_key_is_not_sent_to_a_server_that_only_a_file_in_the_working_directory_names() {
    let dir = tempfile::tempdir().unwrap();
    let listener = Listener::start();
    let url = format!("http://{}", listener.address);
    let file = format!("[store]\nurl = \"{url}\"\n");
    std::fs::write(dir.path().join("windlass.toml"), &file).unwrap();
    std::fs::write(dir.path().join("named.toml"), &file).unwrap();
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(args).current_dir(dir.path()).stdin(Stdio::null());
        command.env("WINDLASS_KEY", "wl_s3cr3t").envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        text(&output.stderr)
    };
    for args in [&["jobs", "list"][..], &["work", "--exec", "x=cat"], &["serve"]] {
        let said = run(args, &[]);
        let heard = listener.heard();
        assert!(!heard.contains("s3cr3t"), "{args:?}: {heard}");
        for part in ["WINDLASS_KEY_HOST", "windlass.toml:2", &*listener.address, "--store"] {
            assert!(said.contains(part), "{args:?}: {part} in {said}");
        }
    }
    // A server named by the user, a file named by the user, or a host bound to the key gets it.
    let list = ["jobs", "list"];
    run(&["jobs", "list", "--store", &url], &[]);
    assert!(listener.heard().contains("Bearer wl_s3cr3t"));
    run(&["jobs", "list", "--config", "named.toml"], &[]);
    assert!(listener.heard().contains("Bearer wl_s3cr3t"));
    run(&list, &[("WINDLASS_KEY_HOST", &listener.address)]);
    assert!(listener.heard().contains("Bearer wl_s3cr3t"));
    // A key that is bound to one host is sent to no other, even if a flag names it.
    let said = run(&["jobs", "list", "--store", &url], &[("WINDLASS_KEY_HOST", "jobs.internal")]);
    assert!(said.contains("jobs.internal") && said.contains(&listener.address), "{said}");
    assert!(!listener.heard().contains("s3cr3t"));
}
