//! The limit of open files: every connection is one, and shells grant few of them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit as far as the system lets it. What it starts inherits the limit.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, ?current, ?maximum, "cannot raise the limit of open files");
    }
}
