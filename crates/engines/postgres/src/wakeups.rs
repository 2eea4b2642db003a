//! Wake-ups between processes: `NOTIFY` when something may have become claimable, debounced and outside of
//! every transaction, and `LISTEN` on a connection of its own that does nothing else. Both are hints: who
//! waits looks by himself now and then, and is only slower while this is down.

use crate::conn::CONNECT_TIMEOUT;
use crate::schema::Schema;
use futures_util::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

/// Between two notifications, however much is enqueued.
const NOTIFY_EVERY: Duration = Duration::from_millis(5);
/// Before the first attempt to come back, and before later ones.
const COME_BACK: Duration = Duration::from_millis(100);
const COME_BACK_MAX: Duration = Duration::from_secs(10);

/// Tells, and is told, that something may have become claimable.
pub(crate) struct Wakeups {
    /// Rises with each wake-up, from here or elsewhere; waiters watch it.
    readied: watch::Sender<u64>,
    /// Somebody here has something to tell the others.
    told: Arc<Notify>,
    channel: String,
    task: JoinHandle<()>,
}

impl Wakeups {
    /// Begins to listen; comes back by itself whenever the connection is lost.
    pub(crate) fn start(config: Config, schema: &Schema) -> Self {
        let readied = watch::Sender::new(0);
        let told = Arc::new(Notify::new());
        let channel = channel(schema);
        let listening = listen(config, channel.clone(), readied.clone(), Arc::clone(&told));
        Self { readied, told, channel, task: tokio::spawn(listening) }
    }

    /// Something may have become claimable.
    pub(crate) fn wake(&self) {
        self.readied.send_modify(|count| *count += 1);
        self.told.notify_one();
    }

    /// Where processes of this schema tell each other.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// Sees every wake-up from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.readied.subscribe()
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The channel of a schema: names may be longer than a channel's.
pub(crate) fn channel(schema: &Schema) -> String {
    let hash = schema.name().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("windlass_{hash:016x}")
}

async fn listen(config: Config, channel: String, readied: watch::Sender<u64>, told: Arc<Notify>) {
    let mut pause = COME_BACK;
    loop {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, config.connect(NoTls)).await;
        if let Ok(Ok((client, mut connection))) = connecting {
            let told = Arc::clone(&told);
            let telling = tokio::spawn(tell(client, channel.clone(), told));
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(_))) => {
                        readied.send_modify(|count| *count += 1);
                        pause = COME_BACK;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                }
            }
            telling.abort();
        }
        tracing::debug!("not listening for wake-ups; workers look by themselves meanwhile");
        tokio::time::sleep(pause).await;
        pause = COME_BACK_MAX.min(pause * 2);
    }
}

/// Listens, and passes on what there is to tell, at most so often.
async fn tell(client: Client, channel: String, told: Arc<Notify>) {
    if client.batch_execute(&format!("LISTEN {channel}")).await.is_err() {
        return;
    }
    let notify = format!("NOTIFY {channel}");
    loop {
        told.notified().await;
        if client.batch_execute(&notify).await.is_err() {
            return;
        }
        tokio::time::sleep(NOTIFY_EVERY).await;
    }
}
