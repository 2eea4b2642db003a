//! One transaction: loads rows with their versions, and the writes that save a run.

use super::engine::Inner;
use super::tables::{Row, Tables, Write};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Mutex;
use windlass_core::engine::{Claim, MaintainRequest, Work};
use windlass_core::model::{Name, State};
use windlass_core::sync::lock;
use windlass_core::{Error, JobId, Result};
use windlass_executor::{Entry, Head, LaneKey, Standing, Turns, UniqueSlot};
use windlass_workset::{Found, Held, Known, Lanes, LineRows, Loaded, Store, Wants, WorkingSet};

/// The reason why a transaction did not commit.
pub(super) enum Failed {
    /// A row that it read has changed; the verb is retried.
    Conflict,
    Fatal(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

pub(super) struct Transaction<'a> {
    store: &'a Inner,
    /// The rows that were read, and the versions they had when they were read first.
    reads: Mutex<HashMap<Row, u64>>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(store: &'a Inner) -> Self {
        Self { store, reads: Mutex::default() }
    }

    /// Applies the writes unless a row that was read has changed.
    pub(super) async fn commit(&self, writes: Vec<Write>) -> Result<(), Failed> {
        self.store.give_way().await;
        let reads = std::mem::take(&mut *lock(&self.reads));
        let mut tables = self.store.tables();
        let stale = reads.iter().any(|(row, version)| tables.version(row) != *version);
        if self.store.refuses() || (stale && self.store.behaviour.compares) {
            return Err(Failed::Conflict);
        }
        tables.apply(writes);
        Ok(())
    }

    fn read(&self, tables: &Tables, row: Row) {
        let version = tables.version(&row);
        let mut reads = lock(&self.reads);
        reads.entry(row).or_insert(version);
    }

    fn load_rows(&self, tables: &mut Tables, mut wants: Wants, loaded: &mut Loaded<()>) {
        let now = self.store.clock.now();
        if loaded.due_at.is_none() {
            loaded.now = now;
        }
        loaded.seq = tables.next_seq();
        self.read(tables, Row::Settings);
        loaded.queues = Some(tables.queues.clone());
        loaded.kinds.clone_from(&tables.kinds);
        let tables = &*tables;
        let due = wants.due.take();
        if let Some(request) = due {
            Self::load_due(tables, request, &mut wants, loaded);
        }
        if let Some(claim) = wants.heads.take().filter(|_| !loaded.has_heads) {
            Self::load_heads(tables, &claim, &mut wants, loaded);
        }
        while !wants.is_empty() {
            self.load_sessions(tables, &mut wants, loaded);
            self.load_jobs(tables, &mut wants, loaded);
            self.load_keys(tables, &wants, loaded);
            self.load_queues(tables, &wants, loaded);
            wants = loaded.linked(&wants);
        }
        if let Some(request) = due {
            loaded.verify_due(request);
        }
        loaded.drop_ended_leases();
    }

    fn load_sessions(&self, tables: &Tables, wants: &mut Wants, loaded: &mut Loaded<()>) {
        for (id, held) in std::mem::take(&mut wants.sessions) {
            self.read(tables, Row::Session(id.clone()));
            let of_session = loaded.held.entry(id.clone()).or_default();
            for entry in tables.leased_to(&id) {
                let claim_no = entry.leased.as_ref().map(|leased| leased.claim_no);
                match held {
                    Held::All if wants.peek.contains(&entry.id()) => {}
                    Held::All => drop(wants.own.insert(entry.id())),
                    Held::Claim(number) if claim_no == Some(number) => {
                        wants.peek.insert(entry.id());
                    }
                    Held::Claim(_) => continue,
                }
                of_session.insert(entry.id());
            }
            loaded.sessions.extend(tables.sessions.get(&id).map(|session| (id, session.clone())));
        }
    }

    fn load_jobs(&self, tables: &Tables, wants: &mut Wants, loaded: &mut Loaded<()>) {
        let own: Vec<JobId> = loaded.to_own(wants).collect();
        let peek: Vec<JobId> = loaded.to_peek(wants).collect();
        for (id, locked) in
            own.iter().map(|id| (*id, true)).chain(peek.iter().map(|id| (*id, false)))
        {
            self.read(tables, Row::Job(id));
            let found = tables.jobs.get(&id).cloned().map(|entry| Found { entry, row: () });
            if let Some(Found { entry, .. }) = found.as_ref().filter(|_| locked) {
                self.add_links(tables, entry, wants, loaded);
            }
            loaded.jobs.insert(id, Known { found, locked });
        }
    }

    /// Wants the keys of a job that may be changed, and loads its session if that may change, too.
    fn add_links(
        &self,
        tables: &Tables,
        entry: &Entry,
        wants: &mut Wants,
        loaded: &mut Loaded<()>,
    ) {
        let header = &entry.job.header;
        if let Some(unique) = header.unique.as_ref().filter(|_| !wants.moving_up) {
            let (queue, kind) = (&header.queue, &header.kind);
            wants.slots.insert(UniqueSlot::new(unique.scope, queue, kind, &unique.key));
        }
        wants.lines.extend(header.key.clone().map(|key| (header.queue.clone(), key)));
        if let Some(leased) = &entry.leased
            && !loaded.held.contains_key(&leased.session)
            && let Some(session) = tables.sessions.get(&leased.session)
            && (wants.lease_sessions || session.alone)
        {
            let id = &leased.session;
            self.read(tables, Row::Session(id.clone()));
            loaded.sessions.insert(id.clone(), session.clone());
            loaded.held.insert(id.clone(), tables.leased_to(id).map(Entry::id).collect());
        }
    }

    fn load_keys(&self, tables: &Tables, wants: &Wants, loaded: &mut Loaded<()>) {
        for slot in &wants.slots {
            self.read(tables, Row::Unique(slot.clone()));
            loaded.uniques.insert(slot.clone(), tables.uniques.get(slot).copied());
        }
        let chunk = loaded.line_chunk(wants);
        for (queue, key) in &wants.lines {
            self.read(tables, Row::Line(queue.clone(), key.clone()));
            let mut line = LineRows::of_chunk(chunk);
            line.holder = tables.holder(queue, key);
            let all: BTreeSet<_> =
                tables.in_line(queue, key).map(|entry| (entry.seq, entry.id())).collect();
            line.waiting = all.into_iter().take(chunk).collect();
            line.complete();
            loaded.lines.insert((queue.clone(), key.clone()), line);
        }
    }

    fn load_queues(&self, tables: &Tables, wants: &Wants, loaded: &mut Loaded<()>) {
        for queue in &wants.depths {
            let limited = tables.queues.get(queue).is_some_and(|queue| queue.max_depth.is_some());
            if limited {
                self.read(tables, Row::Depth(queue.clone()));
                loaded.depths.insert(queue.clone(), tables.depth(queue));
            }
        }
        for tenant in &wants.turns {
            self.read(tables, Row::Turns(tenant.0.clone()));
            let served = tables.served.get(&tenant.0).copied().unwrap_or_default();
            let latest = tables.turns.get(tenant).copied();
            loaded.turns.insert(tenant.clone(), Standing { served, latest });
        }
    }

    fn load_heads(tables: &Tables, claim: &Claim, wants: &mut Wants, loaded: &mut Loaded<()>) {
        let wanted = |entry: &&Entry| {
            let header = &entry.job.header;
            let kinds = claim.kinds.as_ref();
            entry.job.state == State::Available
                && claim.queues.iter().any(|want| want.queue == header.queue)
                && kinds.is_none_or(|kinds| kinds.iter().any(|want| want.kind == header.kind))
        };
        let heads = tables.jobs.values().filter(wanted).map(|entry| {
            let header = &entry.job.header;
            let lane: LaneKey = (header.queue.clone(), header.kind.clone());
            let suspect = header.counters.is_suspect();
            (lane, Head { rank: entry.rank, seq: entry.seq, id: entry.id(), suspect })
        });
        wants.own.extend(loaded.add_heads(claim, heads));
    }

    fn load_due(
        tables: &Tables,
        request: MaintainRequest,
        wants: &mut Wants,
        loaded: &mut Loaded<()>,
    ) {
        loaded.due_at = Some(loaded.now);
        let now = loaded.now;
        if request.work == Work::Reclaim {
            let sessions = tables.sessions.iter();
            let mut sessions: Vec<_> = sessions.map(|(id, open)| (open.expires_at, id)).collect();
            sessions.sort_unstable();
            // The first one that has not expired, too: it is due next.
            let expired = sessions.iter().take_while(|(at, _)| *at <= now).count();
            let first = sessions.into_iter().take(expired + 1);
            wants.sessions.extend(first.map(|(_, id)| (id.clone(), Held::All)));
            return;
        }
        if request.work == Work::Retain {
            loaded.surplus = surplus(tables);
        }
        let due = tables.jobs.values().filter_map(|entry| {
            loaded.due_at_of(request.work, entry).map(|at| (at, entry.seq, entry.id()))
        });
        let due: BTreeSet<_> = due.collect();
        let due = due.into_iter().map(|(at, _, id)| (at, id));
        loaded.due = due.take(request.budget as usize + 1).collect();
        wants.own.extend(loaded.due.iter().filter(|(at, _)| *at <= now).map(|(_, id)| *id));
    }
}

/// The ended jobs beyond the number that their queue keeps.
fn surplus(tables: &Tables) -> HashSet<JobId> {
    let mut surplus = HashSet::new();
    for (queue, settings) in &tables.queues {
        for (state, most) in settings.keep_max.limits() {
            let ended = tables.jobs.values().filter(|entry| {
                let header = &entry.job.header;
                let own = header.policy.retention.is_some();
                entry.job.state == state && header.queue == *queue && !own
            });
            let mut ended: Vec<_> =
                ended.map(|entry| (entry.job.finished_at, entry.id())).collect();
            ended.sort_unstable();
            let oldest = ended.len().saturating_sub(most as usize);
            surplus.extend(ended.into_iter().take(oldest).map(|(_, id)| id));
        }
    }
    surplus
}

impl Lanes for Transaction<'_> {
    fn lanes_before(&self, (queue, kind): &LaneKey) -> Option<usize> {
        let tables = self.store.tables();
        let headers = tables.jobs.values().map(|entry| &entry.job.header);
        let kinds: BTreeSet<&Name> =
            headers.filter(|header| header.queue == *queue).map(|header| &header.kind).collect();
        if kinds.contains(kind) {
            return None;
        }
        self.read(&tables, Row::Lanes(queue.clone()));
        Some(kinds.len())
    }
}

