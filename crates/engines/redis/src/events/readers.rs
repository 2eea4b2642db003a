//! Readers of events that wait in this process, by queue.

use std::collections::HashMap;
use std::sync::Mutex;
use tokio::sync::watch;
use windlass_core::model::Name;
use windlass_core::sync::lock;

/// A sender for each queue that has readers.
#[derive(Default)]
pub(crate) struct Readers {
    queues: Mutex<HashMap<Name, watch::Sender<()>>>,
}

impl Readers {
    /// Wakes the readers of a queue.
    pub(crate) fn wake(&self, queue: &Name) {
        let mut queues = lock(&self.queues);
        if queues.get(queue).is_some_and(|readers| readers.send(()).is_err()) {
            queues.remove(queue);
        }
    }

    /// A receiver of all wake-ups from now on.
    pub(crate) fn watch(&self, queue: &Name) -> watch::Receiver<()> {
        let mut queues = lock(&self.queues);
        queues.retain(|_, readers| !readers.is_closed());
        queues.entry(queue.clone()).or_insert_with(|| watch::Sender::new(())).subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_woken_for_its_queue_and_forgotten_when_it_is_gone() {
        let readers = Readers::default();
        let (mail, other) = ("mail".into(), "other".into());
        let reader = readers.watch(&mail);
        readers.wake(&other);
        assert!(!reader.has_changed().unwrap());
        readers.wake(&mail);
        assert!(reader.has_changed().unwrap());
        drop(reader);
        drop(readers.watch(&other));
        readers.wake(&other);
        drop(readers.watch(&other));
        assert_eq!(lock(&readers.queues).len(), 1, "mail was forgotten");
    }
}
