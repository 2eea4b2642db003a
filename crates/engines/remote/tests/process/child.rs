//! A server process for tests: this test program, started again as a server, with its clock moved over
//! its standard input, so that no route for it exists.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject, TimeTravel};
use windlass_local::{LocalEngine, Options};
use windlass_remote::RemoteEngine;
use windlass_server::{Options as ServerOptions, Server};

/// Names the directory of the store, to a process that is to be a server.
const STORE: &str = "WINDLASS_TEST_STORE";
/// The text before the URL in the server's output.
const SERVES: &str = "serves ";

/// A fresh store in a directory and a process of its own.
pub(crate) async fn fresh() -> Subject {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, url) = ServerProcess::start(dir.path());
    let engine = RemoteEngine::connect(url).await.expect("connect");
    Subject::new(Arc::new(engine), Arc::new(server)).guarded(dir)
}

struct ServerProcess {
    child: Child,
    talk: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl ServerProcess {
    fn start(dir: &Path) -> (Self, String) {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["--exact", "child::be_a_server", "--nocapture"])
            .env(STORE, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a server");
        let stdin = child.stdin.take().expect("its input");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        let url = loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).expect("its words") > 0, "the server ended");
            if let Some((_, url)) = line.split_once(SERVES) {
                break url.trim().to_owned();
            }
        };
        (Self { child, talk: Mutex::new((stdin, stdout)) }, url)
    }
}

impl TimeTravel for ServerProcess {
    fn advance(&self, ms: u64) {
        let mut talk = self.talk.lock().expect("no panic under the lock");
        let (stdin, stdout) = &mut *talk;
        writeln!(stdin, "{ms}").expect("tell the time");
        let mut done = String::new();
        stdout.read_line(&mut done).expect("hear that it is done");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a check, but the server of every test here: does nothing unless started as one.
#[test]
fn be_a_server() {
    let Ok(dir) = std::env::var(STORE) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let clock = Arc::new(ManualClock::at(START));
    let options = ServerOptions::new(([127, 0, 0, 1], 0).into()).services(None);
    let _handle = runtime.block_on(async {
        let server = Server::bind(options).await.expect("bind");
        let url = format!("http://{}", server.address());
        let store = Options::new(dir).clock(clock.clone()).address(&url);
        let handle = server.serve(Arc::new(LocalEngine::open(store).expect("open")));
        println!("{SERVES}{url}");
        handle.expect("serve")
    });
    // Ends with its input, and so with the test that started it, however that one ends.
    for line in std::io::stdin().lines() {
        clock.advance(line.expect("a line").parse().expect("milliseconds"));
        println!("done");
    }
}
