//! Reads jobs: combines definition, life, lease and end into an entry of the executor.

use crate::conn::Conn;
use crate::conn::Row;
use crate::conn::error::Try;
use crate::rows::codec::{self, Spec, Tail};
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::engine::SessionId;
use windlass_core::model::{
    AttemptEnd, Counters, Finish, Header, HeaderFields, Job, Part, PartName, PartSet, Parts, State,
};
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::{Entry, LaneKey, Leased};

/// The columns of a job, in the order in which [`one`] reads them: of `job` (j), `life` (l), `lease` (e), the worker's
/// name, and of `finished` (f).
macro_rules! job_columns {
    ($with_payload:literal, $worker:literal, $end:literal) => {
        concat!(
            "j.id, j.lane, j.priority, j.run_at, j.created_at, j.state, j.rank, j.seq, j.spec,
                j.payload IS NOT NULL, CASE WHEN ",
            $with_payload,
            " THEN j.payload END, j.envelope,
                l.state, l.rank, l.seq, l.ready_at, l.run_at, l.priority, l.attempt, l.failures,
                l.crashes, l.flags, l.started_at, l.finished_at, l.tail,
                e.token, e.session, e.claim_no, e.started_at, e.attempt, e.seq, ",
            $worker,
            ", ",
            $end
        )
    };
}
pub(crate) use job_columns;

/// The columns of a session, in the order in which the loader reads them. `$expires_at` replaces the column.
macro_rules! session_columns {
    ($expires_at:literal) => {
        concat!("id, worker, opened_at, ttl_ms, ", $expires_at, ", alone, remote")
    };
}
pub(crate) use session_columns;

/// Selects jobs with all their rows, from `$which`, in which `j` is the job. `$2`: whether with the payload.
///
/// `= ANY(ARRAY[x])` here and elsewhere is an `=` that the planner cannot turn into a scan of the whole index: a table
/// that was nearly empty at its last ANALYZE looks cheap to scan, and may be full of dead rows by now.
macro_rules! read_jobs {
    ($which:literal) => {
        concat!(
            "SELECT ",
            $crate::rows::entries::job_columns!(
                "$2",
                "s.worker",
                "f.state, f.at, f.token, f.worker, f.started_at, f.attempt, f.result,
                l.transitions, l.changed_at"
            ),
            " FROM ",
            $which,
            " LEFT JOIN {s}.life l ON l.id = ANY(ARRAY[j.id])
            LEFT JOIN {s}.lease e ON e.id = ANY(ARRAY[j.id])
            LEFT JOIN {s}.session s ON s.id = ANY(ARRAY[e.session])
            LEFT JOIN {s}.finished f ON f.id = ANY(ARRAY[j.id])"
        )
    };
}
pub(crate) use read_jobs;

pub(crate) const BY_ID: &str =
    concat!(read_jobs!("unnest($1::uuid[]) w (id) JOIN {s}.job j ON j.id = ANY(ARRAY[w.id])"));
/// `$2` names by bits the parts to load; of the others only their presence.
pub(crate) const PARTS: &str = "SELECT p.id, p.name, p.bytes IS NOT NULL,
    CASE WHEN (1 << p.name) & $2 <> 0 THEN p.bytes END, p.envelope
    FROM {s}.part p WHERE p.id = ANY($1)";

/// Numbers of jobs that a transaction may use under one number of the sequence `entry`, as bits.
pub(crate) const SEQ_BITS: u32 = 20;

/// Bits of `life.flags`.
pub(crate) const HOLDS_KEY: i16 = 1;
pub(crate) const CANCEL_REQUESTED: i16 = 8;
pub(crate) const FOLLOWED: i16 = 16;

/// The columns of a job's rows that only this store needs.
#[derive(Clone, Debug)]
pub(crate) struct JobRow {
    pub(crate) lane: i32,
    /// Whether a replay has changed the policy.
    pub(crate) policy_changed: bool,
    /// Whether the fast path completed the job directly from its lease.
    pub(crate) straight: bool,
}

