//! The servers that `WINDLASS_KEY` may be sent to. A file in the working directory can come from a stranger, as in
//! a repository that was just cloned, so it must not choose which server gets the user's key.

use super::load::Config;
use anyhow::{Result, bail};
use windlass::Url;

/// The key of the environment.
const KEY_VARIABLE: &str = "WINDLASS_KEY";
/// The servers that it is for; then the client itself sends it to no other.
const KEY_HOST_VARIABLE: &str = "WINDLASS_KEY_HOST";
/// The setting with the store.
const STORE: &str = "store.url";

impl Config {
    /// The store, unless the key of the environment would be sent to a server that only a file in the
    /// working directory names.
    pub(crate) fn store(&self) -> Result<&Url> {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let url = &self.fixed.store.url;
        let Url::Http(text) = url else { return Ok(url) };
        let in_file = self.found && self.is_in_file(STORE);
        if !in_file || !is_set(KEY_VARIABLE) || is_set(KEY_HOST_VARIABLE) || has_key(text) {
            return Ok(url);
        }
        let server = server(text);
        bail!(
            "{KEY_VARIABLE} is not sent to {server}: only {} in the working directory names that server; \
             if the key is for it, set {KEY_HOST_VARIABLE}={server}, or name the server with --store or --config",
            self.source(STORE)
        )
    }
}

/// The host and the port in a URL.
fn server(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// Whether a URL brings a key of its own.
fn has_key(url: &str) -> bool {
    server(url).contains('@')
}
