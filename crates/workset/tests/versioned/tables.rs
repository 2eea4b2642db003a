//! The tables of the store, and the versions of their rows.

use std::collections::{BTreeMap, HashMap};
use windlass_core::JobId;
use windlass_core::engine::{RemovedKey, RemovedTable, SessionId};
use windlass_core::model::{KindSettings, Name, QueueSettings};
use windlass_executor::{Entry, SessionEntry, UniqueHold, UniqueSlot};
use windlass_workset::Tenant;

/// A row, or a range of rows, whose version a transaction depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Row {
    Job(JobId),
    Unique(UniqueSlot),
    /// The holder and the line of an ordering key.
    Line(Name, String),
    /// A session and its leases.
    Session(SessionId),
    /// The lanes of a queue.
    Lanes(Name),
    /// The number of waiting jobs in a queue.
    Depth(Name),
    /// The turns of a fair queue.
    Turns(Name),
    Settings,
}

/// A write of a transaction.
pub(super) enum Write {
    Job(JobId, Option<Box<Entry>>),
    Unique(UniqueSlot, Option<UniqueHold>),
    /// The holder of an ordering key, which the jobs must agree with.
    Holder(Name, String, Option<JobId>),
    Session(SessionId, Option<SessionEntry>),
    Queue(Name, Option<QueueSettings>),
    Kind(Name, Option<KindSettings>),
    Turn(Tenant, i64),
    Served(Name, i64),
    Removed(RemovedKey, u64),
}

#[derive(Default)]
pub(super) struct Tables {
    versions: HashMap<Row, u64>,
    pub(super) jobs: BTreeMap<JobId, Entry>,
    pub(super) uniques: HashMap<UniqueSlot, UniqueHold>,
    pub(super) sessions: BTreeMap<SessionId, SessionEntry>,
    pub(super) queues: BTreeMap<Name, QueueSettings>,
    pub(super) kinds: BTreeMap<Name, KindSettings>,
    pub(super) turns: HashMap<Tenant, i64>,
    pub(super) served: HashMap<Name, i64>,
    pub(super) removed: RemovedTable,
    seq: u64,
}

impl Tables {
    pub(super) fn version(&self, row: &Row) -> u64 {
        self.versions.get(row).copied().unwrap_or(0)
    }

    /// The number of a transaction, under which it may make 2^20 entries.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq << 20
    }

    pub(super) fn in_line(&self, queue: &Name, key: &str) -> impl Iterator<Item = &Entry> {
        self.of_key(queue, key).filter(|entry| entry.in_line())
    }

    pub(super) fn holder(&self, queue: &Name, key: &str) -> Option<JobId> {
        let mut holders = self.of_key(queue, key).filter(|entry| entry.holds_key);
        let holder = holders.next().map(Entry::id);
        assert_eq!(holders.next().map(Entry::id), None, "key {key} has one holder");
        holder
    }

    fn of_key(&self, queue: &Name, key: &str) -> impl Iterator<Item = &Entry> {
        self.jobs.values().filter(move |entry| {
            let header = &entry.job.header;
            header.queue == *queue && header.key.as_deref() == Some(key)
        })
    }

    pub(super) fn leased_to(&self, session: &SessionId) -> impl Iterator<Item = &Entry> {
        self.jobs.values().filter(move |entry| {
            entry.leased.as_ref().is_some_and(|leased| leased.session == *session)
        })
    }

    pub(super) fn depth(&self, queue: &Name) -> u64 {
        let waiting =
            |entry: &&Entry| entry.job.header.queue == *queue && entry.job.state.is_waiting();
        self.jobs.values().filter(waiting).count() as u64
    }

    /// Applies the writes of a transaction, all at once.
    pub(super) fn apply(&mut self, writes: Vec<Write>) {
        let mut holders = Vec::new();
        for write in writes {
            match write {
                Write::Job(id, after) => self.store(id, after.map(|entry| *entry)),
                Write::Unique(slot, hold) => {
                    self.touch(Row::Unique(slot.clone()));
                    set(&mut self.uniques, slot, hold);
                }
                Write::Holder(queue, key, holder) => holders.push((queue, key, holder)),
                Write::Session(id, session) => {
                    self.touch(Row::Session(id.clone()));
                    match session {
                        Some(session) => self.sessions.insert(id, session),
                        None => self.sessions.remove(&id),
                    };
                }
                Write::Queue(name, settings) => {
                    self.touch(Row::Settings);
                    match settings {
                        Some(settings) => self.queues.insert(name, settings),
                        None => self.queues.remove(&name),
                    };
                }
                Write::Kind(name, settings) => {
                    self.touch(Row::Settings);
                    match settings {
                        Some(settings) => self.kinds.insert(name, settings),
                        None => self.kinds.remove(&name),
                    };
                }
                Write::Turn(tenant, turn) => {
                    self.touch(Row::Turns(tenant.0.clone()));
                    self.turns.insert(tenant, turn);
                }
                Write::Served(queue, turn) => {
                    self.touch(Row::Turns(queue.clone()));
                    self.served.insert(queue, turn);
                }
                Write::Removed(key, count) => self.removed.add(key, count),
            }
        }
        for (queue, key, holder) in holders {
            assert_eq!(self.holder(&queue, &key), holder, "the new holder of key {key}");
        }
    }

    fn store(&mut self, id: JobId, after: Option<Entry>) {
        let before = self.jobs.remove(&id);
        for entry in before.iter().chain(&after) {
            for row in rows_of(entry) {
                self.touch(row);
            }
        }
        if before.is_none() != after.is_none() {
            let queues = before.iter().chain(&after).map(|entry| entry.job.header.queue.clone());
            queues.collect::<Vec<_>>().into_iter().for_each(|queue| self.touch(Row::Lanes(queue)));
        }
        self.jobs.extend(after.map(|entry| (id, entry)));
    }

    fn touch(&mut self, row: Row) {
        *self.versions.entry(row).or_default() += 1;
    }
}

/// The rows that change when this job is stored, changed or removed.
fn rows_of(entry: &Entry) -> Vec<Row> {
    let header = &entry.job.header;
    let mut rows = vec![Row::Job(header.id)];
    rows.extend(header.key.clone().map(|key| Row::Line(header.queue.clone(), key)));
    rows.extend(entry.leased.as_ref().map(|leased| Row::Session(leased.session.clone())));
    if entry.job.state.is_waiting() {
        rows.push(Row::Depth(header.queue.clone()));
    }
    rows
}

fn set<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}