/// A stored job.
pub(crate) type Found = windlass_workset::Found<JobRow>;

/// The parts to load, as bits.
pub(crate) fn part_bits(set: PartSet) -> i32 {
    let bit = |name: PartName| i32::from(set.has(name)) << name as i32;
    PartName::ALL.into_iter().map(bit).sum()
}

/// Reads rows of [`read_jobs`] and of [`PARTS`].
pub(crate) async fn found(
    conn: &Conn<'_>,
    jobs: &[Row],
    parts: &[Row],
) -> Try<HashMap<JobId, Found>> {
    let numbers: Vec<i32> = jobs.iter().map(|row| row.get(1)).collect();
    let names = conn.lanes.names(conn, &numbers).await?;
    let mut found = HashMap::with_capacity(jobs.len());
    for row in jobs {
        let job = one(row, &names)?;
        found.insert(job.entry.id(), job);
    }
    for row in parts {
        if let Some(job) = found.get_mut(&job_id(row.get(0))) {
            add_part(row, &mut job.entry.job.parts)?;
        }
    }
    Ok(found)
}

pub(crate) fn job_id(id: Uuid) -> JobId {
    JobId::from_uuid(id)
}

pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// Decodes a counter; saturates.
pub(crate) fn counter(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}

/// Reads a job from its row, without parts other than the payload.
pub(crate) fn one(row: &Row, names: &HashMap<i32, LaneKey>) -> Result<Found> {
    let lane: i32 = row.get(1);
    let (queue, kind) = names.get(&lane).cloned().unwrap_or_else(|| ("".into(), "".into()));
    let spec: Spec = codec::from_text(row.get(8))?;
    let created_at = at(row.get(4));
    let header = Header::from(HeaderFields {
        id: job_id(row.get(0)),
        queue,
        kind,
        priority: row.get(2),
        run_at: at(row.get(3)),
        created_at,
        tenant: spec.tenant,
        key: spec.key,
        group: spec.group,
        cost: spec.cost.unwrap_or(1),
        unique: spec.unique,
        parent: spec.parent,
        flow: spec.flow,
        tags: spec.tags,
        trace: spec.trace,
        policy: spec.policy,
        counters: Counters::default(),
    });
    let state = codec::state(row.get(5))?;
    let mut entry = Entry::new(Job::new(header, state, Parts::default()));
    entry.job.transitions = 1;
    entry.job.parts.payload = payload(row)?;
    entry.rank = row.get(6);
    entry.seq = row.get::<_, i64>(7).cast_unsigned();
    if state == State::Available {
        entry.ready_at = created_at;
        entry.holds_key = entry.job.header.key.is_some();
    }
    let defined = entry.job.header.policy.clone();
    if row.get::<_, Option<i16>>(12).is_some() {
        add_life(row, &mut entry)?;
    }
    add_lease(row, &mut entry);
    add_end(row, &mut entry)?;
    let policy_changed = entry.job.header.policy != defined;
    let straight = row.get::<_, Option<Uuid>>(34).is_some();
    Ok(Found { entry, row: JobRow { lane, policy_changed, straight } })
}

fn payload(row: &Row) -> Result<Option<Part>> {
    if !row.get::<_, bool>(9) {
        return Ok(None);
    }
    match row.get::<_, Option<Vec<u8>>>(10) {
        Some(bytes) => codec::part(bytes, row.get(11)).map(Some),
        None => Ok(Some(codec::not_loaded())),
    }
}

