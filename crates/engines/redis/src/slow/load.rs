//! Loads the rows that a verb wants, and the rows they refer to.

use crate::conn::error::Try;
use crate::conn::script::{Reads, Replies};
use crate::keys;
use crate::rows::record::{self, Found};
use crate::rows::{places, small};
use crate::slow::transaction::{Loaded, Transaction};
use std::collections::BTreeMap;
use windlass_core::JobId;
use windlass_core::engine::SessionId;
use windlass_core::model::{Name, PartName, State};
use windlass_executor::{Standing, UniqueSlot};
use windlass_workset::{Held, Known, LineRows, Tenant, Wants};

/// The largest byte string that continues a number: the end of a range of members.
const LAST: [u8; 17] = [0xFF; 17];

/// A job to read, whether it may be changed, and the numbers of the reads of its record and of its parts.
type AskedJob = (JobId, bool, usize, Vec<(PartName, usize)>);

/// The numbers of the reads of one call, by the rows they are for.
#[derive(Default)]
struct Numbers {
    sessions: Vec<(SessionId, Held, usize, usize)>,
    jobs: Vec<AskedJob>,
    slots: Vec<(UniqueSlot, usize)>,
    lines: Vec<((Name, String), usize, usize)>,
    turns: Vec<(Tenant, usize, usize)>,
    depths: BTreeMap<Name, Vec<usize>>,
}

