//! Turns the changes of a run into statements: one delete and one insert per table. Makes no decisions.

mod batch;
mod events;
mod groups;
mod place;
mod settings;

use crate::conn::error::{Try, corrupt};
use crate::retention::partitions::OLD_ID_MS;
use crate::rows::codec::{self, Spec, Tail};
use crate::rows::entries::{CANCEL_REQUESTED, FOLLOWED, Found, HOLDS_KEY, JobRow};
use crate::rows::lanes::Lanes;
use crate::slow::load::{COSTLY, EXPIRES, PLAIN, PLAIN_ALONE, PLAIN_IN_GROUP, SUSPECT};
pub(crate) use batch::Batch;
use batch::Columns;
pub(crate) use place::{InGroup, Place};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use windlass_core::model::{Counters, Name, PartName, Parts, Placement, State};
use windlass_core::{JobId, Result};
use windlass_executor::{Entry, Turns, UniqueSlot};
use windlass_workset::{ChangedInput, ChangedJob, ChangedKey, ChangedUnique, StaleDeadline};

/// The rows of one run.
pub(crate) type WorkingSet<'l> = windlass_workset::WorkingSet<'l, JobRow>;

/// The changes of a run, by table.
struct Saver<'a> {
    lanes: &'a Lanes,
    set: &'a WorkingSet<'a>,
    rows: Columns,
    /// Changes of the counts per lane and state.
    counts: BTreeMap<i32, [i64; State::ALL.len()]>,
}

/// The statements that write the changes of a run.
#[derive(Default)]
pub(crate) struct Saves {
    pub(crate) batches: Vec<Batch>,
    /// The lowest number of a job that becomes ready.
    pub(crate) lowest: Option<i64>,
    /// The queues whose events have news for readers.
    pub(crate) events: BTreeSet<Name>,
}

/// The statements for the changes of a run and the turns it took.
pub(crate) fn saves(
    set: &WorkingSet<'_>,
    turns: &HashMap<Name, Turns>,
    lanes: &Lanes,
) -> Try<Saves> {
    let mut saver = Saver { lanes, set, rows: Columns::default(), counts: BTreeMap::new() };
    for changed in set.changed() {
        saver.job(&changed)?;
    }
    saver.keys();
    saver.edges()?;
    saver.turns(turns);
    saver.settings()?;
    saver.groups()?;
    for StaleDeadline { queue, at, id } in &set.base().stale {
        let (at, id) = (at.as_millis(), id.as_uuid());
        match queue {
            Some(queue) => saver.rows.not_aging.push(queue.to_string(), at, id),
            None => saver.rows.no_deadline.push(EXPIRES, at, id),
        }
    }
    saver.tallies();
    saver.removed();
    let events = saver.events()?;
    let lowest = saver.rows.ready.lowest();
    Ok(Saves { batches: saver.rows.into_batches(), lowest, events })
}

/// The statements that insert jobs into the tables of their states, for a repair. Leases and fast-path completions stay
/// as they are.
pub(crate) fn places(set: &WorkingSet<'_>, lanes: &Lanes, jobs: &[Found]) -> Try<Vec<Batch>> {
    let mut saver = Saver { lanes, set, rows: Columns::default(), counts: BTreeMap::new() };
    for found in jobs {
        let Found { entry, row: JobRow { lane, straight, .. } } = found;
        let place = Place::of(entry);
        if *straight || place.state == State::Running {
            saver.counts.entry(*lane).or_default()[place.state as usize] += 1;
        } else {
            saver.enter(entry, &place, *lane);
        }
        if let Some(key) = entry.job.header.key.clone().filter(|_| entry.holds_key) {
            let queue = entry.job.header.queue.to_string();
            saver.rows.key_taken.push(queue, key, entry.id().as_uuid());
        }
    }
    saver.tallies();
    Ok(saver.rows.into_batches())
}

