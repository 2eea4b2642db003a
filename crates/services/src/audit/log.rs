//! Where actions are kept and how they are found: a log of the store, bounded by count and by age, read
//! from its end. It must not know what the actions mean.

use super::action::Action;
use crate::logs;
use crate::records::encode;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Engine, Stamped};
use windlass_core::limits::{PAGE_DEFAULT, PAGE_MAX};
use windlass_core::time::DAY_MS;
use windlass_core::{Result, Timestamp, within_range};

/// The log's name.
pub(super) const LOG: &str = "audit";
/// Actions that are kept.
const KEEP: u32 = 20_000;
/// For how long they are kept.
const KEEP_MS: u64 = 365 * DAY_MS;
/// How often the old ones are looked for.
const TRIM_EVERY: Duration = Duration::from_secs(60 * 60);
/// How often something is told that programs repeat all the time.
const RARELY: Duration = Duration::from_secs(60 * 60);
/// How many such things are remembered.
const TOLD_MAX: usize = 1_000;
/// Entries that one page looks at: a rare filter gives short pages, not slow ones.
const LOOKED_AT_MAX: u64 = 5 * PAGE_MAX as u64;

/// The audit log of a store. Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_memory::MemoryEngine;
/// use windlass_services::{Action, Audit, AuditQuery, Principal};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let engine = Arc::new(MemoryEngine::new());
/// let audit = Audit::new(engine);
/// let mut action = Action::new(&Principal::anybody(), "queue.configure");
/// action.target("mail", true);
/// audit.append(vec![action]).await?;
///
/// let page = audit.read(&AuditQuery::default()).await?.value;
/// assert_eq!(page.rows[0].action.targets, ["mail"]);
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Audit {
    engine: Arc<dyn Engine>,
    /// When the old ones were looked for last.
    trimmed: Arc<Mutex<Option<Instant>>>,
    /// What is done all the time, and when it was told last.
    told: Arc<Mutex<HashMap<(String, String), Instant>>>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}

/// Which actions to show, the latest first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Of whom, by the name or the id of the key.
    pub who: Option<String>,
    /// Those whose name is this, or begins with this and a dot: `job`, `job.cancel`.
    pub action: Option<String>,
    /// To what, exactly.
    pub target: Option<String>,
    /// Not older than this.
    pub from: Option<Timestamp>,
    /// Older than the action with this number: the `next` of the page before.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: u32,
}

impl Default for AuditQuery {
    fn default() -> Self {
        let (who, action, target, from, before) = (None, None, None, None, None);
        Self { who, action, target, from, before, limit: PAGE_DEFAULT }
    }
}

impl AuditQuery {
    fn fits(&self, action: &Action) -> bool {
        let is = |wanted: &Option<String>, fits: &dyn Fn(&str) -> bool| {
            wanted.as_deref().is_none_or(fits)
        };
        is(&self.who, &|who| action.who == who || action.key.as_deref() == Some(who))
            && is(&self.action, &|wanted| {
                let rest = action.action.strip_prefix(wanted);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
            && is(&self.target, &|target| action.targets.iter().any(|it| it == target))
    }
}

/// An action in the log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditRow {
    /// Its number; they rise without gaps.
    pub number: u64,
    /// When it was done, by the store's clock.
    pub at: Timestamp,
    /// What was done.
    pub action: Action,
}

/// A page of actions, the latest first.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditPage {
    /// The actions; a page may be short, even empty.
    pub rows: Vec<AuditRow>,
    /// Where to go on ([`AuditQuery::before`]); `None` is the end.
    pub next: Option<u64>,
}

