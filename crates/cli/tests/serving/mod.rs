//! `windlass serve` as a process, for every test program that needs one.
#![allow(dead_code, reason = "each test program uses its part of it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A server process; killed when dropped.
pub(crate) struct Serving {
    process: Child,
    /// `host:port`
    pub(crate) address: String,
    /// Its output on stdout.
    said: Arc<Mutex<String>>,
}

impl Serving {
    /// Serves the store in `dir`, on a port of its own.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::by(&mut serve(dir, "127.0.0.1:0"))
    }

    /// The same where clients expect it.
    pub(crate) fn start_at(dir: &Path, address: &str) -> Self {
        Self::by(&mut serve(dir, address))
    }

    /// By a command of one's own, which must be a `serve`.
    pub(crate) fn by(command: &mut Command) -> Self {
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut process = process.expect("start windlass");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let kept = said.clone();
        let mut next = move || {
            let line = lines.next()?.ok()?;
            *kept.lock().expect("no panic") += &format!("{line}\n");
            Some(line)
        };
        let address = std::iter::from_fn(&mut next)
            .find_map(|line| line.strip_prefix("listening on http://").map(str::to_owned));
        // Later output needs a reader, or a broken pipe would stop the server.
        std::thread::spawn(move || while next().is_some() {});
        Self { process, address: address.expect("it says where it listens"), said }
    }

    /// Its output on stdout so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("no panic").clone()
    }

    /// Its stderr, if that was piped; once.
    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.process.stderr.take().expect("a pipe")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("connect");
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Signals it to stop, and waits for its end.
    pub(crate) fn terminate(mut self) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill");
        assert!(sent.success());
        assert!(self.process.wait().expect("its end").success(), "it stops without an error");
    }
}

impl Drop for Serving {
    /// SIGKILL: no time to tidy up.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The command that serves the store in `dir`.
pub(crate) fn serve(dir: &Path, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let store = format!("file:{}", dir.display());
    command.args(["serve", "--listen", listen, "--store", &store]);
    command
}
