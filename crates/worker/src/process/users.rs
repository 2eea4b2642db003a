//! Whom a command runs as when its processes are counted. The system counts processes by user, and not
//! those of root: so root lends each command a user of its own, and others count from what they have.

use super::USERS;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;

/// A user lent to a command, given back when dropped.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) uid: u32,
    /// Keeps others from it.
    _claim: Option<UnixDatagram>,
}

/// Lends a user that no other command of any worker has; `None` when all are lent.
pub(super) fn lend() -> Option<Lent> {
    let busy: HashSet<u32> = processes().map(|(uid, _)| uid).collect();
    // Each process begins elsewhere, as those in other containers do not see its claims.
    let first = std::process::id() % (USERS.end - USERS.start);
    let all = (USERS.start + first..USERS.end).chain(USERS.start..USERS.start + first);
    let mut free = all.filter(|uid| !busy.contains(uid));
    free.find_map(|uid| Some(Lent { uid, _claim: claim(uid).ok()? }))
}

/// Claims a user before all other workers on this host: a name that one process can have at a time, and
/// that is free when it dies.
#[cfg(target_os = "linux")]
fn claim(uid: u32) -> io::Result<Option<UnixDatagram>> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::SocketAddr;
    let name = SocketAddr::from_abstract_name(format!("windlass-user-{uid}"))?;
    UnixDatagram::bind_addr(&name).map(Some)
}

/// Elsewhere there are no such names; that a user has no processes must do.
#[cfg(not(target_os = "linux"))]
fn claim(_: u32) -> io::Result<Option<UnixDatagram>> {
    Ok(None)
}

/// How many processes and threads a user has at present.
pub(super) fn tasks_of(uid: u32) -> u64 {
    let tasks = |process: fs::DirEntry| fs::read_dir(process.path().join("task"));
    let theirs = processes().filter(|(owner, _)| *owner == uid);
    theirs.map(|(_, process)| tasks(process).map_or(0, |tasks| tasks.count() as u64)).sum()
}

/// The processes that can be seen, with their users.
fn processes() -> impl Iterator<Item = (u32, fs::DirEntry)> {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(move |it| it.file_name().to_str().is_some_and(is_number))
        .filter_map(|it| Some((it.metadata().ok()?.uid(), it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn no_user_is_lent_twice_at_a_time_and_each_again_once_given_back() {
        let lent: Vec<_> = (0..4).map(|_| lend().unwrap()).collect();
        let uids: HashSet<u32> = lent.iter().map(|it| it.uid).collect();
        assert_eq!(uids.len(), lent.len(), "{uids:?}");
        let first = lent[0].uid;
        claim(first).unwrap_err();
        drop(lent);
        claim(first).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_tasks_of_a_user_are_counted_with_their_threads() {
        let uid = rustix::process::getuid().as_raw();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        assert!(tasks_of(uid) >= 2);
        drop(stop);
        thread.join().unwrap().unwrap_err();
    }
}
