//! Makes commits durable and sends the replies to their calls.
//!
//! SQLite writes a commit to its log without a sync. The syncer thread syncs the log while the writer executes the
//! next transaction; all commits made during one sync share the next one. A reply is sent only after all durable
//! commits before it are on the disk, and replies keep the order of the commits. If no other call is pending, the
//! writer syncs and replies itself, because switching threads would cost more than it saves.

use crate::call::{Call, Needs};
use crate::log::Log;
use crate::writer::Tally;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use windlass_core::engine::Epoch;
use windlass_core::{Error, Result};

/// Groups of at least this many calls always go to the syncer thread: waking their callers takes long enough for
/// other calls to arrive.
const HAND_OVER_MIN: usize = 8;

/// Groups that may queue behind the one being synced. More would not be answered sooner, and calls that queue up
/// for the writer instead form one larger group.
const AHEAD_MAX: usize = 1;

/// Calls that were executed in one transaction, or failed with it.
pub(crate) struct Group {
    pub(crate) calls: Vec<Box<dyn Call>>,
    pub(crate) needs: Needs,
    pub(crate) outcome: Result<()>,
}

/// The writer's handle to the syncer thread.
pub(crate) struct Syncer {
    state: Arc<State>,
    thread: Option<(SyncSender<Group>, JoinHandle<()>)>,
}

/// State shared by the writer and the syncer thread.
struct State {
    log: Log,
    epoch: Epoch,
    tally: Arc<Tally>,
    /// Groups that were sent to the thread and are not answered yet.
    waiting: AtomicUsize,
    /// Whether there was a commit since the last sync began.
    written: AtomicBool,
    /// Whether a sync has ever failed. The content of the disk is unknown then, and a second sync would not report
    /// the loss: the store must be opened again.
    failed: AtomicBool,
}

impl Syncer {
    pub(crate) fn start(log: Log, epoch: Epoch, tally: Arc<Tally>) -> Result<Self> {
        let (waiting, written, failed) = Default::default();
        let state = Arc::new(State { log, epoch, tally, waiting, written, failed });
        let (sender, groups) = sync_channel(AHEAD_MAX);
        let serve = {
            let state = Arc::clone(&state);
            move || state.serve(&groups)
        };
        let thread = std::thread::Builder::new().name("windlass-syncer".into()).spawn(serve);
        let thread = thread.map_err(|error| unavailable(&format!("no thread to sync: {error}")))?;
        Ok(Self { state, thread: Some((sender, thread)) })
    }

    /// Fails if a sync has failed before, because commits can no longer be made durable.
    pub(crate) fn check(&self) -> Result<()> {
        match self.state.failed.load(Ordering::Acquire) {
            true => Err(unavailable("the disk failed to take what was written; open it anew")),
            false => Ok(()),
        }
    }

    /// Records a commit: the next group that must be durable is synced.
    pub(crate) fn note_written(&self) {
        self.state.written.store(true, Ordering::Release);
    }

    /// Replies to a group after its guarantee is met; on the syncer thread if the writer is `busy`.
    pub(crate) fn give(&self, group: Group, busy: bool) {
        let busy = busy || group.calls.len() >= HAND_OVER_MIN;
        match &self.thread {
            // Earlier groups are answered first, so this one queues behind them.
            Some((sender, _)) if busy || self.state.waiting.load(Ordering::Acquire) > 0 => {
                self.state.waiting.fetch_add(1, Ordering::AcqRel);
                // The thread outlives this handle, so the send cannot fail.
                let _ = sender.send(group);
            }
            _ => self.state.answer(vec![group]),
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        // Without a sender, the thread answers the pending groups and ends.
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl State {
    fn serve(&self, groups: &Receiver<Group>) {
        while let Ok(first) = groups.recv() {
            let mut all = vec![first];
            all.extend(groups.try_iter());
            let count = all.len();
            self.answer(all);
            self.waiting.fetch_sub(count, Ordering::AcqRel);
        }
    }

    fn answer(&self, groups: Vec<Group>) {
        let durable = |group: &Group| group.needs == Needs::Durable && group.outcome.is_ok();
        let synced = match groups.iter().any(durable) {
            true => self.sync(),
            false => Ok(()),
        };
        for Group { calls, outcome, .. } in groups {
            let outcome = outcome.and_then(|()| synced.clone());
            for call in calls {
                call.answer(outcome.clone(), &self.epoch);
            }
        }
    }

    /// Syncs the log, unless nothing was committed since the last sync.
    fn sync(&self) -> Result<()> {
        if !self.written.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.tally.syncs.fetch_add(1, Ordering::Relaxed);
        self.log.sync().map_err(|error| {
            self.failed.store(true, Ordering::Release);
            unavailable(&format!("the disk failed to take what was written: {error}"))
        })
    }
}

fn unavailable(reason: &str) -> Error {
    Error::Unavailable { store: "the local store".into(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::LocalExecutor;
    use std::sync::mpsc::Sender;
    use windlass_core::Timestamp;

    /// A call that reports whether its reply was a success.
    struct Reported(usize, Sender<(usize, bool)>);

    impl Call for Reported {
        fn needs(&self) -> Needs {
            Needs::Durable
        }

        fn adds_jobs(&self) -> bool {
            false
        }

        fn run(&mut self, _: &mut LocalExecutor<'_>, _: Timestamp) {}

        fn answer(self: Box<Self>, outcome: Result<()>, _: &Epoch) {
            let _ = self.1.send((self.0, outcome.is_ok()));
        }
    }

    fn start(log: &str) -> Syncer {
        let log = Log::of_file(log).unwrap();
        Syncer::start(log, Epoch::new("e"), Arc::default()).unwrap()
    }

    fn group(sender: &Sender<(usize, bool)>, number: usize, needs: Needs) -> Group {
        Group { calls: vec![Box::new(Reported(number, sender.clone()))], needs, outcome: Ok(()) }
    }

    #[test]
    fn groups_are_answered_in_order_wherever_they_are() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let syncer = start(file.path().to_str().unwrap());
        let (sender, reported) = std::sync::mpsc::channel();
        for number in 0..100 {
            let needs = if number % 3 == 0 { Needs::Durable } else { Needs::Read };
            syncer.note_written();
            syncer.give(group(&sender, number, needs), number % 2 == 0);
        }
        drop((syncer, sender));
        assert_eq!(
            reported.iter().collect::<Vec<_>>(),
            (0..100).map(|n| (n, true)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_disk_that_failed_to_sync_is_not_trusted_again() {
        // A device that cannot be synced.
        let syncer = start("/dev/null");
        let (sender, reported) = std::sync::mpsc::channel();
        syncer.check().unwrap();
        // Without a commit there is nothing to sync, so this succeeds.
        syncer.give(group(&sender, 1, Needs::Durable), false);
        syncer.note_written();
        syncer.give(group(&sender, 2, Needs::Written), false);
        syncer.check().unwrap();
        syncer.give(group(&sender, 3, Needs::Durable), true);
        for (number, durable) in [(1, true), (2, true), (3, false)] {
            assert_eq!(reported.recv(), Ok((number, durable)));
        }
        let error = syncer.check().unwrap_err().to_string();
        assert!(error.contains("open it anew"), "{error}");
    }
}
