//! The numbers of a job, packed into one column: one for its definition (`job`), one for its later state (`life`).
//!
//! They are always read and written together and never searched, and one value is cheaper to bind, store and read
//! than a dozen. Times are stored as differences, because small numbers take fewer bytes.

use super::codec;
use super::pack::{Pack, Unpack};
use windlass_core::engine::Lease;
use windlass_core::model::{Attempt, AttemptFields, Counters, Placement};
use windlass_core::{Result, Timestamp};
use windlass_executor::Entry;

/// Bits of the flags byte.
mod flag {
    /// Cancellation was requested while the job ran.
    pub(super) const CANCEL_REQUESTED: u8 = 1;
    /// The job holds its ordering key.
    pub(super) const HOLDS_KEY: u8 = 8;
    /// The job has rows in `part`.
    pub(super) const HAS_PARTS: u8 = 16;
    /// Other jobs depend on the job and have not learned how it ended.
    pub(super) const FOLLOWED: u8 = 32;
}

/// Encodes the body of a definition: the job as enqueued.
pub(super) fn pack_job(entry: &Entry, side_parts: bool) -> Vec<u8> {
    let created_at = entry.job.header.created_at;
    let mut pack = Pack::default();
    pack.u8(entry.job.state as u8);
    pack.int(created_at.as_millis());
    place(&mut pack, entry, side_parts, created_at);
    pack.into_bytes()
}

/// Decodes the body of a definition into an entry; returns whether the job has rows in `part`.
pub(super) fn unpack_job(bytes: &[u8], entry: &mut Entry) -> Result<bool> {
    let mut list = Unpack(bytes);
    entry.job.state = codec::state(list.u8()?.into())?;
    let created_at = Timestamp::from_millis(list.int()?);
    entry.job.header.created_at = created_at;
    (entry.job.transitions, entry.job.changed_at) = (1, created_at);
    entry.ready_at = created_at;
    read_place(&mut list, entry, created_at)
}

/// Encodes the body of a row in `life`: the current state of the job.
pub(super) fn pack_life(
    entry: &Entry,
    side_parts: bool,
    latest: Option<&(Lease, Attempt)>,
) -> Result<Vec<u8>> {
    let (job, ready_at) = (&entry.job, entry.ready_at);
    let mut pack = Pack::default();
    pack.int(ready_at.as_millis());
    place(&mut pack, entry, side_parts, ready_at);
    let Counters { attempt, failures, crashes } = job.header.counters;
    [attempt, failures, crashes].into_iter().for_each(|count| pack.int(count.into()));
    time(&mut pack, job.started_at, ready_at);
    time(&mut pack, job.finished_at, ready_at);
    pack.int(job.transitions.into());
    time(&mut pack, Some(job.changed_at), ready_at);
    if let Some((lease, attempt)) = latest {
        pack.u8(codec::attempt_end_code(attempt.end)?);
        time(&mut pack, Some(attempt.ended_at), ready_at);
        pack.token(lease.as_str());
        pack.text(&attempt.worker);
    }
    Ok(pack.into_bytes())
}

/// Decodes the body of a row in `life` into an entry; returns whether the job has rows in `part`.
pub(super) fn unpack_life(bytes: &[u8], entry: &mut Entry) -> Result<bool> {
    let mut list = Unpack(bytes);
    let ready_at = Timestamp::from_millis(list.int()?);
    entry.ready_at = ready_at;
    let side_parts = read_place(&mut list, entry, ready_at)?;
    let mut count = || list.int().map(|count| count as u32);
    let (attempt, failures, crashes) = (count()?, count()?, count()?);
    let job = &mut entry.job;
    job.header.counters = Counters { attempt, failures, crashes };
    job.started_at = read_time(&mut list, ready_at)?;
    job.finished_at = read_time(&mut list, ready_at)?;
    job.transitions = list.int()? as u32;
    job.changed_at = read_time(&mut list, ready_at)?.unwrap_or(ready_at);
    if !list.is_empty() {
        let end = codec::attempt_end(list.u8()?)?;
        let ended_at = read_time(&mut list, ready_at)?.unwrap_or_default();
        let lease = Lease::from(list.token()?);
        let started_at = job.started_at.unwrap_or_default();
        let (number, worker) = (attempt, list.text()?);
        let ended = AttemptFields { number, worker, started_at, ended_at, end, error: None };
        entry.past.push_back((lease, ended.into()));
    }
    Ok(side_parts)
}

/// Encodes the flags, the position in the lane and the scheduled time.
fn place(pack: &mut Pack, entry: &Entry, side_parts: bool, since: Timestamp) {
    let set = |on: bool, flag: u8| if on { flag } else { 0 };
    pack.u8(set(entry.job.cancel_requested, flag::CANCEL_REQUESTED)
        | set(entry.holds_key, flag::HOLDS_KEY)
        | set(entry.job.followed, flag::FOLLOWED)
        | set(side_parts, flag::HAS_PARTS));
    pack.int(entry.job.header.priority.into());
    pack.int(entry.rank);
    pack.int(entry.seq.cast_signed());
    time(pack, Some(entry.job.header.run_at), since);
}

fn read_place(list: &mut Unpack<'_>, entry: &mut Entry, since: Timestamp) -> Result<bool> {
    let flags = list.u8()?;
    entry.job.cancel_requested = flags & flag::CANCEL_REQUESTED != 0;
    entry.holds_key = flags & flag::HOLDS_KEY != 0;
    entry.job.followed = flags & flag::FOLLOWED != 0;
    entry.job.header.priority = list.int()? as i32;
    entry.rank = list.int()?;
    entry.seq = list.int()?.cast_unsigned();
    entry.job.header.run_at = read_time(list, since)?.unwrap_or(since);
    Ok(flags & flag::HAS_PARTS != 0)
}

/// Encodes an optional time as its difference to `since`; one byte if there is none.
fn time(pack: &mut Pack, at: Option<Timestamp>, since: Timestamp) {
    pack.u8(at.is_some().into());
    if let Some(at) = at {
        pack.int(at.as_millis().wrapping_sub(since.as_millis()));
    }
}

fn read_time(list: &mut Unpack<'_>, since: Timestamp) -> Result<Option<Timestamp>> {
    Ok(match list.u8()? {
        0 => None,
        _ => Some(Timestamp::from_millis(since.as_millis().wrapping_add(list.int()?))),
    })
}

/// Whether a new job can be stored as a definition alone, without a row in `life`: it is in a state in which jobs
/// begin, and was not imported from another store, where it had others before.
pub(super) fn is_as_enqueued(entry: &Entry) -> bool {
    let (job, created_at) = (&entry.job, entry.job.header.created_at);
    let begins = match job.state.placement() {
        Placement::Scheduled => true,
        Placement::Ready => entry.ready_at == created_at,
        Placement::Aside | Placement::Leased | Placement::Ended => false,
    };
    begins
        && job.limits.is_empty()
        && job.dependencies.total == 0
        && job.continuation.is_none()
        && job.transitions == 1
        && job.changed_at == created_at
}
