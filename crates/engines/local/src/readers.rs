//! The thread of those who look: it has a connection of its own and never holds the writer up.

use crate::call::closed;
use crate::rows::Reader;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use windlass_core::{Error, Result};

type Question = Box<dyn FnOnce(&mut Reader) + Send>;

/// A handle on the thread.
pub(crate) struct Readers {
    /// `None` once closed; a lock, because a channel's sender is not shared between threads.
    questions: Mutex<Option<Sender<Question>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Readers {
    pub(crate) fn start(mut reader: Reader) -> Result<Self> {
        let (sender, questions) = channel::<Question>();
        let serve = move || questions.iter().for_each(|question| question(&mut reader));
        let thread = std::thread::Builder::new().name("windlass-reader".into()).spawn(serve);
        let thread = thread.map_err(|error| Error::Unavailable {
            store: "the local store".into(),
            reason: format!("no thread to read: {error}"),
        })?;
        Ok(Self { questions: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// Has a look.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |reader| {
            // Whoever asked may have gone away.
            let _ = reply.send(look(reader));
        });
        let asked = {
            let questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
            questions.as_ref().map(|questions| questions.send(question))
        };
        match asked {
            Some(Ok(())) => answer.await.unwrap_or_else(|_| Err(closed())),
            _ => Err(closed()),
        }
    }

    /// Ends the thread, and its connection with it.
    pub(crate) fn close(&self) {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of it was told already.
            let _ = thread.join();
        }
    }
}
