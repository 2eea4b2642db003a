//! The reader thread: serves reads on a connection of its own, so that they never block the writer.

use crate::call::closed;
use crate::rows::Reader;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use windlass_core::sync::lock;
use windlass_core::{Error, Result};

type Question = Box<dyn FnOnce(&mut Reader) + Send>;

/// A handle to the reader thread.
pub(crate) struct Readers {
    /// `None` once closed. The mutex makes the sender shareable between threads.
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

    /// Runs a read on the reader thread and returns its result.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |reader| {
            // The caller may have dropped its receiver.
            let _ = reply.send(read(reader));
        });
        let asked = {
            let questions = lock(&self.questions);
            questions.as_ref().map(|questions| questions.send(question))
        };
        match asked {
            Some(Ok(())) => answer.await.unwrap_or_else(|_| Err(closed())),
            _ => Err(closed()),
        }
    }

    /// Ends the thread after the pending reads and closes its connection.
    pub(crate) fn close(&self) {
        lock(&self.questions).take();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
