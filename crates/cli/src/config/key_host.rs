//! Restricts the servers to which `WINDLASS_KEY` is sent. A file in the working directory may be untrusted,
//! e.g. in a repository that was just cloned, so it must not choose the server that gets the user's key.

use super::load::Config;
use anyhow::{Result, bail};
use windlass::Url;

/// Environment variable with the access key.
const KEY_VARIABLE: &str = "WINDLASS_KEY";
/// Environment variable with the servers that the key is for. If it is set, the client sends the key to no
/// other server.
const KEY_HOST_VARIABLE: &str = "WINDLASS_KEY_HOST";
/// Key of the setting with the store's URL.
const STORE: &str = "store.url";

impl Config {
    /// The URL of the store. Fails if the key in the environment would be sent to a server that only a file in
    /// the working directory names.
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

/// The authority part of a URL: host and port, and credentials if there are any.
fn server(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// Whether a URL contains its own key.
fn has_key(url: &str) -> bool {
    server(url).contains('@')
}
