//! A connection that listens to a channel.

use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// Longer than a notification takes.
const LONG: Duration = Duration::from_secs(15);

/// Receives notifications sent after it was created.
pub(crate) struct Listener {
    pub(crate) client: Client,
    heard: UnboundedReceiver<String>,
}

impl Listener {
    pub(crate) async fn at(url: &str, channel: &str) -> Self {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.expect("connects");
        let (tell, heard) = unbounded_channel();
        tokio::spawn(async move {
            loop {
                let next = std::future::poll_fn(|context| connection.poll_message(context)).await;
                match next {
                    Some(Ok(AsyncMessage::Notification(reported))) => {
                        let _ = tell.send(reported.payload().to_owned());
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                }
            }
        });
        client.batch_execute(&format!("LISTEN {channel}")).await.expect("listens");
        Self { client, heard }
    }

    /// Waits for a matching payload; returns the payloads before it.
    pub(crate) async fn hear(&mut self, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let next = tokio::time::timeout(LONG, self.heard.recv()).await.expect("it is heard");
            let payload = next.expect("the connection lives");
            if is_it(&payload) {
                return before;
            }
            before.push(payload);
        }
    }

    /// Waits for this payload; what was heard before it.
    pub(crate) async fn until(&mut self, payload: &str) -> Vec<String> {
        self.hear(|heard| heard == payload).await
    }
}
