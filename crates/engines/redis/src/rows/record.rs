//! The record of a job: everything but its parts, in one value.
//!
//! A record is a head of fixed length (format, length of the snapshot, number and time of its entry), and a snapshot, in
//! which times are relative to the one in the head. Functions can therefore give a new job its number and its time without
//! knowing the snapshot.

use crate::keys;
use windlass_core::engine::Lease;
use windlass_core::engine::SessionId;
use windlass_core::model::{Counters, Header, Job, Name, Part, PartName, PartSet, Parts};
use windlass_core::{JobId, Timestamp};
use windlass_executor::{Entry, Leased};
use windlass_workset::codec::{self, Damaged, Decoded, Spec, Tail};
use windlass_workset::pack::{Pack, Unpack};

/// The format of a record that consists of a snapshot.
const SNAPSHOT: u8 = 1;
/// The length of a head.
const HEAD: usize = 1 + 4 + 8 + 8;

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
    let snapshot = snapshot(entry, row)?;
    let mut record = Vec::with_capacity(HEAD + snapshot.len());
    record.push(SNAPSHOT);
    record.extend_from_slice(&(snapshot.len() as u32).to_be_bytes());
    record.extend_from_slice(&entry.seq.to_be_bytes());
    record.extend_from_slice(&since.as_millis().to_be_bytes());
    record.extend_from_slice(&snapshot);
    Ok(record)
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
    if list.u8()? != SNAPSHOT {
        return Err(Damaged::new(&"a record of a newer version"));
    }
    let len = u32::from_be_bytes(list.raw(4)?.try_into().unwrap_or_default());
    let seq = list.u64()?;
    let since = Timestamp::from_millis(list.u64()?.cast_signed());
    let mut list = Unpack(list.raw(len as usize)?);
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

/// The names of the parts in a set, and the fields under which they are stored.
pub(crate) fn part_fields(id: JobId, set: PartSet) -> impl Iterator<Item = (PartName, Vec<u8>)> {
    let names = PartName::ALL.into_iter().filter(move |name| set.has(*name));
    names.map(move |name| (name, keys::part(id, name)))
}
