//! Storage and queries of the audit log: one record per action, bounded by age and per principal, read from
//! the latest on. Independent of the meaning of actions.

use super::action::Action;
use super::entry::{PREFIX, SWEPT_KEY, at, id, id_of};
use super::sweep::{Bounds, sweep};
use crate::records::{encode, get, list, put, unexpected};
use bytes::Bytes;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Cursor, Engine, Expect, Record, RecordOp, RecordReply, Stamped};
use windlass_core::limits::{PAGE_DEFAULT, PAGE_MAX};
use windlass_core::sync::lock;
use windlass_core::{Error, Result, Timestamp, within_range};

/// Interval at which an action that programs repeat continuously is logged.
const RARELY: Duration = Duration::from_secs(60 * 60);
/// Maximum number of such actions that are remembered.
const REPORTED_MAX: usize = 1_000;
/// Maximum number of record pages read per page of actions: a selective filter returns short pages, not slow
/// ones.
const PAGES_MAX: usize = 5;
/// Separates the two parts of a cursor.
const SEAM: char = '~';

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
/// let mut action = Action::new(&Principal::anonymous(), "queue.configure");
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
    bounds: Bounds,
    /// Entries added by this process since its last sweep.
    added: Arc<AtomicUsize>,
    /// Actions that programs repeat continuously, and when each was last logged.
    reported: Arc<Mutex<HashMap<(String, String), Instant>>>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}

/// A query of the audit log, latest action first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Only actions of this principal, by the name or the id of its key.
    pub who: Option<String>,
    /// Only actions with this name, or with names that begin with it and a dot: `job`, `job.cancel`.
    pub action: Option<String>,
    /// Only actions on this target (exact match).
    pub target: Option<String>,
    /// Only actions at this time or later.
    pub from: Option<Timestamp>,
    /// Only actions before this time.
    pub until: Option<Timestamp>,
    /// The cursor of the next page: the `next` of the previous page.
    pub after: Option<String>,
    /// Maximum number of actions.
    pub limit: u32,
}

impl Default for AuditQuery {
    fn default() -> Self {
        let (who, action, target, after) = (None, None, None, None);
        Self { who, action, target, from: None, until: None, after, limit: PAGE_DEFAULT }
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

    /// Number of records to read at a time: with a filter, most of them may not match.
    const fn page(&self) -> u32 {
        match (&self.who, &self.action, &self.target) {
            (None, None, None) => self.limit,
            _ => PAGE_MAX,
        }
    }
}

/// An action in the log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditRow {
    /// Its id in the log.
    pub id: String,
    /// When it was done, by the store's clock.
    pub at: Timestamp,
    /// The action.
    pub action: Action,
}

/// A page of actions, the latest first.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditPage {
    /// The actions. A page may be short or even empty.
    pub rows: Vec<AuditRow>,
    /// The cursor of the next page ([`AuditQuery::after`]); `None` means the end.
    pub next: Option<String>,
}

/// A position in the log: a page of records, and the last entry of it that was returned.
#[derive(Clone, Debug, Default)]
struct Place {
    page: Option<Cursor>,
    seen: Option<String>,
}

