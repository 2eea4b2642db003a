//! Memory budgets by purpose of a request. Workers have budgets separate from producers and
//! operators, so that load from the latter cannot block reports and heartbeats and cost workers
//! their leases.

use crate::access;
use crate::access::table::Needs;
use crate::app::App;
use crate::reply::Refusal;
use crate::room::{Client, Full, Reservation, Room};
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{Extensions, Method};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use std::sync::{Arc, Mutex};
use windlass_core::Error;
use windlass_core::model;
use windlass_core::sync::lock;
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Replies up to this size are not counted: one per connection fits in memory anyway.
const SMALL_BYTES: u64 = 16 * 1024;
/// Memory per batch item beyond its text: the parsed wire type and the engine's type.
const ITEM_BYTES: usize = size_of::<wire::NewJob>() + size_of::<model::NewJob>();
/// Memory per lease in a heartbeat, or per queue or kind in a claim.
const NAME_BYTES: usize = 128;
/// Maximum number of items kept from one request: a full batch and the follow-ups of a full settle.
const ITEMS_MAX: usize = 21_000;

/// The purpose of a request, which selects its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Sessions, heartbeats and claims of workers: small requests.
    Work,
    /// Reports of workers on their jobs.
    Report,
    /// All other requests.
    Other,
}

impl Purpose {
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        match path {
            paths::SESSIONS | paths::SESSION | paths::HEARTBEAT | paths::CLAIM | paths::WAIT => {
                Self::Work
            }
            paths::SETTLE | paths::UPDATE => Self::Report,
            paths::JOB_PART if *method == Method::PUT => Self::Report,
            _ => Self::Other,
        }
    }
}

/// The memory budget of one purpose.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    purpose: Purpose,
    /// For bodies while they are received.
    pub(crate) bodies: Room,
    /// For parsed requests, until they are answered.
    read: Room,
    /// For replies, until clients have read them.
    replies: Room,
}

impl Budget {
    fn new(purpose: Purpose, bytes_max: usize) -> Self {
        // Workers often share one key, and these requests are small: one client may use the whole
        // budget.
        let share = if purpose == Purpose::Work { 1 } else { 2 };
        let room = |bytes: usize| Room::new(bytes, bytes / share);
        let [bodies, read, replies] = [bytes_max, bytes_max / 2, bytes_max / 2].map(room);
        Self { purpose, bodies, read, replies }
    }

    /// Estimates the memory for the parsed form of this text.
    fn cost(&self, text: &[u8]) -> usize {
        let items = items(text, self.purpose);
        text.len()
            + match self.purpose {
                Purpose::Work => NAME_BYTES * items,
                Purpose::Report | Purpose::Other => ITEM_BYTES * items.min(ITEMS_MAX),
            }
    }
}

/// The memory budgets of all purposes.
#[derive(Debug)]
pub(crate) struct Budgets {
    work: Budget,
    report: Budget,
    other: Budget,
}

impl Budgets {
    /// Budgets with `bytes_max` bytes of bodies for each purpose.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let budget = |purpose| Budget::new(purpose, bytes_max);
        Self {
            work: budget(Purpose::Work),
            report: budget(Purpose::Report),
            other: budget(Purpose::Other),
        }
    }

    fn of(&self, purpose: Purpose) -> &Budget {
        match purpose {
            Purpose::Work => &self.work,
            Purpose::Report => &self.report,
            Purpose::Other => &self.other,
        }
    }
}

/// The memory that one request holds until its reply is built. Stored in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) budget: Budget,
    pub(crate) client: Client,
    read: Arc<Mutex<Option<Reservation>>>,
}

impl Held {
    fn new(app: &App, request: &Request) -> Self {
        let path = request.extensions().get::<MatchedPath>();
        let path = path.map_or("", MatchedPath::as_str);
        let budget = app.budgets.of(Purpose::of(request.method(), path)).clone();
        Self { budget, client: Client::of(request.extensions()), read: Arc::default() }
    }

