//! Stored events: JSON without what follows from the place of the event.

use serde::{Deserialize, Serialize};
use windlass_core::engine::{Event, EventFields};
use windlass_core::machine::EventKind;
use windlass_core::model::{Finish, Name, State};
use windlass_core::{JobId, Timestamp};
use windlass_workset::codec::{self, Damaged, Decoded};

/// An event in the stream of a queue.
#[derive(Debug, Serialize, Deserialize)]
struct Stored<'a> {
    job: JobId,
    /// The queue of the job after the transition, if it is not the queue of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Name>,
    kind: Name,
    number: u32,
    #[serde(borrow)]
    event: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    at: i64,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Finish>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Encodes an event of the stream of a queue.
pub(crate) fn encode(stream: &Name, event: &Event) -> Decoded<Vec<u8>> {
    let EventFields { job, queue, kind, number, event, state, at, attempt, reason, error } =
        event.clone().into();
    let queue = Some(queue).filter(|queue| queue != stream);
    let (event, at) = (event.name().into(), at.as_millis());
    let stored = Stored { job, queue, kind, number, event, state, at, attempt, reason, error };
    Ok(codec::json(&stored)?.into_bytes())
}

/// Decodes an event of the stream of a queue.
pub(crate) fn decode(stream: &Name, stored: &[u8]) -> Decoded<Event> {
    let stored: Stored<'_> =
        serde_json::from_slice(stored).map_err(|error| Damaged::new(&error))?;
    let Stored { job, queue, kind, number, event, state, at, attempt, reason, error } = stored;
    let known = EventKind::named(&event);
    let event = known.ok_or_else(|| Damaged::new(&format_args!("event {event:?}")))?;
    let queue = queue.unwrap_or_else(|| stream.clone());
    let at = Timestamp::from_millis(at);
    let event = EventFields { job, queue, kind, number, event, state, at, attempt, reason, error };
    Ok(event.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_back() {
        let fields = EventFields {
            job: JobId::from_bytes([7; 16]),
            queue: "mail".into(),
            kind: "send".into(),
            number: 3,
            event: EventKind::Move,
            state: Some(State::Dead),
            at: Timestamp::from_millis(5),
            attempt: 2,
            reason: Some(Finish::ReplacedBy(JobId::from_bytes([8; 16]))),
            error: Some("smtp_451".to_owned()),
        };
        let event: Event = fields.into();
        for stream in ["mail", "other"].map(Name::from) {
            let stored = encode(&stream, &event).unwrap();
            assert_eq!(decode(&stream, &stored).unwrap(), event);
        }
        assert!(decode(&"mail".into(), b"{}").is_err());
    }
}
