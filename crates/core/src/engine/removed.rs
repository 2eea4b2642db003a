//! The history of removed jobs: how many, by hour, queue, kind, tenant and outcome.

use super::{Cursor, Page};
use crate::error::{Error, Result, within_range};
use crate::growing::growing;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX, REMOVED_TENANTS_MAX};
use crate::model::{Header, Name, State};
use crate::name::check_name;
use crate::time::{HOUR_MS, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The tenant under which jobs of all further tenants are counted once an hour has
/// [`REMOVED_TENANTS_MAX`] tenants of a queue and kind. Jobs of a tenant with this name are counted there, too.
pub const OTHER_TENANT: &str = "other";

/// What removed jobs are counted by. Ordered as the history is listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct RemovedKey {
    /// The beginning of the hour in which they were removed, by the store's clock.
    pub hour: Timestamp,
    /// Their queue.
    pub queue: Name,
    /// Their kind.
    pub kind: Name,
    /// Their tenant; `None` for jobs without one, [`OTHER_TENANT`] for tenants beyond the limit.
    pub tenant: Option<String>,
    /// The state in which they ended.
    pub outcome: State,
}

impl RemovedKey {
    /// A key for jobs that are removed at `at`.
    pub fn new(
        at: Timestamp,
        queue: Name,
        kind: Name,
        tenant: Option<String>,
        outcome: State,
    ) -> Self {
        Self { hour: hour(at), queue, kind, tenant, outcome }
    }

    /// The key of a job that ended in `outcome` and is removed at `now`.
    pub fn of(header: &Header, outcome: State, now: Timestamp) -> Self {
        let Header { queue, kind, tenant, .. } = header;
        Self::new(now, queue.clone(), kind.clone(), tenant.clone(), outcome)
    }

    /// Encodes the key as the position after its row.
    pub fn cursor(&self) -> Cursor {
        let Self { hour, queue, kind, tenant, outcome } = self;
        let (hour, outcome) = (hour.as_millis(), *outcome as u8);
        let tenant = tenant.as_deref().unwrap_or_default();
        Cursor::new(format!("{hour},{outcome},{queue},{kind},{tenant}"))
    }

    /// Decodes a position.
    pub fn at(cursor: &Cursor) -> Result<Self> {
        let bad = || Error::invalid("after", cursor, "use the `next` of a page of this history");
        let mut parts = cursor.as_str().splitn(5, ',');
        let mut part = || parts.next().ok_or_else(bad);
        let hour = part()?.parse().map_err(|_| bad())?;
        let outcome: usize = part()?.parse().map_err(|_| bad())?;
        let outcome = *State::ALL.get(outcome).ok_or_else(bad)?;
        let (queue, kind, tenant) = (part()?.into(), part()?.into(), part()?);
        let tenant = (!tenant.is_empty()).then(|| tenant.to_owned());
        Ok(Self { hour: Timestamp::from_millis(hour), queue, kind, tenant, outcome })
    }
}

/// The beginning of the hour of `at`.
fn hour(at: Timestamp) -> Timestamp {
    let ms = at.as_millis();
    Timestamp::from_millis(ms - ms.rem_euclid(HOUR_MS.cast_signed()))
}

growing! {
    /// A number of removed jobs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RemovedCount as RemovedCountFields {
        /// What they have in common.
        pub key: RemovedKey,
        /// Number of jobs.
        pub count: u64,
    }
}

/// The tenant under which a removed job is counted. `tenants` returns whether the hour has the tenant already for the
/// queue and kind, and how many it has, without [`OTHER_TENANT`].
pub fn tenant_of_removed(
    tenant: Option<&str>,
    tenants: impl FnOnce(&str) -> Result<(bool, usize)>,
) -> Result<Option<&str>> {
    let Some(name) = tenant.filter(|name| *name != OTHER_TENANT) else { return Ok(tenant) };
    let (is_known, count) = tenants(name)?;
    Ok(Some(if is_known || count < REMOVED_TENANTS_MAX { name } else { OTHER_TENANT }))
}

/// The history of removed jobs of a store that keeps it in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedTable(BTreeMap<RemovedKey, u64>);

impl RemovedTable {
    /// Counts removed jobs.
    pub fn add(&mut self, mut key: RemovedKey, count: u64) {
        let tenants = |tenant: &str| {
            let lane = self.0.range(RemovedKey { tenant: None, ..key.clone() }..);
            let same = |it: &RemovedKey| {
                (it.hour, &it.queue, &it.kind) == (key.hour, &key.queue, &key.kind)
            };
            let names = lane.map(|(it, _)| it).take_while(|it| same(it));
            let names =
                names.filter_map(|it| it.tenant.as_deref()).filter(|it| *it != OTHER_TENANT);
            let names: BTreeSet<&str> = names.collect();
            Ok((names.contains(tenant), names.len()))
        };
        if let Ok(Some(tenant)) = tenant_of_removed(key.tenant.as_deref(), tenants) {
            key.tenant = Some(tenant.to_owned());
        }
        *self.0.entry(key).or_default() += count;
    }

