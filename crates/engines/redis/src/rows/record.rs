//! The record of a job: everything but its parts, in one value.
//!
//! A record is a head of fixed length (format, number and time of its entry, length of the snapshot), and a snapshot, in
//! which times are relative to the one in the head. Functions can therefore give a new job its number and its time without
//! knowing the snapshot. The fast paths append the claim and the completion of a plain job; what they mean for the job is
//! decided here, when the record is read.

use super::small;
use crate::keys;
use windlass_core::engine::{Lease, SessionId};
use windlass_core::model::{
    AttemptEnd, Counters, Finish, Header, Job, Name, Part, PartName, PartSet, Parts, State,
};
use windlass_core::{JobId, Timestamp};
use windlass_executor::{Entry, Leased};
use windlass_workset::codec::{self, Damaged, Decoded, Spec, Tail};
use windlass_workset::pack::{Pack, Unpack};

/// The formats of a record: a snapshot, after which the fast paths have claimed the job, and after that completed it.
const SNAPSHOT: u8 = 1;
const CLAIMED: u8 = 2;
const COMPLETED: u8 = 3;
/// The length of a head.
const HEAD: usize = 1 + 8 + 8 + 4;

/// Bits of the flags.
mod flag {
    pub(super) const CANCEL_REQUESTED: i64 = 1;
    pub(super) const WAITS: i64 = 2;
    pub(super) const SIGNALLED: i64 = 4;
    pub(super) const HOLDS_KEY: i64 = 8;
    pub(super) const LEASED: i64 = 16;
    /// The session of the lease belongs to a single claim.
    pub(super) const ALONE: i64 = 32;
    /// The first of four flags, one for each part that the job has.
    pub(super) const PARTS: i64 = 64;
    /// Others depend on the job.
    pub(super) const FOLLOWED: i64 = 1_024;
}

/// The columns of a job that only this store needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobRow {
    /// Rises with every change, so that a change of parts alone changes the record, too.
    pub(crate) revision: i64,
    /// Whether the session of its lease belongs to a single claim.
    pub(crate) alone: bool,
}

/// A stored job.
pub(crate) type Found = windlass_workset::Found<JobRow>;

/// Encodes a job.
pub(crate) fn encode(entry: &Entry, row: JobRow) -> Decoded<Vec<u8>> {
    let since = entry.job.header.created_at;
    let body = body(entry, row)?;
    let mut record = Vec::with_capacity(HEAD + body.len());
    record.push(SNAPSHOT);
    record.extend_from_slice(&entry.seq.to_be_bytes());
    record.extend_from_slice(&since.as_millis().to_be_bytes());
    record.extend_from_slice(&body);
    Ok(record)
}

/// What follows the number and the time of entry: the snapshot, behind its length.
pub(crate) fn body(entry: &Entry, row: JobRow) -> Decoded<Vec<u8>> {
    let snapshot = snapshot(entry, row)?;
    Ok([(snapshot.len() as u32).to_be_bytes().as_slice(), &snapshot].concat())
}

fn snapshot(entry: &Entry, row: JobRow) -> Decoded<Vec<u8>> {
    let (job, header) = (&entry.job, &entry.job.header);
    let since = header.created_at;
    let mut pack = Pack::default();
    let mut flags = 0;
    for (on, flag) in [
        (job.cancel_requested, flag::CANCEL_REQUESTED),
        (entry.waits, flag::WAITS),
        (entry.signalled, flag::SIGNALLED),
        (entry.holds_key, flag::HOLDS_KEY),
        (entry.leased.is_some(), flag::LEASED),
        (row.alone, flag::ALONE),
        (job.followed, flag::FOLLOWED),
    ] {
        flags |= if on { flag } else { 0 };
    }
    for name in PartName::ALL {
        flags |= if job.parts.get(name).is_some() { flag::PARTS << name as u32 } else { 0 };
    }
    pack.int(flags);
    pack.u8(job.state as u8);
    pack.text(&header.queue);
    pack.text(&header.kind);
    pack.int(row.revision);
    pack.int(header.priority.into());
    pack.int(entry.rank);
    pack.time(Some(header.run_at), since);
    pack.time(Some(entry.ready_at), since);
    pack.time(Some(job.changed_at), since);
    pack.int(job.transitions.into());
    let Counters { attempt, failures, crashes } = header.counters;
    [attempt, failures, crashes].into_iter().for_each(|count| pack.int(count.into()));
    pack.time(job.started_at, since);
    pack.time(job.finished_at, since);
    if let Some(Leased { lease, session, claim_no, worker, started_at }) = &entry.leased {
        pack.token(lease.as_str());
        pack.text(session.as_str());
        pack.int(claim_no.cast_signed());
        pack.text(worker);
        pack.time(Some(*started_at), since);
    }
    pack.text(&codec::to_text(&Spec::of(header))?.unwrap_or_default());
    pack.text(&codec::to_text(&Tail::of(entry, false))?.unwrap_or_default());
    Ok(pack.into_bytes())
}