impl Transaction<'_> {
    pub(super) async fn load_rows(&self, mut wants: Wants, loaded: &mut Loaded) -> Try<()> {
        let due = wants.due.take();
        let claim = wants.heads.take().filter(|_| !loaded.has_heads);
        if let Some(request) = due {
            self.find_due(request, &mut wants, loaded).await?;
        }
        if let Some(claim) = &claim {
            self.find_heads(claim, &mut wants, loaded).await?;
        }
        if self.relists {
            self.count_running_groups(loaded).await?;
        }
        // Also without rows to load: a run needs the time, a number and the settings.
        let mut first = true;
        while first || !wants.is_empty() {
            let mut links = Wants { heirs: wants.heirs, parts: wants.parts, ..Wants::default() };
            let mut late = false;
            loop {
                links.slots.extend(wants.slots.iter().cloned());
                links.lines.extend(wants.lines.iter().cloned());
                links.groups.extend(wants.groups.iter().cloned());
                links.edges.extend(wants.edges.iter().copied());
                links.inputs.extend(wants.inputs.iter().copied());
                links.spans.extend(wants.spans.iter().map(|(id, from)| (*id, *from)));
                wants = self.load_once(wants, late, loaded).await?;
                late = true;
                if wants.is_empty() {
                    break;
                }
            }
            // Dependents of dependents are loaded once a run needs them.
            if first && links.heirs {
                let known: Vec<JobId> = loaded.jobs.keys().copied().collect();
                links.edges.extend(loaded.followed(&known));
            }
            first = false;
            self.load_edges(&links, loaded).await?;
            wants = loaded.linked(&links);
        }
        if let Some(request) = due {
            loaded.verify_due(request);
        }
        loaded.drop_ended_leases();
        drop_stale_heads(loaded);
        Ok(())
    }

    /// Loads these rows; returns the rows that the loaded jobs refer to. `late`: the sessions are wanted because of jobs,
    /// and their other jobs are not.
    async fn load_once(&self, wants: Wants, late: bool, loaded: &mut Loaded) -> Try<Wants> {
        let (mut reads, mut numbers) = (Reads::default(), Numbers::default());
        let chunk = loaded.line_chunk(&wants);
        self.ask_sessions(&wants, loaded, &mut reads, &mut numbers);
        self.ask_jobs(&wants, loaded, &mut reads, &mut numbers);
        self.ask_keys(&wants, loaded, chunk, &mut reads, &mut numbers);
        self.ask_queues(&wants, &mut reads, &mut numbers);
        let replies = self.read(reads, loaded).await?;
        let mut more = Wants {
            heirs: wants.heirs,
            moving_up: wants.moving_up,
            parts: wants.parts,
            lease_sessions: wants.lease_sessions,
            ..Wants::default()
        };
        add_sessions(&replies, &numbers, (&wants, late), &mut more, loaded)?;
        for (id, locked, at, parts) in numbers.jobs {
            let found = found(&replies, id, at, &parts)?;
            if let Some(found) = found.as_ref().filter(|_| locked) {
                add_links(found, &wants, &mut more, loaded);
            }
            loaded.jobs.insert(id, Known { found, locked });
        }
        for (slot, at) in numbers.slots {
            let hold = replies.bytes(at)?.map(small::read_unique).transpose()?;
            loaded.uniques.insert(slot, hold);
        }
        for (line, holder, waiting) in numbers.lines {
            let mut rows = LineRows::of_chunk(chunk);
            rows.holder = replies.bytes(holder)?.map(small::id).transpose()?;
            for member in replies.members(waiting)? {
                rows.waiting.insert(small::read_entered(member)?);
            }
            rows.complete();
            loaded.lines.insert(line, rows);
        }
        for (tenant, latest, served) in numbers.turns {
            let served = replies.score(served)?.unwrap_or(0.0) as i64;
            let latest = replies.score(latest)?.map(|turn| turn as i64);
            loaded.turns.insert(tenant, Standing { served, latest });
        }
        for (queue, counts) in numbers.depths {
            let depth = counts.into_iter().map(|at| replies.int(at)).sum::<Try<i64>>()?;
            loaded.depths.insert(queue, depth.cast_unsigned());
        }
        self.load_groups(&wants, loaded).await?;
        Ok(more)
    }

    fn ask_sessions(
        &self,
        wants: &Wants,
        loaded: &Loaded,
        reads: &mut Reads,
        numbers: &mut Numbers,
    ) {
        for (id, held) in &wants.sessions {
            if loaded.held.contains_key(id) {
                continue;
            }
            let session =
                reads.expect("HGET", &self.keys.one("session"), &[id.as_str().as_bytes()]);
            let leases = self.keys.held(id.as_str());
            let leases = match held {
                Held::All => reads.expect("ZRANGE", &leases, &[b"0", b"-1"]),
                Held::Claim(number) => {
                    let first = [b"[".as_slice(), &number.to_be_bytes()].concat();
                    let last = [first.as_slice(), &LAST].concat();
                    reads.expect("ZRANGEBYLEX", &leases, &[&first, &last])
                }
            };
            numbers.sessions.push((id.clone(), *held, session, leases));
        }
    }

    fn ask_jobs(&self, wants: &Wants, loaded: &Loaded, reads: &mut Reads, numbers: &mut Numbers) {
        let own = loaded.to_own(wants).map(|id| (id, true));
        let all: Vec<(JobId, bool)> =
            own.chain(loaded.to_peek(wants).map(|id| (id, false))).collect();
        for (id, locked) in all {
            let at = reads.expect("HGET", &self.keys.one("job"), &[id.as_bytes()]);
            // Verified with the record, which changes with its parts.
            let parts = record::part_fields(id, wants.parts)
                .map(|(name, field)| (name, reads.peek("HGET", &self.keys.one("part"), &[&field])))
                .collect();
            numbers.jobs.push((id, locked, at, parts));
        }
    }

    fn ask_keys(
        &self,
        wants: &Wants,
        loaded: &Loaded,
        chunk: usize,
        reads: &mut Reads,
        numbers: &mut Numbers,
    ) {
        for slot in wants.slots.iter().filter(|slot| !loaded.uniques.contains_key(slot)) {
            let at = reads.expect("HGET", &self.keys.one("unique"), &[&keys::slot(slot)]);
            numbers.slots.push((slot.clone(), at));
        }
        let last = (chunk - 1).to_string();
        for (queue, key) in &wants.lines {
            let field = keys::key_field(queue, key);
            let holder = reads.expect("HGET", &self.keys.one("holder"), &[&field]);
            let line = self.keys.line(queue, key);
            let waiting = reads.expect("ZRANGE", &line, &[b"0", last.as_bytes()]);
            numbers.lines.push(((queue.clone(), key.clone()), holder, waiting));
        }
    }

    fn ask_queues(&self, wants: &Wants, reads: &mut Reads, numbers: &mut Numbers) {
        for tenant in &wants.turns {
            let member = tenant_member(&tenant.1);
            let latest = reads.expect("ZSCORE", &self.keys.turns(&tenant.0), &[&member]);
            let served = reads.expect("ZSCORE", &self.keys.one("served"), &[tenant.0.as_bytes()]);
            numbers.turns.push((tenant.clone(), latest, served));
        }
        let limited = |queue: &&Name| {
            self.settings.queues.get(*queue).is_some_and(|it| it.max_depth.is_some())
        };
        for queue in wants.depths.iter().filter(limited) {
            let counts = numbers.depths.entry(queue.clone()).or_default();
            for lane in self.settings.lanes_of(queue) {
                for state in State::ALL.into_iter().filter(|state| state.is_waiting()) {
                    for index in places::indexes(self.keys, state, lane) {
                        counts.push(reads.expect("ZCARD", &index, &[]));
                    }
                }
            }
        }
    }

    /// Loads jobs that are only read.
    pub(crate) async fn peek_jobs(&self, ids: &[JobId], loaded: &mut Loaded) -> Try<()> {
        let wants = Wants { peek: ids.iter().copied().collect(), ..Wants::default() };
        self.load_once(wants, false, loaded).await.map(drop)
    }
}