fn add_life(row: &Row, entry: &mut Entry) -> Result<()> {
    entry.job.state = codec::state(row.get(12))?;
    entry.rank = row.get(13);
    entry.seq = row.get::<_, i64>(14).cast_unsigned();
    entry.ready_at = at(row.get(15));
    let flags: i16 = row.get(21);
    entry.holds_key = flags & HOLDS_KEY != 0;
    let job = &mut entry.job;
    job.cancel_requested = flags & CANCEL_REQUESTED != 0;
    job.followed = flags & FOLLOWED != 0;
    job.header.run_at = at(row.get(16));
    job.header.priority = row.get(17);
    job.header.counters = Counters {
        attempt: counter(row.get(18)),
        failures: counter(row.get(19)),
        crashes: counter(row.get(20)),
    };
    job.started_at = row.get::<_, Option<i64>>(22).map(at);
    job.finished_at = row.get::<_, Option<i64>>(23).map(at);
    job.transitions = row.get::<_, Option<i64>>(39).map_or(1, counter);
    job.changed_at = row.get::<_, Option<i64>>(40).map_or(job.changed_at, at);
    codec::from_text::<Tail>(row.get(24))?.add_to(entry);
    Ok(())
}

fn add_lease(row: &Row, entry: &mut Entry) {
    let Some(token) = row.get::<_, Option<Uuid>>(25) else { return };
    let started_at = at(row.get(28));
    // The claim, unless `life` was written since and includes it.
    if entry.job.state != State::Running {
        entry.job.transitions = entry.job.transitions.saturating_add(1);
    }
    entry.job.changed_at = started_at;
    entry.job.state = State::Running;
    entry.job.started_at = Some(started_at);
    entry.job.header.counters.attempt = counter(row.get(29));
    entry.seq = row.get::<_, i64>(30).cast_unsigned();
    entry.leased = Some(Leased {
        lease: codec::lease(token),
        session: SessionId::new(row.get::<_, String>(26)),
        claim_no: row.get::<_, i64>(27).cast_unsigned(),
        worker: row.get::<_, Option<String>>(31).unwrap_or_default(),
        started_at,
    });
}

/// Adds the end of a job that the fast path completed, as the executor would have written it.
fn add_end(row: &Row, entry: &mut Entry) -> Result<()> {
    let Some(state) = row.get::<_, Option<i16>>(32) else { return Ok(()) };
    let was = std::mem::replace(&mut entry.job.state, codec::state(state)?);
    let Some(token) = row.get::<_, Option<Uuid>>(34) else { return Ok(()) };
    // The claim, unless `life` includes it, and the completion.
    let entered = if was == State::Running { 1 } else { 2 };
    entry.job.transitions = entry.job.transitions.saturating_add(entered);
    entry.job.changed_at = at(row.get(33));
    let (ended_at, started_at) = (at(row.get(33)), at(row.get(36)));
    entry.job.header.counters.attempt = counter(row.get(37));
    entry.job.header.counters.crashes = 0;
    // Those of the ready job, if `life` has them.
    entry.job.limits.clear();
    entry.job.started_at = Some(started_at);
    entry.leased = Some(Leased {
        lease: codec::lease(token),
        session: SessionId::new(""),
        claim_no: 0,
        worker: row.get(35),
        started_at,
    });
    entry.end_attempt(AttemptEnd::Complete, None, ended_at);
    entry.job.finished_at = Some(ended_at);
    entry.job.finish = Some(Finish::Completed);
    entry.job.result = row.get::<_, Option<Vec<u8>>>(38).map(Part::new);
    Ok(())
}

fn add_part(row: &Row, parts: &mut Parts) -> Result<()> {
    let name = usize::try_from(row.get::<_, i16>(1)).ok().and_then(|name| PartName::ALL.get(name));
    let name = *name.ok_or_else(|| crate::conn::error::corrupt(&"a part without a name"))?;
    let part = match (row.get::<_, bool>(2), row.get::<_, Option<Vec<u8>>>(3)) {
        // The payload was removed.
        (false, _) => None,
        (true, Some(bytes)) => Some(codec::part(bytes, row.get(4))?),
        (true, None) => Some(codec::not_loaded()),
    };
    *parts.slot(name) = part;
    Ok(())
}