/// Decodes a job. Of the parts that it has, those in `parts` are read with [`add_part`], and the others are marked as not
/// loaded.
pub(crate) fn decode(id: JobId, record: &[u8]) -> Decoded<Found> {
    let mut list = Unpack(record);
    let format = list.u8()?;
    if ![SNAPSHOT, CLAIMED, COMPLETED].contains(&format) {
        return Err(Damaged::new(&"a record of a newer version"));
    }
    let seq = list.u64()?;
    let since = Timestamp::from_millis(list.u64()?.cast_signed());
    let len = u32::from_be_bytes(list.raw(4)?.try_into().unwrap_or_default());
    let snapshot = list.raw(len as usize)?;
    let mut found = read_snapshot(id, (seq, since), snapshot)?;
    if format >= CLAIMED {
        add_claim(&mut found.entry, &mut list)?;
    }
    if format == COMPLETED {
        add_completion(&mut found.entry, list)?;
    }
    Ok(found)
}

/// Adds a claim by the fast path, as the executor would have written it.
fn add_claim(entry: &mut Entry, list: &mut Unpack<'_>) -> Decoded<()> {
    entry.seq = list.u64()?;
    let started_at = Timestamp::from_millis(list.u64()?.cast_signed());
    let token = u128::from_be_bytes(list.raw(16)?.try_into().unwrap_or_default());
    let claim_no = list.u64()?;
    // The flag is for functions only.
    list.u8()?;
    let (session, worker) = (short(list)?, short(list)?);
    let job = &mut entry.job;
    job.state = State::Running;
    job.transitions = job.transitions.saturating_add(1);
    (job.changed_at, job.started_at) = (started_at, Some(started_at));
    let attempt = &mut job.header.counters.attempt;
    *attempt = attempt.saturating_add(1);
    entry.leased = Some(Leased {
        lease: Lease::from(codec::token_of(token)),
        session: SessionId::new(session),
        claim_no,
        worker: worker.to_owned(),
        started_at,
    });
    Ok(())
}

/// Adds a completion by the fast path, as the executor would have written it.
fn add_completion(entry: &mut Entry, mut list: Unpack<'_>) -> Decoded<()> {
    let ended_at = Timestamp::from_millis(list.u64()?.cast_signed());
    let has_result = list.u8()? != 0;
    entry.end_attempt(AttemptEnd::Complete, None, ended_at);
    entry.waits = false;
    let job = &mut entry.job;
    job.state = State::Completed;
    job.transitions = job.transitions.saturating_add(1);
    (job.changed_at, job.finished_at) = (ended_at, Some(ended_at));
    job.header.counters.crashes = 0;
    job.finish = Some(Finish::Completed);
    job.result = has_result.then(|| Part::new(list.0.to_vec()));
    Ok(())
}

/// What the fast path appends to a record that it completes, after the time.
pub(crate) fn end_of(result: Option<&[u8]>) -> Vec<u8> {
    match result {
        Some(bytes) => [&[1], bytes].concat(),
        None => vec![0],
    }
}

/// A text behind two bytes of length.
fn short<'a>(list: &mut Unpack<'a>) -> Decoded<&'a str> {
    let len = u16::from_be_bytes(list.raw(2)?.try_into().unwrap_or_default());
    small::text(list.raw(len.into())?)
}

