//! Commands as handlers, by what becomes of jobs and of processes.
//!
//! This binary is a host itself: `enter` must come first in it, so it has a main of its own.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

#[cfg(unix)]
#[path = "../support/mod.rs"]
mod support;
#[cfg(unix)]
#[macro_use]
mod trial;
#[cfg(unix)]
mod ends;
#[cfg(unix)]
mod host;
#[cfg(unix)]
mod limits;
#[cfg(unix)]
mod outcomes;

#[cfg(unix)]
fn main() {
    host::refuse_arguments_if_that_comes_first();
    windlass_worker::process::enter();
    host::be_one_if_asked();
    let arguments = libtest_mimic::Arguments::from_args();
    let all = [outcomes::trials(), limits::trials(), ends::trials(), host::trials()];
    libtest_mimic::run(&arguments, all.into_iter().flatten().collect()).exit();
}

/// There are no commands as handlers, and nothing to test.
#[cfg(not(unix))]
fn main() {}
