//! The commands of a document, run as a reader would: in order, in one directory, each answer's ids put
//! where the next command wants them.
//!
//! Where a reader's machine differs from the test's, commands are changed as little as can be:
//! - `cargo run --release --` and `windlass` are the binary under test;
//! - `serve` gets a free port, and 127.0.0.1:7474 means that port from then on;
//! - `bench --profile quick` becomes `--profile tiny`, because only that measures in a debug build;
//! - what takes minutes or is run by another test is looked up instead (see [`ELSEWHERE`]);
//! - `ID`, `LEASE` and `CURSOR` are those of the answer that gave them last, or that the test set;
//! - commands that ask for confirmation get `--yes`: the test has no terminal;
//! - commands that follow a stream end after a second.
//!
//! Any other command is unknown, and fails the test.

use crate::serving::Serving;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the documents start the command.
const WINDLASS: &str = "cargo run --release --";
/// Where the documents expect the server.
const PORT: &str = "127.0.0.1:7474";
/// Commands that are not run here, and the file and the text that show that they exist.
const ELSEWHERE: [(&str, &str, &str); 3] = [
    ("windlass migrate postgres://", "crates/cli/tests/cli/postgres.rs", "\"--index\""),
    ("cargo xtask test", "xtask/src/main.rs", "Test(test::Options)"),
    (
        "cargo run -p windlass --example hello",
        "crates/windlass/tests/examples.rs",
        "fn hello_greets",
    ),
];

/// A shell in a directory of its own.
pub(crate) struct Shell {
    dir: tempfile::TempDir,
    server: Option<Serving>,
    /// `NAME=value`, as set by the document.
    variables: Vec<(String, String)>,
    /// What the words in capitals stand for.
    words: BTreeMap<&'static str, String>,
    /// The command, as in the document.
    pub(crate) ran: Vec<String>,
}

impl Shell {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (variables, words) = (Vec::new(), BTreeMap::new());
        Self { dir, server: None, variables, words, ran: Vec::new() }
    }

    /// Sets what a word in capitals stands for.
    pub(crate) fn set(&mut self, word: &'static str, value: &str) {
        self.words.insert(word, value.to_owned());
    }

    /// Writes the first block of this language in a document to a file.
    pub(crate) fn copy(&self, document: &str, language: &str, file: &str) {
        let text = std::fs::read_to_string(repository().join(document)).unwrap();
        let block = text.split(&format!("```{language}\n")).nth(1).expect("a block");
        let block = block.split("```").next().unwrap_or_default();
        std::fs::write(self.dir.path().join(file), block).unwrap();
    }

    /// Writes a file.
    pub(crate) fn write(&self, file: &str, content: &str) {
        std::fs::write(self.dir.path().join(file), content).unwrap();
    }

    /// Runs all commands of a document.
    pub(crate) fn follow(&mut self, document: &str) {
        let text = std::fs::read_to_string(repository().join(document)).unwrap();
        for command in commands(&text) {
            println!("$ {command}");
            self.run(document, &command);
            self.ran.push(command);
        }
    }

    /// Runs a command of the test, as if it were in a document.
    pub(crate) fn follow_line(&mut self, command: &str) {
        self.run("the test", command);
    }

    fn run(&mut self, document: &str, command: &str) {
        if let Some((_, file, proof)) =
            ELSEWHERE.iter().find(|(known, ..)| command.starts_with(known))
        {
            let text = std::fs::read_to_string(repository().join(file)).unwrap();
            assert!(text.contains(proof), "{document}: {command:?} does not exist: see {file}");
        } else if let Some((name, value)) = assignment(command) {
            self.variables.push((name.to_owned(), self.filled(value)));
        } else if command.strip_prefix(WINDLASS).is_some_and(|rest| rest.trim() == "serve") {
            self.serve();
        } else if command.starts_with(WINDLASS) {
            let program = format!("'{}'", env!("CARGO_BIN_EXE_windlass"));
            let command = command.replace("--profile quick", "--profile tiny");
            self.sh(&command.replace(WINDLASS, &program));
        } else if let Some(rest) = command.strip_prefix("windlass ") {
            let answer =
                self.sh(&prepared(&format!("'{}' {rest}", env!("CARGO_BIN_EXE_windlass"))));
            if let Some(id) = answer.lines().next().filter(|line| is_id(line)) {
                self.set("ID", id);
            }
        } else if let Some(rest) = command.strip_prefix("curl ") {
            let curl = format!("curl -sS --fail-with-body --max-time 60 {rest}");
            let answer = self.sh(&prepared(&curl));
            self.remember(&answer);
        } else {
            panic!("{document} has a command that this test cannot run; teach it: {command}");
        }
    }

    /// Starts a server as the document says, but for its port.
    pub(crate) fn serve(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(self.dir.path());
        self.server = Some(Serving::by(&mut command));
    }

    /// Runs a line in the shell; what it printed, if all went well.
    pub(crate) fn sh(&self, line: &str) -> String {
        let line = self.filled(line);
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&line).current_dir(self.dir.path()).env_remove("WINDLASS_STORE");
        command.envs(self.variables.iter().cloned());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{line}\n{said}\n{complained}");
        said
    }

    /// The line with everything in it that only this run knows.
    fn filled(&self, line: &str) -> String {
        let known = |name: &str| {
            let word = self.words.get(name).cloned();
            word.unwrap_or_else(|| panic!("no answer gave the {name} of: {line}"))
        };
        let mut line = match &self.server {
            Some(server) => line.replace(PORT, &server.address),
            None => line.to_owned(),
        };
        for name in ["CURSOR", "LEASE", "ID"] {
            line = replaced(&line, name, || known(name));
        }
        line
    }

    /// Keeps the last id and lease of an answer.
    fn remember(&mut self, answer: &str) {
        let value: Value = serde_json::from_str(answer).unwrap_or_default();
        for (name, word) in [("id", "ID"), ("lease", "LEASE"), ("cursor", "CURSOR")] {
            if let Some(value) = last(&value, name) {
                self.set(word, &value);
            }
        }
    }

    /// The jobs there are, oldest first.
    pub(crate) fn jobs(&self) -> Vec<Value> {
        let server = self.server.as_ref().expect("the document starts a server");
        let answer = server.request("GET", "/v1/jobs?order=oldest", "");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let mut page: Value = serde_json::from_str(body).unwrap();
        serde_json::from_value(page["jobs"].take()).unwrap()
    }
}