    /// Returns a page.
    pub fn page(&self, query: &RemovedQuery) -> Result<Page<RemovedCount>> {
        let (place, first, limit) = (query.place()?, query.first_hour(), query.limit as usize);
        let start = place.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.0.range((start, Bound::Unbounded)).filter(|(key, _)| {
            key.hour >= first && query.queue.as_ref().is_none_or(|queue| key.queue == *queue)
        });
        let rows = rows.map(|(key, count)| RemovedCount::new(key.clone(), *count));
        Ok(RemovedCount::page(rows.take(limit + 1).collect(), limit))
    }

    /// Deletes up to `limit` rows of hours that ended at `before` or earlier.
    pub fn forget(&mut self, before: Timestamp, limit: usize) {
        let old = self.0.keys().take_while(|key| key.hour.plus(HOUR_MS) <= before);
        let old: Vec<RemovedKey> = old.take(limit).cloned().collect();
        for key in old {
            self.0.remove(&key);
        }
    }
}

impl RemovedCount {
    /// This number of removed jobs.
    pub const fn new(key: RemovedKey, count: u64) -> Self {
        Self { key, count }
    }

    /// A page of `limit` rows, from these and the first one after them.
    pub fn page(mut rows: Vec<Self>, limit: usize) -> Page<Self> {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| row.key.cursor());
        Page::new(rows, next)
    }
}

/// A request for a page of the history of removed jobs, oldest hour first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemovedQuery {
    /// Only hours that end after this time.
    pub from: Timestamp,
    /// Only jobs of this queue.
    pub queue: Option<Name>,
    /// The cursor of the previous page; `None` starts at the beginning.
    pub after: Option<Cursor>,
    /// Maximum number of rows.
    pub limit: u32,
}

impl Default for RemovedQuery {
    fn default() -> Self {
        Self { from: Timestamp::EPOCH, queue: None, after: None, limit: PAGE_DEFAULT }
    }
}

impl RemovedQuery {
    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        within_range("limit", self.limit.into(), 1..=PAGE_MAX.into())?;
        self.place()?;
        self.queue.as_ref().map_or(Ok(()), |queue| check_name("queue", queue))
    }

    /// The row after which the page begins.
    pub fn place(&self) -> Result<Option<RemovedKey>> {
        self.after.as_ref().map(RemovedKey::at).transpose()
    }

    /// The beginning of the first hour that is wanted.
    pub fn first_hour(&self) -> Timestamp {
        hour(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let at = Timestamp::from_millis(7_200_001);
        for tenant in [None, Some("a, b,,c".to_owned())] {
            let key = RemovedKey::new(at, "q".into(), "k".into(), tenant, State::Dead);
            assert_eq!(key.hour.as_millis(), 7_200_000);
            assert_eq!(RemovedKey::at(&key.cursor()).unwrap(), key);
        }
        for bad in ["", "1,2,q", "x,1,q,k,t", "1,99,q,k,t"] {
            let error = RemovedKey::at(&Cursor::new(bad)).unwrap_err();
            assert_eq!(error.field(), Some("after"), "{bad:?}");
        }
    }

    #[test]
    fn tenants_beyond_the_limit_are_counted_together() {
        let of = |tenant: Option<&'static str>, known, count| {
            tenant_of_removed(tenant, |_| Ok((known, count))).unwrap()
        };
        assert_eq!(of(Some("a"), false, REMOVED_TENANTS_MAX - 1), Some("a"));
        assert_eq!(of(Some("a"), true, REMOVED_TENANTS_MAX), Some("a"));
        assert_eq!(of(Some("a"), false, REMOVED_TENANTS_MAX), Some(OTHER_TENANT));
        assert_eq!(of(None, false, REMOVED_TENANTS_MAX), None);
        assert_eq!(of(Some(OTHER_TENANT), false, REMOVED_TENANTS_MAX), Some(OTHER_TENANT));
        let mut table = RemovedTable::default();
        for n in 0..2 * REMOVED_TENANTS_MAX {
            let tenant = Some(format!("t{}", n % (REMOVED_TENANTS_MAX + 5)));
            let key =
                RemovedKey::new(Timestamp::EPOCH, "q".into(), "k".into(), tenant, State::Dead);
            table.add(key, 1);
        }
        let query = RemovedQuery { limit: PAGE_MAX, ..RemovedQuery::default() };
        let rows = table.page(&query).unwrap().rows;
        assert_eq!(rows.len(), REMOVED_TENANTS_MAX + 1);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 2 * REMOVED_TENANTS_MAX as u64);
    }
}