    /// Returns the accounting of a request, or a new one with the budget for other requests.
    pub(crate) fn by(app: &App, extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_else(|| Self {
            budget: app.budgets.of(Purpose::Other).clone(),
            client: Client::of(extensions),
            read: Arc::default(),
        })
    }

    /// Estimates the memory for the parsed form of this text.
    pub(crate) fn cost(&self, text: &[u8]) -> usize {
        self.budget.cost(text)
    }

    /// Reserves memory for a parsed request.
    pub(crate) async fn take(&self, cost: usize) -> Result<(), Refusal> {
        let taken = self.budget.read.take(self.client.clone(), cost).await;
        let taken = taken.map_err(|full| busy(full, "requests"))?;
        *lock(&self.read) = Some(taken);
        Ok(())
    }

    /// Reserves memory for the reply; it is released when the client has read all of it.
    async fn account(&self, response: Response) -> Response {
        let size = response.body().size_hint().exact().unwrap_or_default();
        if size <= SMALL_BYTES {
            return response;
        }
        let taken = self.budget.replies.take(self.client.clone(), size as usize).await;
        let taken = match taken {
            Ok(taken) => taken,
            Err(full) => return busy(full, "replies").into_response(),
        };
        let (head, body) = response.into_parts();
        // Replies have complete bodies, so this neither waits nor copies.
        let bytes = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => return busy(Full, "replies").into_response(),
        };
        let bytes = Bytes::from_owner(Owned { bytes, _taken: taken });
        Response::from_parts(head, Body::from(bytes))
    }
}

/// The bytes of a reply with their memory reservation.
struct Owned {
    bytes: Bytes,
    _taken: Reservation,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Middleware that accounts for the memory of a request and its reply.
///
/// Routes without authorization have small requests and shared replies, and are not counted.
pub(crate) async fn account(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if access::needs_of(&request) == Needs::Nothing {
        return next.run(request).await;
    }
    let held = Held::new(&app, &request);
    request.extensions_mut().insert(held.clone());
    let response = next.run(request).await;
    held.account(response).await
}

/// The error for a request when no memory is available.
pub(crate) fn busy(_: Full, what: &str) -> Refusal {
    ::metrics::counter!("windlass_server_refused_total", "why" => "memory").increment(1);
    let reason = format!("its memory for {what} is full; try again, with smaller batches");
    Refusal::from(Error::Unavailable { store: "this server".to_owned(), reason })
}

/// Upper bound of the items in a text: objects in an array in an object and, in reports, their
/// follow-ups.
fn items(text: &[u8], purpose: Purpose) -> usize {
    let inner = if purpose == Purpose::Report { 5 } else { 3 };
    let (mut depth, mut count, mut in_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                count += usize::from(*byte == b'{' && (depth == 3 || depth == inner));
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_and_what_is_inside_their_payloads_is_not() {
        let count = |text: &str, purpose| items(text.as_bytes(), purpose);
        let jobs = r#"{"jobs": [{"kind": "a", "payload": {"b": {"c": "\"{[{"}}}, {"kind": "{"}]}"#;
        assert_eq!(count(jobs, Purpose::Other), 2);
        let settle = r#"{"items": [{"id": "", "follow_ups": [{"kind": "x"}, {"kind": "y"}]}]}"#;
        assert_eq!(count(settle, Purpose::Report), 3);
        assert_eq!(count("]}{", Purpose::Other), 0);
    }

    #[test]
    fn reports_and_signs_of_life_have_memory_of_their_own() {
        let purpose = |path| Purpose::of(&Method::POST, path);
        assert_eq!(purpose(paths::HEARTBEAT), Purpose::Work);
        assert_eq!(purpose(paths::SETTLE), Purpose::Report);
        assert_eq!(purpose(paths::JOBS_BATCH), Purpose::Other);
        assert_eq!(Purpose::of(&Method::GET, paths::JOB_PART), Purpose::Other);
        assert_eq!(Purpose::of(&Method::PUT, paths::JOB_PART), Purpose::Report);
    }
}