impl Store for Transaction<'_> {
    type Row = ();
    type Saves = Vec<Write>;
    type Error = Failed;

    async fn load(&self, wants: &Wants, loaded: &mut Loaded<()>) -> Result<(), Failed> {
        self.store.give_way().await;
        let mut tables = self.store.tables();
        self.load_rows(&mut tables, wants.clone(), loaded);
        Ok(())
    }

    fn lanes(&self) -> &dyn Lanes {
        self
    }

    fn saves(
        &self,
        set: &WorkingSet<'_, ()>,
        turns: &HashMap<Name, Turns>,
    ) -> Result<Vec<Write>, Failed> {
        let id = |job: &windlass_workset::ChangedJob<'_, ()>| {
            job.after.or(job.before.map(|found| &found.entry)).map(Entry::id)
        };
        let mut writes: Vec<Write> = set
            .changed()
            .filter_map(|job| Some(Write::Job(id(&job)?, job.after.cloned().map(Box::new))))
            .collect();
        writes.extend(set.changed_keys().map(|changed| {
            Write::Holder(changed.queue.clone(), changed.key.to_owned(), changed.after)
        }));
        writes.extend(
            set.changed_uniques().map(|changed| Write::Unique(changed.slot.clone(), changed.after)),
        );
        writes.extend(
            set.changed_sessions()
                .map(|(id, session)| Write::Session(id.clone(), session.cloned())),
        );
        writes.extend(
            set.changed_queues()
                .map(|(queue, settings)| Write::Queue(queue.clone(), settings.cloned())),
        );
        writes.extend(
            set.changed_kinds()
                .map(|(kind, settings)| Write::Kind(kind.clone(), settings.cloned())),
        );
        for changed in set.changed_turns(turns) {
            let queue = changed.queue;
            writes.extend(
                changed.tenants.iter().map(|(tenant, _, turn)| {
                    Write::Turn((queue.clone(), (*tenant).clone()), *turn)
                }),
            );
            writes.extend(changed.served.map(|turn| Write::Served(queue.clone(), turn)));
        }
        writes.extend(set.removed().map(|(key, count)| Write::Removed(key.clone(), count)));
        Ok(writes)
    }
}