impl Saver<'_> {
    fn job(&mut self, changed: &ChangedJob<'_, JobRow>) -> Result<()> {
        let before = changed.before.map(|found| (Place::of(&found.entry), found.row.lane));
        let Some(entry) = changed.after else {
            if let Some((found, (place, lane))) = changed.before.zip(before) {
                let id = found.entry.id();
                self.leave(id, &found.entry.job.header.queue, &place, lane);
                self.rows.gone.push(id.as_uuid());
                // A survey of its partition may have counted it as one of those that go with the partition.
                if found.row.straight {
                    self.touch(id);
                }
            }
            return Ok(());
        };
        let header = &entry.job.header;
        let lane = self.lanes.number(&header.queue, &header.kind);
        let lane = lane.ok_or_else(|| corrupt(&"a lane without a number"))?;
        match changed.before {
            None => self.define(entry, lane)?,
            Some(found) => self.live(found, entry)?,
        }
        let place = Place::of(entry);
        match changed.before.zip(before) {
            Some((found, before)) => self.move_job(found, before, entry, (place, lane)),
            None => self.enter(entry, &place, lane),
        }
        Ok(())
    }

    /// Voids a survey of the job's partition.
    fn touch(&mut self, id: JobId) {
        let test_now = self.set.base().test_now.map(|now| now.as_millis());
        self.rows.touched.push(id.as_uuid(), test_now, OLD_ID_MS as i64);
    }

    /// Adds removed jobs to the history.
    fn removed(&mut self) {
        for (key, count) in self.set.removed() {
            self.rows.removed.push(
                key.hour.as_millis(),
                key.queue.to_string(),
                key.kind.to_string(),
                key.tenant.clone().unwrap_or_default(),
                key.outcome as i16,
                count.cast_signed(),
            );
        }
    }

    /// Moves a job from its place and lane to others.
    fn move_job(
        &mut self,
        found: &Found,
        (was, was_in): (Place, i32),
        entry: &Entry,
        (place, lane): (Place, i32),
    ) {
        if was == place {
            return;
        }
        if was.state.is_terminal() && !place.state.is_terminal() || was_in != lane {
            self.rows.revived.push(lane);
        }
        if was_in != lane {
            self.rows.other_lane.push(entry.id().as_uuid(), lane);
        }
        self.leave(entry.id(), &found.entry.job.header.queue, &was, was_in);
        self.enter(entry, &place, lane);
    }

    /// Writes a new job.
    fn define(&mut self, entry: &Entry, lane: i32) -> Result<()> {
        let (job, header) = (&entry.job, &entry.job.header);
        self.touch(header.id);
        let payload = job.parts.payload.as_ref();
        // A follow-up may be claimed by the step that creates it: it was ready in between.
        let state = if job.state == State::Running { State::Available } else { job.state };
        self.rows.job.push(
            header.id.as_uuid(),
            header.created_at.as_millis(),
            header.run_at.as_millis(),
            entry.rank,
            entry.seq.cast_signed(),
            lane,
            header.priority,
            state as i16,
            codec::to_text(&Spec::of(header))?,
            payload.map(|part| part.bytes.to_vec()),
            payload.map(codec::envelope_text).transpose()?.flatten(),
        );
        let defined = Parts { payload: job.parts.payload.clone(), ..Parts::default() };
        self.parts(&defined, entry)?;
        if is_as_enqueued(entry) { Ok(()) } else { self.life(entry, false) }
    }

    /// Writes the changes of a job.
    fn live(&mut self, found: &Found, entry: &Entry) -> Result<()> {
        let before = &found.entry;
        self.parts(&before.job.parts, entry)?;
        let claimed_only = before.job.state == State::Available
            && entry.job.state == State::Running
            && before.past.len() == entry.past.len();
        if claimed_only {
            return Ok(());
        }
        let changed = before.job.header.policy != entry.job.header.policy;
        self.life(entry, found.row.policy_changed || changed)
    }

    fn life(&mut self, entry: &Entry, policy_changed: bool) -> Result<()> {
        let (job, header) = (&entry.job, &entry.job.header);
        self.rows.life.push(
            header.id.as_uuid(),
            header.run_at.as_millis(),
            entry.rank,
            entry.seq.cast_signed(),
            entry.ready_at.as_millis(),
            job.started_at.map(|at| at.as_millis()),
            job.finished_at.map(|at| at.as_millis()),
            job.changed_at.as_millis(),
            job.transitions.into(),
            header.priority,
            header.counters.attempt.into(),
            header.counters.failures.into(),
            header.counters.crashes.into(),
            job.state as i16,
            flags(entry),
            codec::to_text(&Tail::of(entry, policy_changed))?,
        );
        Ok(())
    }

    fn parts(&mut self, before: &Parts, entry: &Entry) -> Result<()> {
        let id = entry.id().as_uuid();
        for name in PartName::ALL {
            let (was, is, number) = (before.get(name), entry.job.parts.get(name), name as i16);
            if was == is {
                continue;
            }
            match is {
                Some(part) => {
                    let envelope = codec::envelope_text(part)?;
                    self.rows.part.push(id, number, Some(part.bytes.to_vec()), envelope);
                }
                // The definition still has a payload: mark it as removed.
                None if name == PartName::Payload => self.rows.part.push(id, number, None, None),
                None => self.rows.no_part.push(id, number),
            }
        }
        Ok(())
    }

    fn leave(&mut self, id: JobId, queue: &Name, place: &Place, lane: i32) {
        self.counts.entry(lane).or_default()[place.state as usize] -= 1;
        let (rows, id) = (&mut self.rows, id.as_uuid());
        match place.state.placement() {
            Placement::Ready => rows.not_ready.push(lane, place.rank, place.seq),
            Placement::Scheduled => rows.not_scheduled.push(place.run_at, place.seq),
            Placement::Aside => rows.not_aside.push(id),
            Placement::Leased => rows.not_leased.push(id),
            Placement::Ended => rows.not_finished.push(id),
        }
        if let Some((work, at)) = place.deadline {
            rows.no_deadline.push(work, at, id);
        }
        if place.ages && self.set.base().settings_of(queue).max_wait_ms.is_some() {
            rows.not_aging.push(queue.to_string(), place.run_at, id);
        }
        if place.unresolved {
            rows.resolved.push(id);
        }
        if let Some((queue, key, seq)) = &place.in_line {
            rows.not_in_line.push(queue.to_string(), key.clone(), *seq);
        }
        if let Some(InGroup { group, priority, run_at, seq, .. }) = place.in_group.clone() {
            rows.not_in_group.push(group, lane, priority, run_at, seq);
        }
    }

    fn enter(&mut self, entry: &Entry, place: &Place, lane: i32) {
        self.counts.entry(lane).or_default()[place.state as usize] += 1;
        let (id, queue) = (entry.id().as_uuid(), &entry.job.header.queue);
        let (rows, state) = (&mut self.rows, place.state as i16);
        match place.state.placement() {
            Placement::Ready => rows.ready.push(lane, marks(entry), place.rank, place.seq, id),
            Placement::Scheduled => rows.scheduled.push(place.run_at, place.seq, id, lane),
            Placement::Aside => rows.aside.push(id, lane, state),
            Placement::Leased => self.lease(entry, place, lane),
            Placement::Ended => {
                let at = entry.job.finished_at.unwrap_or_default().as_millis();
                rows.finished.push(id, at, lane, state, place.deadline.is_some() || place.read);
            }
        }
        let rows = &mut self.rows;
        if let Some((work, at)) = place.deadline {
            rows.deadline.push(work, at, id);
        }
        if place.ages && self.set.base().settings_of(queue).max_wait_ms.is_some() {
            rows.aging.push(queue.to_string(), place.run_at, id);
        }
        if place.unresolved {
            rows.unresolved.push(id);
        }
        if let Some((queue, key, seq)) = &place.in_line {
            rows.in_line.push(queue.to_string(), key.clone(), *seq, id);
        }
        if let Some(InGroup { group, priority, run_at, seq, cost, limit }) = place.in_group.clone()
        {
            rows.in_group.push(group, lane, priority, run_at, seq, id, cost, limit);
        }
    }

    fn lease(&mut self, entry: &Entry, place: &Place, lane: i32) {
        let Some((leased, token)) = entry.leased.as_ref().zip(place.token) else { return };
        // The session of a single claim ends with its last lease, which the fast path would not notice.
        let header = &entry.job.header;
        let by_group = self.set.counts_groups(&(header.queue.clone(), header.kind.clone()));
        let is_recorded = self.set.base().settings_of(&header.queue).events.is_some();
        let is_plain = !is_recorded && entry.job.completes_plainly(false);
        let marks = match (is_plain, by_group, self.set.is_alone(&leased.session)) {
            (true, false, true) => PLAIN_ALONE,
            (true, false, false) => PLAIN,
            (true, true, false) => PLAIN_IN_GROUP,
            (true, true, true) | (false, ..) => 0,
        };
        self.rows.lease.push(
            entry.id().as_uuid(),
            token,
            leased.claim_no.cast_signed(),
            leased.started_at.as_millis(),
            place.seq,
            entry.job.header.counters.attempt.into(),
            lane,
            marks,
            leased.session.to_string(),
            by_group.then(|| header.limit_group().to_owned()),
        );
    }

    fn keys(&mut self) {
        for ChangedKey { queue, key, before, after } in self.set.changed_keys() {
            let (queue, key) = (queue.to_string(), key.to_owned());
            match (before, after) {
                (None, Some(id)) => self.rows.key_taken.push(queue, key, id.as_uuid()),
                (Some(_), Some(id)) => self.rows.key_moved.push(queue, key, id.as_uuid()),
                (_, None) => self.rows.key_freed.push(queue, key),
            }
        }
        for changed in self.set.changed_uniques() {
            self.unique(&changed);
        }
    }

    fn edges(&mut self) -> Result<()> {
        for ChangedInput { dependent, position, input } in self.set.changed_inputs() {
            self.rows.edge.push(
                dependent.as_uuid(),
                position.cast_signed(),
                input.job.as_uuid(),
                input.is_open(),
                codec::input_text(input)?,
            );
        }
        Ok(())
    }

    fn unique(&mut self, changed: &ChangedUnique<'_>) {
        let UniqueSlot { queue, kind, key } = changed.slot.clone();
        match (changed.before, changed.after) {
            (Some(_), None) => self.rows.unique_freed.push(queue, kind, key),
            (None, Some(hold)) => {
                let until = hold.until.map(|until| until.as_millis());
                self.rows.unique_taken.push(queue, kind, key, hold.holder.as_uuid(), until);
            }
            (Some(_), Some(hold)) => {
                let until = hold.until.map(|until| until.as_millis());
                self.rows.unique_moved.push(queue, kind, key, hold.holder.as_uuid(), until);
            }
            (None, None) => {}
        }
    }

    fn turns(&mut self, turns: &HashMap<Name, Turns>) {
        for changed in self.set.changed_turns(turns) {
            for (tenant, before, turn) in changed.tenants {
                let queue = changed.queue.to_string();
                let tenant = tenant.clone().unwrap_or_default();
                match before {
                    None => self.rows.turn_begun.push(queue, tenant, turn),
                    Some(_) => self.rows.turn_taken.push(queue, tenant, turn),
                }
            }
            if let Some(served) = changed.served {
                self.rows.served.push(changed.queue.to_string(), served);
            }
        }
    }

    fn tallies(&mut self) {
        for (lane, counts) in &self.counts {
            // Written only if a count has changed.
            if counts.iter().all(|count| *count == 0) {
                continue;
            }
            let count = |state: State| counts[state as usize];
            self.rows.tally.push(
                *lane,
                count(State::Scheduled),
                count(State::Blocked),
                count(State::Available),
                count(State::Running),
                count(State::Paused),
                count(State::Completed),
                count(State::Dead),
                count(State::Cancelled),
                count(State::Expired),
            );
        }
    }
}

