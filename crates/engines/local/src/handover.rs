//! Finds the address of the server that owns a directory, for clients that will send it their key.
//!
//! The address is read from the lock file, so another user must not be able to forge it. The file must belong to
//! this user or to root, and other users must not be able to open it, because they could hold its lock while it
//! contains a stale address. The address must be a loopback address.

use crate::lock::{self, FILE_NAME};
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use windlass_core::{Error, Result};

/// Returns the address of the server that owns `dir`, safe to send a key to. `None` if the owner does not listen.
///
/// Errors name the file and the remedy: a lock file that belongs to neither this user nor root, or that other users
/// can open; an address that is not a loopback address.
pub fn server_address(dir: &Path) -> Result<Option<String>> {
    let path = dir.join(FILE_NAME);
    let unread = |error: &std::io::Error| Error::Unavailable {
        store: dir.display().to_string(),
        reason: format!("{} cannot be read: {error}", path.display()),
    };
    let mut file = File::open(&path).map_err(|error| unread(&error))?;
    check_owner(&file, &path)?;
    let owner = lock::read(&mut file).map_err(|error| unread(&error))?;
    let Some(address) = owner.and_then(|owner| owner.address) else { return Ok(None) };
    if is_loopback(&address) {
        return Ok(Some(address));
    }
    let way_out = format!(
        "commands follow a lock file to this machine only, 127.0.0.1 or [::1], because they send their key \
         there; if this is the right server, name it with --store {address}"
    );
    Err(Error::invalid(format!("the address in {}", path.display()), address, way_out))
}

/// Whether a URL names a loopback address. Host names are refused, because name resolution is under the control of
/// others.
fn is_loopback(url: &str) -> bool {
    let place = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let address = place.and_then(|place| place.trim_end_matches('/').parse::<SocketAddr>().ok());
    address.is_some_and(|address| address.ip().is_loopback())
}

#[cfg(unix)]
fn check_owner(file: &File, path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let shown = path.display();
    let seen = file.metadata().map_err(|error| Error::Unavailable {
        store: shown.to_string(),
        reason: error.to_string(),
    })?;
    let (uid, mode) = (seen.uid(), seen.mode() & 0o777);
    let user = rustix::process::geteuid().as_raw();
    if uid != user && uid != 0 {
        let way_out = format!(
            "this command runs as uid {user} and sends its key only to a server of the same user or of \
             root; run it as uid {uid}, or name the server with --store http://HOST:PORT"
        );
        return Err(Error::invalid(format!("the owner of {shown}"), format!("uid {uid}"), way_out));
    }
    if mode & 0o077 != 0 {
        let way_out = format!(
            "other users can hold its lock, so that the address in it need not be the server's; run \
             `chmod 600 {shown}` and restart the server, or name it with --store http://HOST:PORT"
        );
        return Err(Error::invalid(format!("the mode of {shown}"), format!("{mode:04o}"), way_out));
    }
    Ok(())
}

/// Other systems have no owner and mode to check.
#[cfg(not(unix))]
fn check_owner(_: &File, _: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_followed() {
        for good in ["http://127.0.0.1:7474", "https://127.1.2.3:1", "http://[::1]:7474/"] {
            assert!(is_loopback(good), "{good}");
        }
        let bad = [
            "http://10.0.0.1:7474",
            "http://0.0.0.0:7474",
            "http://[::]:7474",
            "http://localhost:7474",
            "http://127.0.0.1.example.org:7474",
            "http://127.0.0.1:7474@example.org:80",
            "http://example.org#127.0.0.1:7474",
            "127.0.0.1:7474",
            "",
        ];
        for bad in bad {
            assert!(!is_loopback(bad), "{bad}");
        }
    }
}