/// A tenant as a member of `turn`.
pub(super) fn tenant_member(tenant: &Option<String>) -> Vec<u8> {
    match tenant {
        Some(tenant) => [b"t", tenant.as_bytes()].concat(),
        None => b"n".to_vec(),
    }
}

fn add_sessions(
    replies: &Replies,
    numbers: &Numbers,
    (wants, late): (&Wants, bool),
    more: &mut Wants,
    loaded: &mut Loaded,
) -> Try<()> {
    for (id, held, session, leases) in &numbers.sessions {
        let stored = replies.bytes(*session)?.map(small::read_session).transpose()?;
        loaded.sessions.extend(stored.map(|session| (id.clone(), session)));
        let of_session = loaded.held.entry(id.clone()).or_default();
        for member in replies.members(*leases)? {
            let (_, job) = small::read_entered(member)?;
            of_session.insert(job);
            if late {
                continue;
            }
            match held {
                // Leases that the worker did not name will be released.
                Held::All if !wants.peek.contains(&job) => more.own.insert(job),
                Held::All | Held::Claim(_) => more.peek.insert(job),
            };
        }
    }
    Ok(())
}

/// Removes ready jobs that were found to have left their place once they were loaded.
fn drop_stale_heads(loaded: &mut Loaded) {
    let Loaded { heads, jobs, .. } = loaded;
    for heads in heads.values_mut() {
        heads.retain(|head| {
            let Some(known) = jobs.get(&head.id) else { return true };
            let entry = known.found.as_ref().map(|found| &found.entry);
            entry.is_some_and(|it| it.job.state == State::Available && it.seq == head.seq)
        });
    }
}

/// Decodes the job of a reply.
pub(crate) fn found(
    replies: &Replies,
    id: JobId,
    at: usize,
    parts: &[(PartName, usize)],
) -> Try<Option<Found>> {
    let Some(stored) = replies.bytes(at)? else { return Ok(None) };
    let mut found = record::decode(id, stored)?;
    for (name, at) in parts {
        if let Some(part) = replies.bytes(*at)? {
            record::add_part(&mut found.entry, *name, part)?;
        }
    }
    Ok(Some(found))
}

/// Wants the keys, the group and the session of a job that may be changed.
fn add_links(found: &Found, wants: &Wants, more: &mut Wants, loaded: &Loaded) {
    let (entry, header) = (&found.entry, &found.entry.job.header);
    // If it is removed, its open edges are, too.
    if entry.job.state.is_terminal() && entry.job.dependencies.open > 0 {
        more.inputs.insert(entry.id());
    }
    if let Some(slot) = entry.unique_slot().filter(|_| !wants.moving_up)
        && !loaded.uniques.contains_key(&slot)
    {
        more.slots.insert(slot);
    }
    if let Some(key) = &header.key {
        let line = (header.queue.clone(), key.clone());
        if !loaded.lines.contains_key(&line) {
            more.lines.insert(line);
        }
    }
    let group = header.limit_group();
    if loaded.is_grouped(&places::lane(entry)) && !loaded.has_group(group) {
        more.groups.insert(group.to_owned());
    }
    if let Some(leased) = entry.leased.as_ref().filter(|_| wants.lease_sessions || found.row.alone)
        && !loaded.held.contains_key(&leased.session)
    {
        more.sessions.insert(leased.session.clone(), Held::All);
    }
}