/// The command as it can run without a person: confirmed, and ended.
fn prepared(command: &str) -> String {
    let (line, comment) = command.split_once(" # ").unwrap_or((command, ""));
    let asks =
        ["jobs cancel --where", "jobs move --queue", "dead replay --all", "dead discard --all"];
    let asks = asks.iter().any(|asks| line.contains(asks));
    let is_confirmed = ["--yes", "--dry-run"].iter().any(|flag| line.contains(flag));
    let line = if asks && !is_confirmed { format!("{line} --yes") } else { line.to_owned() };
    match line.contains(" --follow") || line.contains(" -N ") {
        true => format!("timeout 1 {line}; test $? = 124 # {comment}"),
        false => line,
    }
}

/// Whether a text is the id of a job.
fn is_id(text: &str) -> bool {
    text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
}

/// The line with a whole word replaced.
fn replaced(line: &str, word: &str, by: impl Fn() -> String) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let stands_alone = !before.ends_with(is_part) && !after.starts_with(is_part);
        pieces.push(before.to_owned());
        pieces.push(if stands_alone { by() } else { word.to_owned() });
        rest = after;
    }
    pieces.push(rest.to_owned());
    pieces.concat()
}

/// `NAME=value`, if that is all there is.
fn assignment(command: &str) -> Option<(&str, &str)> {
    let (name, value) = command.split_once('=')?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    (is_name && !value.contains(' ')).then_some((name, value))
}

/// The last text under this name, however deep.
fn last(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Object(members) => {
            let own = members.get(name).and_then(Value::as_str).map(str::to_owned);
            own.or_else(|| members.values().rev().find_map(|value| last(value, name)))
        }
        Value::Array(values) => values.iter().rev().find_map(|value| last(value, name)),
        _ => None,
    }
}

/// The commands in the `sh` blocks of a document, comments left out.
fn commands(document: &str) -> Vec<String> {
    let blocks = document.split("```sh\n").skip(1).filter_map(|it| it.split("```").next());
    let whole = blocks.map(|block| block.replace("\\\n", " "));
    let lines = whole.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
    let lines = lines.map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

#[test]
fn commands_are_found_whole_and_in_order() {
    let document = "text\n```sh\na \\\n  b\n# no\n\nc\n```\n```json\nd\n```\n```sh\ne\n```\n";
    assert_eq!(commands(document), ["a    b", "c", "e"]);
}

#[test]
fn only_whole_words_are_filled_in() {
    let by = || "7".to_owned();
    assert_eq!(
        replaced("show ID, $JOB_ID {\"id\":\"ID\"}", "ID", by),
        "show 7, $JOB_ID {\"id\":\"7\"}"
    );
}

#[test]
#[should_panic(expected = "cannot run; teach it: rm -rf x")]
fn an_unknown_command_is_reported_and_not_skipped() {
    Shell::new().run("README.md", "rm -rf x");
}
