//! The formats of small values: members of indexes, sessions, keys, lines.

use serde::{Deserialize, Serialize};
use windlass_core::engine::WorkerInfo;
use windlass_core::model::PartName;
use windlass_core::{JobId, Timestamp};
use windlass_executor::{Entry, Head, LineHead, LinePlace, SessionEntry, UniqueHold};
use windlass_workset::Place;
use windlass_workset::codec::{self, Damaged, Decoded};
use windlass_workset::pack::{Pack, Unpack};

/// Bits of the last byte of a member of `ready`, which say what functions need to know about the job.
pub(crate) const SUSPECT: u8 = 1;
/// The job can be completed by changing only its record and its place.
const PLAIN: u8 = 2;
/// Its claim changes more than its record and its place: it can expire, or limits count it.
const TIED: u8 = 4;
/// The first of four bits, one for each part that the job has.
const PARTS: u8 = 8;

/// Parts as the bits of a member of `ready`.
pub(crate) fn part_bits(has: impl Fn(PartName) -> bool) -> u8 {
    let names = PartName::ALL.into_iter().filter(|name| has(*name));
    names.map(|name| PARTS << name as u8).sum()
}

/// A number whose text order is its order.
pub(crate) const fn ordered(value: i64) -> [u8; 8] {
    (value.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

fn unordered(bits: u64) -> i64 {
    (bits ^ (1 << 63)).cast_signed()
}

/// A member that is sorted by order of entry.
pub(crate) fn entered(seq: u64, id: JobId) -> Vec<u8> {
    [seq.to_be_bytes().as_slice(), id.as_bytes()].concat()
}

/// Reads [`entered`].
pub(crate) fn read_entered(member: &[u8]) -> Decoded<(u64, JobId)> {
    let mut list = Unpack(member);
    Ok((list.u64()?, list.id()?))
}

/// A member of `ready`.
pub(crate) fn ready(entry: &Entry) -> Vec<u8> {
    [entered(entry.seq, entry.id()).as_slice(), &[ready_flags(entry)]].concat()
}

/// The last byte of a member of `ready`.
pub(crate) fn ready_flags(entry: &Entry) -> u8 {
    let suspect = if entry.job.header.counters.is_suspect() { SUSPECT } else { 0 };
    let plain = if entry.job.completes_plainly(false) { PLAIN } else { 0 };
    let is_tied = Place::of(entry).deadline.is_some() || !entry.job.limits.is_empty();
    let tied = if is_tied { TIED } else { 0 };
    suspect | plain | tied | part_bits(|name| entry.job.parts.get(name).is_some())
}

/// Reads a member of `ready` and its score.
pub(crate) fn read_ready(member: &[u8], rank: f64) -> Decoded<Head> {
    let mut list = Unpack(member);
    let (seq, id, flags) = (list.u64()?, list.id()?, list.u8()?);
    Ok(Head { rank: rank as i64, seq, id, suspect: flags & SUSPECT != 0 })
}

/// A member of `held`: a lease of a session.
pub(crate) fn held(claim_no: u64, id: JobId) -> Vec<u8> {
    entered(claim_no, id)
}

/// The id of a member.
pub(crate) fn id(member: &[u8]) -> Decoded<JobId> {
    Unpack(member).id()
}

/// A place in the line of a group.
pub(crate) fn group_line(entry: &Entry) -> Option<Vec<u8>> {
    let limit = entry.job.limits.first().filter(|_| entry.in_group_line())?;
    let LinePlace { priority, run_at, seq } = entry.line_place();
    let mut member = ordered(priority.into()).to_vec();
    member.extend_from_slice(&ordered(run_at.as_millis()));
    member.extend_from_slice(&entered(seq, entry.id()));
    member.extend_from_slice(&entry.job.header.cost.to_be_bytes());
    member.extend_from_slice(limit.as_bytes());
    Some(member)
}

/// Reads [`group_line`].
pub(crate) fn read_group_line(member: &[u8]) -> Decoded<LineHead> {
    let mut list = Unpack(member);
    let priority = unordered(list.u64()?) as i32;
    let run_at = Timestamp::from_millis(unordered(list.u64()?));
    let (seq, id) = (list.u64()?, list.id()?);
    let cost = u32::from_be_bytes(list.raw(4)?.try_into().unwrap_or_default());
    let limit = text(list.0)?.into();
    Ok(LineHead { place: LinePlace { priority, run_at, seq }, id, cost, limit })
}

/// The counts of the line of a group.
pub(crate) fn group(waiting: u64, jobs: u32, cost: u64) -> Vec<u8> {
    let mut pack = Pack::default();
    [waiting.cast_signed(), jobs.into(), cost.cast_signed()].into_iter().for_each(|n| pack.int(n));
    pack.into_bytes()
}

/// Reads [`group`].
pub(crate) fn read_group(stored: &[u8]) -> Decoded<(u64, u32, u64)> {
    let mut list = Unpack(stored);
    Ok((list.int()?.cast_unsigned(), list.int()? as u32, list.int()?.cast_unsigned()))
}

/// The holder of a unique key.
pub(crate) fn unique(hold: UniqueHold) -> Vec<u8> {
    let until = hold.until.map_or(i64::MIN, Timestamp::as_millis);
    [hold.holder.as_bytes().as_slice(), &ordered(until)].concat()
}

/// Reads [`unique`].
pub(crate) fn read_unique(stored: &[u8]) -> Decoded<UniqueHold> {
    let mut list = Unpack(stored);
    let (holder, until) = (list.id()?, unordered(list.u64()?));
    Ok(UniqueHold { holder, until: (until != i64::MIN).then(|| Timestamp::from_millis(until)) })
}

/// A session: when it expires, its time to live, and the name of its worker, which functions read; and the rest as JSON.
pub(crate) fn session(session: &SessionEntry) -> Decoded<Vec<u8>> {
    let SessionEntry { worker, info, opened_at, ttl_ms, expires_at, alone, remote } = session;
    let stored =
        StoredSession { info: info.clone(), opened_at: *opened_at, alone: *alone, remote: *remote };
    let len = u16::try_from(worker.len()).map_err(|error| Damaged::new(&error))?;
    let json = codec::json(&stored)?;
    let (expires_at, ttl_ms) = (expires_at.as_millis().to_be_bytes(), ttl_ms.to_be_bytes());
    let len = len.to_be_bytes();
    let parts = [&expires_at[..], &ttl_ms, &len, worker.as_bytes(), json.as_bytes()];
    Ok(parts.concat())
}

/// Reads [`session`].
pub(crate) fn read_session(stored: &[u8]) -> Decoded<SessionEntry> {
    let mut list = Unpack(stored);
    let expires_at = Timestamp::from_millis(list.u64()?.cast_signed());
    let ttl_ms = list.u64()?;
    let len = u16::from_be_bytes(list.raw(2)?.try_into().unwrap_or_default());
    let worker = text(list.raw(len.into())?)?.to_owned();
    let StoredSession { info, opened_at, alone, remote } = codec::from_text(Some(text(list.0)?))?;
    Ok(SessionEntry { worker, info, opened_at, ttl_ms, expires_at, alone, remote })
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredSession {
    info: WorkerInfo,
    opened_at: Timestamp,
    alone: bool,
    remote: bool,
}

/// Stored text.
pub(crate) fn text(bytes: &[u8]) -> Decoded<&str> {
    std::str::from_utf8(bytes).map_err(|error| Damaged::new(&error))
}

/// A time as the score of a sorted set.
pub(crate) fn score(at: Timestamp) -> Vec<u8> {
    at.as_millis().to_string().into_bytes()
}

/// The time of a score.
pub(crate) fn at(score: f64) -> Timestamp {
    Timestamp::from_millis(score as i64)
}