impl Audit {
    /// The audit log of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, trimmed: Arc::default(), told: Arc::default() }
    }

    /// Keeps these actions.
    pub async fn append(&self, actions: Vec<Action>) -> Result<()> {
        if actions.is_empty() {
            return Ok(());
        }
        let entries = actions.iter().map(encode).collect::<Result<Vec<_>>>()?;
        let keep = if self.trim_is_due() { self.young().await? } else { KEEP };
        let added = u32::try_from(entries.len()).unwrap_or(KEEP);
        let keep = keep.saturating_add(added).clamp(1, KEEP);
        logs::append(&*self.engine, LOG, entries, keep).await
    }

    /// Keeps an action that programs repeat all the time: once an hour for each who does it.
    pub(super) async fn append_rarely(&self, action: Action) -> Result<()> {
        let name = (action.who.clone(), action.action.clone());
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.get(&name).is_some_and(|at| at.elapsed() < RARELY) {
                return Ok(());
            }
            if told.len() >= TOLD_MAX {
                told.clear();
            }
            told.insert(name, Instant::now());
        }
        self.append(vec![action]).await
    }

    fn trim_is_due(&self) -> bool {
        let mut trimmed = self.trimmed.lock().unwrap_or_else(PoisonError::into_inner);
        let due = trimmed.is_none_or(|at| at.elapsed() >= TRIM_EVERY);
        if due {
            *trimmed = Some(Instant::now());
        }
        due
    }

    /// How many actions are young enough to be kept.
    async fn young(&self) -> Result<u32> {
        let now = self.engine.health().await?.now;
        let old = logs::seek(&*self.engine, LOG, KEEP, now.minus(KEEP_MS)).await?;
        let last = logs::last(&*self.engine, LOG, KEEP).await?.map_or(0, |entry| entry.number);
        Ok(u32::try_from(last.saturating_sub(old)).unwrap_or(KEEP))
    }

    /// A page of actions.
    pub async fn read(&self, query: &AuditQuery) -> Result<Stamped<AuditPage>> {
        within_range("limit", query.limit.into(), 1..=PAGE_MAX.into())?;
        let stamp = self.engine.health().await?;
        let oldest = stamp.now.minus(KEEP_MS);
        let from = query.from.map_or(oldest, |from| from.max(oldest));
        let mut before = match query.before {
            Some(before) => before,
            None => {
                let last = logs::last(&*self.engine, LOG, KEEP).await?;
                last.map_or(0, |entry| entry.number).saturating_add(1)
            }
        };
        let stop = before.saturating_sub(LOOKED_AT_MAX);
        let mut rows = Vec::new();
        while before > stop.max(1) {
            let after = before.saturating_sub(1 + u64::from(PAGE_MAX)).max(stop.saturating_sub(1));
            let limit = u32::try_from(before - 1 - after).unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX);
            let entries = logs::read(&*self.engine, LOG, after, limit).await?;
            for entry in entries.into_iter().rev().filter(|entry| entry.number < before) {
                if entry.at < from {
                    return Ok(stamp.map(|()| AuditPage { rows, next: None }));
                }
                // One that a later version wrote and this one cannot read is passed over.
                let Ok(action) = serde_json::from_slice::<Action>(&entry.value) else { continue };
                if query.fits(&action) {
                    let (number, at) = (entry.number, entry.at);
                    rows.push(AuditRow { number, at, action });
                    if rows.len() == query.limit as usize {
                        let next = (number > 1).then_some(number);
                        return Ok(stamp.map(|()| AuditPage { rows, next }));
                    }
                }
            }
            before = after + 1;
        }
        let next = (before > 1).then_some(before);
        Ok(stamp.map(|()| AuditPage { rows, next }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Principal;
    use windlass_core::engine::{Admin as _, RecordOp, RecordReply};
    use windlass_core::random::Seeded;
    use windlass_core::time::ManualClock;
    use windlass_memory::MemoryEngine;

    fn action(name: &str, target: &str) -> Action {
        let mut action = Action::new(&Principal::anybody(), name);
        action.target(target, true);
        action
    }

    async fn all(audit: &Audit, mut query: AuditQuery) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            let page = audit.read(&query).await.unwrap().value;
            found.extend(page.rows.into_iter().map(|row| row.action.targets[0].clone()));
            query.before = page.next;
            if page.next.is_none() {
                return found;
            }
        }
    }

    #[tokio::test]
    async fn actions_are_found_from_the_latest_page_by_page_and_by_filter() {
        let audit = Audit::new(Arc::new(MemoryEngine::new()));
        assert!(all(&audit, AuditQuery::default()).await.is_empty());
        for n in 0..25 {
            let name = if n % 5 == 0 { "job.cancel" } else { "job.cancelled" };
            audit.append(vec![action(name, &n.to_string())]).await.unwrap();
        }
        let query = AuditQuery { limit: 7, ..AuditQuery::default() };
        let expected: Vec<String> = (0..25).rev().map(|n| n.to_string()).collect();
        assert_eq!(all(&audit, query.clone()).await, expected);
        let cancels = AuditQuery { action: Some("job.cancel".into()), ..query.clone() };
        assert_eq!(all(&audit, cancels).await, ["20", "15", "10", "5", "0"]);
        let target = AuditQuery { target: Some("3".into()), ..query.clone() };
        assert_eq!(all(&audit, target).await, ["3"]);
        let nobody = AuditQuery { who: Some("eve".into()), ..query };
        assert!(all(&audit, nobody).await.is_empty());
    }

    #[tokio::test]
    async fn what_is_older_than_a_year_goes_with_the_next_action() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let engine = Arc::new(MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(1))));
        Audit::new(engine.clone())
            .append(vec![action("a", "old"), action("a", "older")])
            .await
            .unwrap();
        clock.advance(KEEP_MS / 2);
        Audit::new(engine.clone()).append(vec![action("a", "young")]).await.unwrap();
        clock.advance(KEEP_MS / 2 + 1);
        Audit::new(engine.clone()).append(vec![action("a", "new")]).await.unwrap();
        let read = RecordOp::Read { log: LOG.to_owned(), after: 0, limit: 10 };
        let kept = engine.records(vec![read]).await.unwrap().value.remove(0).unwrap();
        let RecordReply::Entries(kept) = kept else { panic!("{kept:?}") };
        assert_eq!(kept.iter().map(|entry| entry.number).collect::<Vec<_>>(), [3, 4]);
    }
}
