//! Users for commands with a process limit. The system counts processes per user and does not limit root: a
//! root host runs each command as a separate user, and any other host counts from its user's current
//! processes.

use super::USERS;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;

/// A user reserved for a command; released when dropped.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) uid: u32,
    /// The reservation, visible to other workers on this machine.
    _claim: Option<UnixDatagram>,
}

/// Reserves a user that no other command of any worker has; `None` if all are in use.
pub(super) fn lend() -> Option<Lent> {
    let busy: HashSet<u32> = processes().map(|(uid, _)| uid).collect();
    // Each process starts at a different id, because processes in other containers do not see its
    // reservations.
    let first = std::process::id() % (USERS.end - USERS.start);
    let all = (USERS.start + first..USERS.end).chain(USERS.start..USERS.start + first);
    let mut free = all.filter(|uid| !busy.contains(uid));
    free.find_map(|uid| Some(Lent { uid, _claim: claim(uid).ok()? }))
}

/// Reserves a user against all workers on this machine, by binding an abstract socket name: only one process
/// can have it, and it is released when that process dies.
#[cfg(target_os = "linux")]
fn claim(uid: u32) -> io::Result<Option<UnixDatagram>> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::SocketAddr;
    let name = SocketAddr::from_abstract_name(format!("windlass-user-{uid}"))?;
    UnixDatagram::bind_addr(&name).map(Some)
}

/// Other systems have no abstract socket names; checking that the user has no processes must suffice.
#[cfg(not(target_os = "linux"))]
fn claim(_: u32) -> io::Result<Option<UnixDatagram>> {
    Ok(None)
}

/// Current number of processes and threads of a user.
pub(super) fn tasks_of(uid: u32) -> u64 {
    let tasks = |process: fs::DirEntry| fs::read_dir(process.path().join("task"));
    let theirs = processes().filter(|(owner, _)| *owner == uid);
    theirs.map(|(_, process)| tasks(process).map_or(0, |tasks| tasks.count() as u64)).sum()
}

/// All visible processes with their users.
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
