//! Events of queues that record them: reading a page, waiting for one, and dropping old events.
//!
//! The stream of a queue is a Redis stream. Commits append to it (`slow/events.rs`), and Redis numbers and bounds it. An
//! id is `START-N`: the start of the stream, and how many events it had before. Only a prefix is ever deleted, so the
//! number of the last dropped event follows from the last id and the length.

mod page;
pub(crate) mod readers;
mod trim;

use crate::conn::error::{Trouble, Try, corrupt};
use crate::conn::malformed;
use crate::conn::script::Replies;
use crate::rows::event;
use crate::rows::small;
use redis::Value;
use windlass_core::engine::{Event, EventSpan};
use windlass_core::model::Name;

/// The numbers of a stream that begins at `start`, from the reply to `SPAN`.
fn span(start: u64, replies: &Replies, at: usize) -> Try<EventSpan> {
    let fields = replies.members(at)?;
    let [length, id] = fields[..] else {
        return Ok(EventSpan { start, dropped: start, last: start });
    };
    let length: u64 = small::text(length)?.parse().map_err(|error| bad(&error))?;
    let last = number(start, id)?;
    Ok(EventSpan { start, dropped: last.saturating_sub(length), last })
}

/// The number of the event with this id.
fn number(start: u64, id: &[u8]) -> Try<u64> {
    let parts = small::text(id)?.split_once('-');
    let (of, before) = parts.ok_or_else(|| bad(&"an id without a number"))?;
    if of != start.to_string() {
        // The stream was begun anew meanwhile.
        return Err(Trouble::Conflict);
    }
    let before: u64 = before.parse().map_err(|error| bad(&error))?;
    Ok(start + before + 1)
}

/// The events of a reply to `XRANGE`, each with its number.
fn entries(queue: &Name, start: u64, reply: Option<&Value>) -> Try<Vec<(u64, Event)>> {
    let Some(Value::Array(entries)) = reply else { return Err(malformed()) };
    let entry = |entry: &Value| {
        let Value::Array(parts) = entry else { return Err(malformed()) };
        let [Value::BulkString(id), Value::Array(fields)] = &parts[..] else {
            return Err(malformed());
        };
        let Some(Value::BulkString(stored)) = fields.get(1) else { return Err(malformed()) };
        Ok((number(start, id)?, event::decode(queue, stored)?))
    };
    entries.iter().map(entry).collect()
}

fn bad(reason: &dyn std::fmt::Display) -> Trouble {
    corrupt(&format_args!("a stream of events: {reason}")).into()
}
