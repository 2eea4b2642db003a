//! Whom a command runs as when its processes are counted. The system counts processes by user, and not
//! those of root: so root lends each command a user of its own, and others count from what they have.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex, PoisonError};

/// Users nobody else has: the range that systemd keeps for users made up on the spot.
const LENT: Range<u32> = 61_184..65_520;

/// The users that can be lent. Cheap to clone; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Users(Arc<Mutex<Pool>>);

#[derive(Debug)]
struct Pool {
    /// The next to try: the one that was lent last comes last, when all that it left is long gone.
    next: u32,
    /// Those of this process.
    lent: HashSet<u32>,
}

/// A user lent to a command, given back when dropped.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) uid: u32,
    users: Users,
    _claim: Option<UnixDatagram>,
}

impl Users {
    /// All of them. Each process begins elsewhere, as those in other containers do not see its claims.
    pub(crate) fn new() -> Self {
        let next = LENT.start + std::process::id() % (LENT.end - LENT.start);
        Self(Arc::new(Mutex::new(Pool { next, lent: HashSet::new() })))
    }

    /// A user that no other command of any worker has; `None` when all are lent.
    pub(crate) fn lend(&self) -> Option<Lent> {
        let busy: HashSet<u32> = processes().map(|(uid, _)| uid).collect();
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in LENT {
            let uid = pool.next;
            pool.next = if uid + 1 < LENT.end { uid + 1 } else { LENT.start };
            if pool.lent.contains(&uid) || busy.contains(&uid) {
                continue;
            }
            if let Ok(claim) = claim(uid) {
                pool.lent.insert(uid);
                return Some(Lent { uid, users: self.clone(), _claim: claim });
            }
        }
        None
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut pool = self.users.0.lock().unwrap_or_else(PoisonError::into_inner);
        pool.lent.remove(&self.uid);
    }
}

/// Claims a user before all other workers on this host: a name that one process can have at a time, and
/// that is free when it dies.
#[cfg(target_os = "linux")]
fn claim(uid: u32) -> std::io::Result<Option<UnixDatagram>> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::SocketAddr;
    let name = SocketAddr::from_abstract_name(format!("windlass-user-{uid}"))?;
    UnixDatagram::bind_addr(&name).map(Some)
}

/// Elsewhere there are no such names; that a user has no processes must do.
#[cfg(not(target_os = "linux"))]
fn claim(_: u32) -> std::io::Result<Option<UnixDatagram>> {
    Ok(None)
}

/// How many processes and threads a user has at present.
pub(crate) fn tasks_of(uid: u32) -> u64 {
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
    fn no_user_is_lent_twice_at_a_time_by_whatever_worker() {
        // Two pools are two workers, but for the process; both begin with the same user.
        let (ours, theirs) = (Users::new(), Users::new());
        let lent: Vec<_> = [&ours, &theirs, &theirs, &ours].map(|it| it.lend().unwrap()).into();
        let uids: HashSet<u32> = lent.iter().map(|it| it.uid).collect();
        assert_eq!(uids.len(), lent.len(), "{uids:?}");
    }

    #[test]
    fn a_user_that_was_given_back_is_lent_again() {
        let users = Users::new();
        let first = users.lend().unwrap().uid;
        users.0.lock().unwrap().next = first;
        assert_eq!(users.lend().unwrap().uid, first);
    }

    #[test]
    fn the_tasks_of_a_user_are_counted_with_their_threads() {
        let uid = rustix::process::getuid().as_raw();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        assert!(tasks_of(uid) >= 2);
        drop(stop);
        thread.join().unwrap().unwrap_err();
    }
}
