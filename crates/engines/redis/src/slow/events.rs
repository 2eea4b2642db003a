//! Writes the events of a run, and begins and ends streams.
//!
//! A commit is one call, so the server numbers the events in it: the next id of a stream. Nothing of a stream is read by
//! writers, and so writers have no conflicts over it.

use crate::conn::error::Try;
use crate::conn::script::Commands;
use crate::rows::event;
use crate::slow::transaction::{Transaction, WorkingSet};
use std::collections::BTreeMap;
use windlass_core::engine::EventSpan;
use windlass_core::model::{EventBounds, Name};
use windlass_core::sync::lock;

/// The field of an entry.
const FIELD: &[u8] = b"e";

/// Adds the events of a run, and notes the queues whose readers have news.
pub(super) fn save_events(
    transaction: &Transaction<'_>,
    set: &WorkingSet<'_>,
    writes: &mut Commands,
) -> Try<()> {
    let (keys, known) = (transaction.keys, &transaction.settings.event_starts);
    let mut begun: BTreeMap<&Name, u64> = BTreeMap::new();
    let mut news = lock(&transaction.news);
    news.clear();
    for (queue, now, is_on) in set.event_resets() {
        writes.push("UNLINK", &keys.events(queue), &[]);
        if is_on {
            // Starts of one queue rise, and so no two of its streams have the same.
            let last = known.get(queue);
            let last = last.map(|start| EventSpan { start: *start, dropped: *start, last: *start });
            let start = EventSpan::begin(now, last).start;
            let args = [queue.as_bytes(), &start.to_string().into_bytes()];
            writes.push("HSET", &keys.one("event_start"), &args);
            begun.insert(queue, start);
        }
        news.insert(queue.clone());
    }
    let bounds: BTreeMap<&Name, Option<EventBounds>> = set
        .changed_queues()
        .map(|(queue, settings)| (queue, settings.and_then(|settings| settings.events)))
        .collect();
    for (queue, appended) in set.appended_events() {
        let of_queue = bounds.get(queue).copied();
        let Some(bounds) = of_queue.unwrap_or_else(|| set.base().settings_of(queue).events) else {
            continue;
        };
        let Some(start) = begun.get(queue).or_else(|| known.get(queue)) else { continue };
        let (most, id) = (bounds.max.to_string(), format!("{start}-*"));
        let entry = event::encode(queue, appended)?;
        let args: [&[u8]; 6] =
            [b"MAXLEN", b"=", most.as_bytes(), id.as_bytes(), FIELD, entry.as_slice()];
        writes.push("XADD", &keys.events(queue), &args);
        if !news.contains(queue) {
            news.insert(queue.clone());
        }
    }
    Ok(())
}