impl Place {
    fn parse(text: &str) -> Result<Self> {
        let bad = || Error::invalid("after", text, "use the `next` of a page of this list");
        let (seen, page) = text.split_once(SEAM).ok_or_else(bad)?;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        if some(seen).is_some_and(|seen| at(&seen).is_none()) {
            return Err(bad());
        }
        Ok(Self { page: some(page).map(Cursor::new), seen: some(seen) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page.as_ref().map_or("", Cursor::as_str);
        write!(f, "{}{SEAM}{page}", self.seen.as_deref().unwrap_or_default())
    }
}

impl Audit {
    /// The audit log of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, bounds: Bounds::DEFAULT, added: Arc::default(), reported: Arc::default() }
    }

    /// Appends actions to the log.
    pub async fn append(&self, actions: Vec<Action>) -> Result<()> {
        if actions.is_empty() {
            return Ok(());
        }
        let swept = get(&*self.engine, SWEPT_KEY).await?;
        self.write(&actions, swept.now).await?;
        let added = self.added.fetch_add(actions.len(), Ordering::Relaxed) + actions.len();
        let late = |record: &Record| swept.now.since(record.updated_at) >= self.bounds.every_ms;
        if added >= self.bounds.added || swept.value.as_ref().is_none_or(late) {
            self.added.store(0, Ordering::Relaxed);
            self.sweep(swept).await?;
        }
        Ok(())
    }

    /// Appends an action that programs repeat continuously: once per hour for each principal.
    pub(super) async fn append_rarely(&self, action: Action) -> Result<()> {
        let name = (action.who.clone(), action.action.clone());
        {
            let mut reported = lock(&self.reported);
            if reported.get(&name).is_some_and(|at| at.elapsed() < RARELY) {
                return Ok(());
            }
            if reported.len() >= REPORTED_MAX {
                reported.clear();
            }
            reported.insert(name, Instant::now());
        }
        self.append(vec![action]).await
    }

    async fn write(&self, actions: &[Action], now: Timestamp) -> Result<()> {
        let put = |action: &Action| {
            let key = format!("{PREFIX}{}", id(now));
            Ok(RecordOp::Put { key, value: encode(action)?, expect: Expect::Absent })
        };
        let puts = actions.iter().map(put).collect::<Result<Vec<_>>>()?;
        let answers = self.engine.records(puts).await?.value;
        if answers.len() != actions.len() {
            return Err(unexpected(&*self.engine));
        }
        answers.into_iter().collect::<Result<Vec<RecordReply>>>().map(|_| ())
    }

    /// Deletes entries beyond the bounds, unless another process has started a sweep since `swept` was read.
    async fn sweep(&self, swept: Stamped<Option<Record>>) -> Result<()> {
        let expect = swept.value.map_or(Expect::Absent, |it| Expect::Version(it.version));
        match put(&*self.engine, SWEPT_KEY, Bytes::from_static(b"{}"), expect).await {
            Ok(_) => {}
            Err(Error::VersionConflict { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let notes = sweep(&*self.engine, self.bounds, swept.now).await?;
        match notes.is_empty() {
            true => Ok(()),
            false => self.write(&notes, swept.now).await,
        }
    }

    /// Returns one page of actions.
    pub async fn read(&self, query: &AuditQuery) -> Result<Stamped<AuditPage>> {
        within_range("limit", query.limit.into(), 1..=PAGE_MAX.into())?;
        let stamp = self.engine.health().await?;
        let oldest = stamp.now.minus(self.bounds.age_ms);
        let from = query.from.map_or(oldest, |from| from.max(oldest));
        let mut place = query.after.as_deref().map(Place::parse).transpose()?.unwrap_or_default();
        let mut rows = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = list(&*self.engine, PREFIX, place.page.clone(), query.page()).await?.value;
            for record in page.rows {
                let id = id_of(&record.key);
                if place.seen.as_deref().is_some_and(|seen| id <= seen) {
                    continue;
                }
                let Some(at) = at(id) else { continue };
                if at < from {
                    return Ok(stamp.map(|()| AuditPage { rows, next: None }));
                }
                if rows.len() == query.limit as usize {
                    let next = Some(place.to_string());
                    return Ok(stamp.map(|()| AuditPage { rows, next }));
                }
                place.seen = Some(id.to_owned());
                // Entries of a later version that cannot be parsed are skipped.
                let Ok(action) = serde_json::from_slice::<Action>(&record.value) else { continue };
                if query.until.is_none_or(|until| at < until) && query.fits(&action) {
                    rows.push(AuditRow { id: id.to_owned(), at, action });
                }
            }
            place.page = page.next;
            if place.page.is_none() {
                return Ok(stamp.map(|()| AuditPage { rows, next: None }));
            }
        }
        let next = Some(place.to_string());
        Ok(stamp.map(|()| AuditPage { rows, next }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Principal;
    use windlass_core::random::Seeded;
    use windlass_core::time::ManualClock;
    use windlass_memory::MemoryEngine;

    fn action(who: &str, name: &str, target: &str) -> Action {
        let mut action = Action::new(&Principal::direct(who), name);
        action.target(target, true);
        action
    }

    async fn all(audit: &Audit, mut query: AuditQuery) -> Vec<Action> {
        let mut found = Vec::new();
        loop {
            let page = audit.read(&query).await.unwrap().value;
            assert!(page.rows.len() <= query.limit as usize);
            found.extend(page.rows.into_iter().map(|row| row.action));
            query.after = page.next;
            if query.after.is_none() {
                return found;
            }
        }
    }

    async fn targets(audit: &Audit, query: AuditQuery) -> Vec<String> {
        all(audit, query).await.into_iter().map(|action| action.targets[0].clone()).collect()
    }

    #[tokio::test]
    async fn actions_are_found_from_the_latest_page_by_page_and_by_filter() {
        let audit = Audit::new(Arc::new(MemoryEngine::new()));
        assert!(all(&audit, AuditQuery::default()).await.is_empty());
        for n in 0..25 {
            let name = if n % 5 == 0 { "job.cancel" } else { "job.cancelled" };
            audit.append(vec![action("ada", name, &n.to_string())]).await.unwrap();
        }
        let query = AuditQuery { limit: 7, ..AuditQuery::default() };
        let expected: Vec<String> = (0..25).rev().map(|n| n.to_string()).collect();
        assert_eq!(targets(&audit, query.clone()).await, expected);
        let cancels =
            AuditQuery { action: Some("job.cancel".into()), limit: 2, ..AuditQuery::default() };
        assert_eq!(targets(&audit, cancels).await, ["20", "15", "10", "5", "0"]);
        let target = AuditQuery { target: Some("3".into()), ..query.clone() };
        assert_eq!(targets(&audit, target).await, ["3"]);
        let unknown = AuditQuery { who: Some("eve".into()), ..query.clone() };
        assert!(all(&audit, unknown).await.is_empty());
        for bad in ["", "7", "x~", "~~"] {
            let query = AuditQuery { after: Some(bad.into()), ..query.clone() };
            assert!(audit.read(&query).await.is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn entries_are_kept_for_a_year_and_go_with_the_next_action() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let engine = Arc::new(MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(1))));
        let audit = Audit::new(engine.clone());
        let year = Bounds::DEFAULT.age_ms;
        let old = vec![action("ada", "a", "old"), action("ada", "a", "older")];
        audit.append(old).await.unwrap();
        clock.advance(year / 2);
        audit.append(vec![action("ada", "a", "young")]).await.unwrap();
        clock.advance(year / 2 + 1);
        audit.append(vec![action("ada", "a", "new")]).await.unwrap();
        let kept = list(&*engine, PREFIX, None, PAGE_MAX).await.unwrap().value.rows;
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!(targets(&audit, AuditQuery::default()).await, ["new", "young"]);
    }

    #[tokio::test]
    async fn no_principal_can_flush_what_others_did_and_what_was_dropped_is_counted() {
        let engine = Arc::new(MemoryEngine::new());
        let mut audit = Audit::new(engine.clone());
        audit.bounds = Bounds { each: 50, all: 70, added: 10, ..Bounds::DEFAULT };
        let by = |who: &str| AuditQuery { who: Some(who.into()), ..AuditQuery::default() };
        audit.append((0..3).map(|n| action("ada", "a", &n.to_string())).collect()).await.unwrap();
        for n in 0..1_000 {
            audit.append(vec![action("mallory", "a", &n.to_string())]).await.unwrap();
        }
        assert_eq!(targets(&audit, by("ada")).await, ["2", "1", "0"]);
        let left = all(&audit, by("mallory")).await;
        assert!(left.len() <= 50 + 10, "{}", left.len());
        let (notes, left): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|it| it.action == "audit.dropped");
        assert_eq!(left[0].targets, ["999"], "the oldest go first");
        let dropped: u64 = notes.iter().map(|note| note.count).sum();
        assert_eq!(dropped + left.len() as u64, 1_000, "{notes:?}");
        // The bound on all entries also holds: principals with the most entries lose theirs first.
        for n in 0..20 {
            let flood = (0..10).map(|_| action(&format!("m{n}"), "a", "x")).collect();
            audit.append(flood).await.unwrap();
        }
        assert_eq!(targets(&audit, by("ada")).await, ["2", "1", "0"]);
        let kept = list(&*engine, PREFIX, None, PAGE_MAX).await.unwrap().value.rows.len();
        assert!(kept <= 70 + 10 + 21, "{kept}");
    }
}
