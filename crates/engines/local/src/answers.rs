//! A thread that answers large groups of calls, so that the writer is not held up by waking their
//! callers. Small groups are answered at once: handing them over would cost more than it saves.

use crate::writer::Call;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use windlass_core::Result;
use windlass_core::engine::Epoch;

/// From so many calls on, a group is handed over.
const HAND_OVER_MIN: usize = 8;

type Group = (Vec<Box<dyn Call>>, Result<()>);

/// Answers calls, here or on the thread.
pub(crate) struct Answers {
    epoch: Epoch,
    /// `None` where no thread could be had: then everything is answered here.
    thread: Option<(Sender<Group>, JoinHandle<()>)>,
}

impl Answers {
    pub(crate) fn start(epoch: Epoch) -> Self {
        let (sender, groups): (_, Receiver<Group>) = channel();
        let of_thread = epoch.clone();
        let serve =
            move || groups.iter().for_each(|(group, outcome)| answer(group, &outcome, &of_thread));
        let thread = std::thread::Builder::new().name("windlass-answers".into()).spawn(serve).ok();
        Self { epoch, thread: thread.map(|thread| (sender, thread)) }
    }

    pub(crate) fn give(&self, group: Vec<Box<dyn Call>>, outcome: Result<()>) {
        let handed = match &self.thread {
            Some((sender, _)) if group.len() >= HAND_OVER_MIN => sender.send((group, outcome)),
            _ => return answer(group, &outcome, &self.epoch),
        };
        if let Err(back) = handed {
            let (group, outcome) = back.0;
            answer(group, &outcome, &self.epoch);
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // Without a sender the thread ends, once it has answered what is waiting.
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // A panic of it was told already.
            let _ = thread.join();
        }
    }
}

fn answer(group: Vec<Box<dyn Call>>, outcome: &Result<()>, epoch: &Epoch) {
    for call in group {
        call.answer(outcome.clone(), epoch);
    }
}
