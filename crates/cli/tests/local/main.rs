//! A store in a directory, as its users run it: file modes, ownership, the address that commands follow,
//! and what becomes of it on a full disk.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod full;
mod handover;
mod lock;
mod private;
#[path = "../serving/mod.rs"]
mod serving;
#[path = "../../../engines/local/tests/faults/small_disk.rs"]
mod small_disk;

use serde_json::Value;
use serving::Serving;
use std::path::Path;
use std::process::{Command, Output};

/// A command on the store in `dir`.
fn windlass(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(args).args(["--store", &format!("file:{}", dir.display())]);
    command.env_remove("WINDLASS_KEY").output().unwrap()
}

/// The status and the body of a reply.
fn ask(server: &Serving, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = server.request(method, path, body);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}