/// Whether the definition alone describes a new job.
fn is_as_enqueued(entry: &Entry) -> bool {
    let job = &entry.job;
    let usual = match job.state {
        State::Scheduled | State::Blocked => !entry.holds_key,
        State::Available | State::Running => {
            entry.holds_key == job.header.key.is_some() && entry.ready_at == job.header.created_at
        }
        State::Paused | State::Completed | State::Dead | State::Cancelled | State::Expired => false,
        // The row in `life` describes any state.
        _ => false,
    };
    let counters = Counters { attempt: 0, ..job.header.counters } == Counters::default();
    // The lease records a claim.
    let is_leased = job.state == State::Running;
    let entered = job.transitions == 1 + u32::from(is_leased)
        && (is_leased || job.changed_at == job.header.created_at);
    // A lane's settings name the limits of a running job.
    let unlimited = is_leased || job.limits.is_empty();
    usual
        && entered
        && counters
        && unlimited
        && job.continuation.is_none()
        && job.dependencies.total == 0
        && !job.followed
        && entry.past.is_empty()
}

fn flags(entry: &Entry) -> i16 {
    let flag = |is: bool, bit: i16| if is { bit } else { 0 };
    flag(entry.holds_key, HOLDS_KEY)
        | flag(entry.job.cancel_requested, CANCEL_REQUESTED)
        | flag(entry.job.followed, FOLLOWED)
}

/// The flags of a job for claims and completions.
fn marks(entry: &Entry) -> i16 {
    let suspect = if entry.job.header.counters.is_suspect() { SUSPECT } else { 0 };
    // Of a ready job, only limits by group are recorded.
    let plain = entry.job.completes_plainly(!entry.job.limits.is_empty());
    let plain = if plain { PLAIN } else { 0 };
    let costly = if entry.job.header.cost == 1 { 0 } else { COSTLY };
    suspect | plain | costly
}
