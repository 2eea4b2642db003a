//! Append-only logs: append, read, find a time. Independent of the content of entries.

use crate::records::{one, unexpected};
use bytes::Bytes;
use windlass_core::engine::{Engine, LogEntry, RecordOp, RecordReply};
use windlass_core::{Result, Timestamp};

/// Appends entries and keeps the latest `keep`.
pub(crate) async fn append(
    engine: &dyn Engine,
    log: &str,
    entries: Vec<Bytes>,
    keep: u32,
) -> Result<()> {
    let append = RecordOp::Append { log: log.to_owned(), entries, keep };
    let RecordReply::Appended { .. } = one(engine, append).await?.value else {
        return Err(unexpected(engine));
    };
    Ok(())
}

/// Reads up to `limit` entries after this number.
pub(crate) async fn read(
    engine: &dyn Engine,
    log: &str,
    after: u64,
    limit: u32,
) -> Result<Vec<LogEntry>> {
    let read = RecordOp::Read { log: log.to_owned(), after, limit };
    let RecordReply::Entries(entries) = one(engine, read).await?.value else {
        return Err(unexpected(engine));
    };
    Ok(entries)
}

/// The entry number after which all entries appended at `from` or later follow, in a log of up to `keep`
/// entries. Uses bisection, because logs are read by number only: about 15 reads for the longest log.
pub(crate) async fn seek(
    engine: &dyn Engine,
    log: &str,
    keep: u32,
    from: Timestamp,
) -> Result<u64> {
    let Some(first) = read(engine, log, 0, 1).await?.into_iter().next() else { return Ok(0) };
    if first.at >= from {
        return Ok(first.number - 1);
    }
    // Invariant: the entry at `before` is too old; the one at `found` is not, or does not exist.
    let (mut before, mut found) = (first.number, first.number.saturating_add(keep.into()));
    while before + 1 < found {
        let middle = before + (found - before) / 2;
        match read(engine, log, middle - 1, 1).await?.first() {
            // The middle entry itself may have been dropped meanwhile.
            Some(entry) if entry.at < from => before = entry.number.max(middle),
            _ => found = middle,
        }
    }
    Ok(before)
}

/// The latest entry of a log.
pub(crate) async fn last(engine: &dyn Engine, log: &str, keep: u32) -> Result<Option<LogEntry>> {
    let end = seek(engine, log, keep, Timestamp::MAX).await?;
    Ok(read(engine, log, end.saturating_sub(1), 1).await?.pop())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use windlass_core::random::Seeded;
    use windlass_core::time::ManualClock;
    use windlass_memory::MemoryEngine;

    #[tokio::test]
    async fn a_time_is_found_wherever_a_log_begins_and_ends() {
        const KEEP: u32 = 10;
        let at = Timestamp::from_millis;
        let clock = Arc::new(ManualClock::at(at(0)));
        let engine = MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(1)));
        assert_eq!(seek(&engine, "log", KEEP, at(0)).await.unwrap(), 0);
        assert_eq!(last(&engine, "log", KEEP).await.unwrap(), None);
        for count in 1..=25_i64 {
            clock.set(at(count * 100));
            append(&engine, "log", vec![Bytes::from(vec![0])], KEEP).await.unwrap();
            let kept = (count - 9).max(1);
            for wanted in 0..=count + 1 {
                let after = seek(&engine, "log", KEEP, at(wanted * 100)).await.unwrap();
                let expected = (wanted.max(kept) - 1).min(count);
                assert_eq!(after.cast_signed(), expected, "{wanted} of {kept}..={count}");
            }
            let latest = last(&engine, "log", KEEP).await.unwrap().unwrap();
            assert_eq!(latest.number.cast_signed(), count);
        }
    }
}
