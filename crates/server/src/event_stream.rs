//! A stream of server-sent events: reads pages of events and sends them as the client reads.
//!
//! At most one page waits to be sent, so a slow client slows down its own reads. It is disconnected if it takes nothing for
//! [`PATIENCE`]; it then resumes from its last id, and learns of a gap if it was too slow.

use crate::access::Who;
use crate::app::App;
use crate::reply::Reply;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::body::Frame;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use windlass_core::engine::{EventsReply, EventsRequest};
use windlass_core::{Error, Result};
use windlass_wire::{self as wire, Problem};

/// Readers that wait for events at a time, in streams and long polls.
pub(crate) const READERS_MAX: usize = 256;
/// Interval of comments on a stream without events.
const HEARTBEAT_MS: u64 = 15_000;
/// Events per read.
const PAGE: u32 = 100;
/// How long a client may take to read a page.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes a place for a reader that waits for events.
pub(crate) fn place(readers: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    readers.clone().try_acquire_owned().map_err(|_| Error::Unavailable {
        store: "this server".to_owned(),
        reason: format!(
            "{READERS_MAX} readers wait for events already: share a stream, or try again"
        ),
    })
}

/// Answers with a stream that begins where the request says.
pub(crate) async fn open(app: App, who: Who, request: EventsRequest) -> Reply {
    let request = request.limit(PAGE).wait_ms(0);
    request.check()?;
    let place = place(&app.event_readers)?;
    // Errors of the first read are answered as usual.
    let first = app.call(app.engine.events(request.clone())).await?.value;
    let (sender, receiver) = mpsc::channel(1);
    let stream = Stream { app, who, sender, _place: place };
    tokio::spawn(stream.run(request, first));
    let mut response = Response::new(Body::new(Pages(receiver)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that buffer replies, such as nginx, would delay events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The sending side of a stream.
struct Stream {
    app: App,
    who: Who,
    sender: mpsc::Sender<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl Stream {
    async fn run(self, mut request: EventsRequest, first: EventsReply) {
        let mut page = Ok(first);
        loop {
            let (text, next) = match page {
                Ok(page) => (text(&page), Some(page.next)),
                Err(error) => (problem(error), None),
            };
            let sent = tokio::time::timeout(PATIENCE, self.sender.send(text.into())).await;
            let (Ok(Ok(())), Some(next)) = (sent, next) else { return };
            request = request.after(next).wait_ms(HEARTBEAT_MS);
            page = match self.next(&request).await {
                Some(page) => page,
                None => return,
            };
        }
    }

    /// The next page; `None` if the client has left, the server stops, or the key was revoked.
    async fn next(&self, request: &EventsRequest) -> Option<Result<EventsReply>> {
        let mut keys = self.app.access.watch();
        loop {
            let engine = &self.app.engine;
            let read = self.app.call_within(engine.events(request.clone()), request.wait_ms);
            tokio::select! {
                biased;
                () = self.app.stopping.cancelled() => return None,
                () = self.sender.closed() => return None,
                _ = keys.changed() => self.app.access.still(&self.who.0).await.ok()?,
                page = read => return Some(page.map(|reply| reply.value)),
            }
        }
    }
}

/// A page as messages. The last line is the position after it, which a client keeps even without a message.
fn text(page: &EventsReply) -> String {
    let mut text = String::new();
    if page.gap {
        text.push_str("event: gap\ndata: {}\n\n");
    }
    for entry in &page.events {
        let event = wire::Event::from(entry.clone());
        let json = String::from_utf8_lossy(&wire::write(&event)).into_owned();
        let _ = write!(text, "id: {}\ndata: {json}\n\n", entry.cursor);
    }
    if page.events.is_empty() {
        let _ = write!(text, ": waiting\nid: {}\n\n", page.next);
    }
    text
}

/// The error that ends a stream.
fn problem(error: Error) -> String {
    let problem = wire::write(&Problem::new(error));
    format!("event: problem\ndata: {}\n\n", String::from_utf8_lossy(&problem))
}

/// The body of the reply.
struct Pages(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|page| page.map(|bytes| Ok(Frame::data(bytes))))
    }
}