/// Reads a snapshot.
fn read_snapshot(id: JobId, (seq, since): (u64, Timestamp), snapshot: &[u8]) -> Decoded<Found> {
    let mut list = Unpack(snapshot);
    let flags = list.int()?;
    let is = |flag: i64| flags & flag != 0;
    let state = codec::state(list.u8()?.into())?;
    let (queue, kind) = (Name::from(list.text()?), Name::from(list.text()?));
    let mut header = Header::new(id, queue, kind, since);
    let revision = list.int()?;
    header.priority = list.int()? as i32;
    let rank = list.int()?;
    header.run_at = list.time(since)?.unwrap_or(since);
    let ready_at = list.time(since)?.unwrap_or(since);
    let changed_at = list.time(since)?.unwrap_or(since);
    let transitions = list.int()? as u32;
    let mut count = || list.int().map(|count| count as u32);
    let (attempt, failures, crashes) = (count()?, count()?, count()?);
    header.counters = Counters { attempt, failures, crashes };
    let (started_at, finished_at) = (list.time(since)?, list.time(since)?);
    let leased = match is(flag::LEASED) {
        true => Some(Leased {
            lease: Lease::from(list.token()?),
            session: SessionId::new(list.text()?),
            claim_no: list.int()?.cast_unsigned(),
            worker: list.text()?.to_owned(),
            started_at: list.time(since)?.unwrap_or(since),
        }),
        false => None,
    };
    define(&mut header, codec::from_text(some(list.text()?))?);
    let mut job = Job::new(header, state, Parts::default());
    for name in PartName::ALL.into_iter().filter(|name| is(flag::PARTS << *name as u32)) {
        *job.parts.slot(name) = Some(codec::not_loaded());
    }
    job.changed_at = changed_at;
    job.transitions = transitions;
    (job.started_at, job.finished_at) = (started_at, finished_at);
    job.cancel_requested = is(flag::CANCEL_REQUESTED);
    job.followed = is(flag::FOLLOWED);
    let mut entry = Entry::new(job);
    (entry.seq, entry.rank, entry.ready_at, entry.leased) = (seq, rank, ready_at, leased);
    entry.holds_key = is(flag::HOLDS_KEY);
    entry.waits = is(flag::WAITS);
    entry.signalled = is(flag::SIGNALLED);
    let tail: Tail = codec::from_text(some(list.text()?))?;
    tail.add_to(&mut entry);
    Ok(Found { entry, row: JobRow { revision, alone: is(flag::ALONE) } })
}

fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn define(header: &mut Header, spec: Spec) {
    let Spec { tenant, key, group, cost, unique, parent, flow, tags, trace, policy } = spec;
    (header.tenant, header.key, header.group, header.unique) = (tenant, key, group, unique);
    (header.parent, header.tags, header.trace, header.policy) = (parent, tags, trace, policy);
    (header.flow, header.cost) = (flow, cost.unwrap_or(1));
}

/// Encodes a part.
pub(crate) fn encode_part(part: &Part) -> Decoded<Vec<u8>> {
    let mut pack = Pack::default();
    pack.text(&codec::envelope_text(part)?.unwrap_or_default());
    pack.raw(&part.bytes);
    Ok(pack.into_bytes())
}

/// Replaces the mark of a part that the job has by its bytes.
pub(crate) fn add_part(entry: &mut Entry, name: PartName, stored: &[u8]) -> Decoded<()> {
    let mut list = Unpack(stored);
    let envelope = some(list.text()?);
    let part = codec::part(list.0.to_vec(), envelope)?;
    if let Some(slot) = entry.job.parts.slot(name) {
        *slot = part;
    }
    Ok(())
}

/// The part of a letter.
pub(crate) fn read_part_name(letter: &[u8]) -> Decoded<PartName> {
    let known = PartName::ALL.into_iter().find(|name| [keys::part_letter(*name)] == letter);
    known.ok_or_else(|| Damaged::new(&"a part without a name"))
}

/// The names of the parts in a set, and the fields under which they are stored.
pub(crate) fn part_fields(id: JobId, set: PartSet) -> impl Iterator<Item = (PartName, Vec<u8>)> {
    let names = PartName::ALL.into_iter().filter(move |name| set.has(*name));
    names.map(move |name| (name, keys::part(id, name)))
}
