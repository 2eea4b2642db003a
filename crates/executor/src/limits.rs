//! Limits: which of them a job runs under, whether they have room, and the lines of groups.
//!
//! A limit over all jobs is a gate of its lanes. A limit by group keeps surplus jobs out of ready: each lane has one
//! line per group, and lets only as many of its jobs become ready as could start now. Slots and tokens are taken when a
//! job starts, all of them in one step. A lane that shares a limit with others may lose the race for it; the claim then
//! returns its job to the line.

use crate::commit::Transition;
use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::{GroupLine, LaneKey, LinePlace, Rows};
use windlass_core::engine::{Capability, Hold, HoldOn, Take, Took};
use windlass_core::limits::LINE_RELEASES_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::{Header, Limit, Name, NewJob, State};
use windlass_core::policy::{Ahead, Room};
use windlass_core::{Error, JobId, Result, Timestamp};

/// The reason why a job cannot become ready or start.
pub(crate) struct Refusal {
    /// A limit without room.
    limit: Name,
    /// When all limits have room, if time alone decides that.
    opens_at: Option<Timestamp>,
}

/// Whether a claim may start the first job of a lane.
#[derive(Clone, Copy)]
pub(crate) enum Admission {
    /// All limits have room.
    Start,
    /// A limit over all jobs has no room: the lane is closed.
    Closed,
    /// A limit of the job's group has no room: the job returns to its line.
    Defer,
}

/// Places in limits that a transition gave up, and the line that the job joined.
#[derive(Default)]
pub(crate) struct Left {
    /// The state that the job left, and its limits there.
    was: Option<(State, Vec<Name>)>,
    lane: Option<LaneKey>,
    group: String,
    /// The lane in which the job is in line now.
    joined: Option<LaneKey>,
}

/// The lane of a job.
pub(crate) fn lane_of(header: &Header) -> LaneKey {
    (header.queue.clone(), header.kind.clone())
}

impl<R: Rows> Executor<R> {
    /// The limits that jobs of a lane run under: those of its queue, then those of its kind, each once.
    pub(crate) fn limits_of(&self, (queue, kind): &LaneKey) -> Vec<(&Name, &Limit)> {
        if self.limits.is_empty() {
            return Vec::new();
        }
        let of_queue = self.queues.get(queue).map_or(&[][..], |settings| &settings.limits);
        let of_kind = self.kinds.get(kind).map_or(&[][..], |settings| &settings.limits);
        let of_kind = of_kind.iter().filter(|name| !of_queue.contains(name));
        let listed = of_queue.iter().chain(of_kind);
        listed.filter_map(|name| self.limits.get_key_value(name)).collect()
    }

    /// The names of a lane's limits.
    pub(crate) fn names_of_limits(&self, lane: &LaneKey) -> Vec<Name> {
        self.limits_of(lane).into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// The names of a lane's limits by group.
    fn group_limits_of(&self, lane: &LaneKey) -> Vec<Name> {
        let limits = self.limits_of(lane).into_iter();
        limits.filter(|(_, limit)| limit.by_group).map(|(name, _)| name.clone()).collect()
    }

    /// Whether a limit has room for one more job of a group, after the jobs ahead of it.
    pub(crate) fn room_under(
        &self,
        (name, limit): (&Name, &Limit),
        group: &str,
        ahead: Ahead,
        cost: u32,
        now: Timestamp,
    ) -> Result<Room> {
        let running = self.rows.running_under(name, limit.by_group.then_some(group))?;
        let rule = limit.rule_for(group);
        self.rows.with_meter(name, limit.counted_in(group), |meter| {
            rule.room(running, meter, ahead, cost, now)
        })
    }

    /// Whether the limits over all jobs have room for a job of this lane.
    pub(crate) fn room_over_all(&self, lane: &LaneKey, cost: u32, now: Timestamp) -> Result<Room> {
        self.room_after(lane, Ahead::default(), cost, now)
    }

    fn room_after(&self, lane: &LaneKey, ahead: Ahead, cost: u32, now: Timestamp) -> Result<Room> {
        let mut room = Room::Now;
        for limit in self.limits_of(lane).into_iter().filter(|(_, limit)| !limit.by_group) {
            room = room.and(self.room_under(limit, "", ahead, cost, now)?);
        }
        Ok(room)
    }

    /// How many jobs of cost 1 of a lane without limits by group may start now, up to `most`. For stores that start plain
    /// jobs by themselves; they must report the starts to [`started`](Self::started).
    pub fn may_start(&self, lane: &LaneKey, most: u32, now: Timestamp) -> Result<u32> {
        // All smaller numbers may start if one may: search for the first that may not.
        let (mut from, mut upto) = (0, most);
        while from < upto {
            let middle = from + (upto - from) / 2;
            let ahead = Ahead { jobs: middle, cost: middle.into() };
            match self.room_after(lane, ahead, 1, now)? {
                Room::Now => from = middle + 1,
                Room::At(_) | Room::Later => upto = middle,
            }
        }
        Ok(from)
    }

    /// Takes the tokens of jobs of cost 1 that a store has started by itself.
    pub fn started(&mut self, lane: &LaneKey, jobs: u32, now: Timestamp) -> Result<()> {
        let rated = |(name, limit): (&Name, &Limit)| {
            limit.rule.rate.is_some().then(|| (name.clone(), limit.rule))
        };
        let rated: Vec<_> = self.limits_of(lane).into_iter().filter_map(rated).collect();
        for (name, rule) in rated {
            let mut meter = self.rows.with_meter(&name, "", Clone::clone)?;
            rule.take(&mut meter, jobs, now);
            self.rows.save_meter(&name, "", &meter)?;
        }
        Ok(())
    }

    /// Why a job of a group cannot start after the jobs ahead of it; `None`: all limits by group have room.
    pub(crate) fn refusal(
        &self,
        lane: &LaneKey,
        group: &str,
        ahead: Ahead,
        cost: u32,
        now: Timestamp,
    ) -> Result<Option<Refusal>> {
        let (mut all, mut first) = (Room::Now, None);
        for (name, limit) in self.limits_of(lane).into_iter().filter(|(_, limit)| limit.by_group) {
            let room = self.room_under((name, limit), group, ahead, cost, now)?;
            if !room.is_now() {
                first.get_or_insert(name);
            }
            all = all.and(room);
        }
        let opens_at = match all {
            Room::At(at) => Some(at),
            Room::Now | Room::Later => None,
        };
        Ok(first.map(|limit| Refusal { limit: limit.clone(), opens_at }))
    }

    /// The limit by group that keeps a job from becoming ready, if any: one without room, or the one that a job ahead of
    /// it in line waits for.
    pub(crate) fn limit_before(
        &self,
        entry: &Entry,
        data: &Transition,
        now: Timestamp,
    ) -> Result<Option<Name>> {
        if self.limits.is_empty() {
            return Ok(None);
        }
        let header = &entry.job.header;
        let mut lane = lane_of(header);
        if let Some(queue) = &data.queue {
            lane.0.clone_from(queue);
        }
        if self.limits_of(&lane).iter().all(|(_, limit)| !limit.by_group) {
            return Ok(None);
        }
        let group = header.limit_group();
        let line = self.rows.group_line(&lane, group)?;
        let place = LinePlace {
            priority: data.priority.unwrap_or(header.priority),
            run_at: data.run_at.unwrap_or(header.run_at),
            seq: if entry.in_group_line() { entry.seq } else { u64::MAX },
        };
        // A job that is ready was ahead of those in line.
        let waits = entry.job.state != State::Available;
        if let Some(first) = line.first.filter(|first| waits && first.place < place) {
            return Ok(Some(first.limit));
        }
        let refusal = self.refusal(&lane, group, line.ahead, header.cost, now)?;
        Ok(refusal.map(|refusal| refusal.limit))
    }

    /// Puts a job into the line of its group, for the limit that keeps it from becoming ready.
    pub(crate) fn join_line(&self, entry: &mut Entry, now: Timestamp) -> Result<()> {
        let limit = match self.limit_before(entry, &Transition::default(), now)? {
            Some(limit) => Some(limit),
            None => self.group_limits_of(&lane_of(&entry.job.header)).into_iter().next(),
        };
        entry.job.limits = limit.into_iter().collect();
        Ok(())
    }

    /// Counts a job that becomes ready in the limits by group of its lane.
    pub(crate) fn count_ready(&self, entry: &mut Entry) {
        if self.limits.is_empty() {
            return;
        }
        entry.job.limits = self.group_limits_of(&lane_of(&entry.job.header));
    }

    /// Takes the slots and tokens of all limits of a job that starts.
    pub(crate) fn take_limits(&mut self, entry: &mut Entry, now: Timestamp) -> Result<()> {
        if self.limits.is_empty() {
            return Ok(());
        }
        let header = &entry.job.header;
        let group = header.limit_group();
        let limits = self.limits_of(&lane_of(header)).into_iter();
        let limits: Vec<_> = limits
            .map(|(name, limit)| (name.clone(), limit.rule_for(group), limit.counted_in(group)))
            .collect();
        for (name, rule, counted_in) in &limits {
            if rule.rate.is_some() {
                let mut meter = self.rows.with_meter(name, counted_in, Clone::clone)?;
                rule.take(&mut meter, header.cost, now);
                self.rows.save_meter(name, counted_in, &meter)?;
            }
        }
        entry.job.limits = limits.into_iter().map(|(name, ..)| name).collect();
        Ok(())
    }

    /// Whether a claim may start a ready job of a lane with limits.
    pub(crate) fn admission(&self, entry: &Entry, now: Timestamp) -> Result<Admission> {
        let header = &entry.job.header;
        let (lane, cost) = (lane_of(header), header.cost);
        if !self.room_over_all(&lane, cost, now)?.is_now() {
            return Ok(Admission::Closed);
        }
        let refusal = self.refusal(&lane, header.limit_group(), Ahead::default(), cost, now)?;
        Ok(refusal.map_or(Admission::Start, |_| Admission::Defer))
    }

    /// Returns a ready job to the line of its group.
    pub(crate) fn defer(&mut self, id: JobId, now: Timestamp) -> Result<()> {
        self.apply(id, EventKind::Defer, Transition::default(), now).map(|_| ())
    }

    /// Takes a job out of the limits of the state that it leaves. A running job counts under all limits that its lane
    /// has now.
    pub(crate) fn leave_limits(&self, entry: &mut Entry) -> Left {
        if self.limits.is_empty() && entry.job.limits.is_empty() {
            return Left::default();
        }
        let mut limits = std::mem::take(&mut entry.job.limits);
        let (header, state) = (&entry.job.header, entry.job.state);
        if state == State::Running {
            limits = self.names_of_limits(&lane_of(header));
        }
        if limits.is_empty() {
            return Left::default();
        }
        let (lane, group) = (lane_of(header), header.limit_group().to_owned());
        Left { was: Some((state, limits)), lane: Some(lane), group, joined: None }
    }

    /// Records the line that a job is in after its transition.
    pub(crate) fn note_line(entry: &Entry, left: &mut Left) {
        if entry.in_group_line() {
            let header = &entry.job.header;
            left.joined = Some(lane_of(header));
            left.group = header.limit_group().to_owned();
        }
    }

    /// Examines the lines that a transition may have opened or filled.
    pub(crate) fn examine_left(&mut self, left: Left, now: Timestamp) -> Result<()> {
        let Left { was, lane, group, joined } = left;
        match (was, lane) {
            (Some((State::Running, limits)), _) => self.examine_sharing(&limits, &group, now)?,
            (Some(_), Some(lane)) => self.examine_line(&lane, &group, now)?,
            _ => {}
        }
        joined.map_or(Ok(()), |lane| self.examine_line(&lane, &group, now))
    }

    /// Examines all lines of a group that wait for one of these limits, and wakes waiting claims for limits over all
    /// jobs.
    fn examine_sharing(&mut self, freed: &[Name], group: &str, now: Timestamp) -> Result<()> {
        let by_group = |name: &&Name| self.limits.get(*name).is_some_and(|limit| limit.by_group);
        let groups = freed.iter().filter(by_group).count();
        if groups < freed.len() {
            self.readied += 1;
        }
        if groups == 0 {
            return Ok(());
        }
        for lane in self.rows.lanes_in_line(group)? {
            if self.limits_of(&lane).iter().any(|(name, _)| freed.contains(name)) {
                self.examine_line(&lane, group, now)?;
            }
        }
        Ok(())
    }

    /// Releases the first jobs of a line while its limits have room, and records when the next may be released.
    pub(crate) fn examine_line(
        &mut self,
        lane: &LaneKey,
        group: &str,
        now: Timestamp,
    ) -> Result<()> {
        for _ in 0..LINE_RELEASES_MAX {
            let line = self.rows.group_line(lane, group)?;
            let Some(first) = &line.first else {
                return self.set_opening(lane, group, &line, None);
            };
            if let Some(refusal) = self.refusal(lane, group, line.ahead, first.cost, now)? {
                let (id, waits_for) = (first.id, &first.limit);
                if refusal.limit != *waits_for {
                    self.edit(id, |entry| entry.job.limits = vec![refusal.limit])?;
                }
                return self.set_opening(lane, group, &line, refusal.opens_at);
            }
            let data = Transition::default();
            let taken = self.take_for(first.id, EventKind::Free, &data, now)?;
            self.carry_out(taken, data, now, |_| ())?;
        }
        let line = self.rows.group_line(lane, group)?;
        self.set_opening(lane, group, &line, line.first.as_ref().map(|_| now))
    }

    fn set_opening(
        &mut self,
        lane: &LaneKey,
        group: &str,
        line: &GroupLine,
        at: Option<Timestamp>,
    ) -> Result<()> {
        if line.opens_at == at {
            return Ok(());
        }
        // Claims that wait must learn the new time.
        self.readied += u64::from(at.is_some());
        self.rows.set_opening(lane, group, at)
    }

    /// Examines the lines of a queue whose time has come, at most a bounded number of them.
    pub(crate) fn open_due_lines(&mut self, queue: &Name, now: Timestamp) -> Result<()> {
        for opening in self.rows.openings(queue, LINE_RELEASES_MAX as usize)? {
            if opening.at > now {
                break;
            }
            self.examine_line(&(queue.clone(), opening.kind), &opening.group, now)?;
        }
        Ok(())
    }

    /// Checks that the engine has limits.
    pub(crate) fn need_limits(&self, hint: &'static str) -> Result<()> {
        if self.capabilities.has(Capability::Limits) {
            return Ok(());
        }
        let (engine, capability) = (self.capabilities.engine, Capability::Limits);
        Err(Error::Unsupported { engine, capability, hint })
    }

    /// Refuses a new job that could never start under its limits.
    pub(crate) fn check_limits(&self, job: &NewJob) -> Result<()> {
        if job.names_limits() {
            self.need_limits("leave out `group` and `cost`")?;
        }
        let group = job.group.as_deref().or(job.tenant.as_deref()).unwrap_or_default();
        for (name, limit) in self.limits_of(&(job.queue.clone(), job.kind.clone())) {
            let capacity = limit.rule_for(group).rate.map(windlass_core::model::Rate::capacity);
            if let Some(capacity) = capacity.filter(|capacity| job.cost > *capacity) {
                let expected = format!(
                    "limit {name} allows at most {capacity} at once: lower the cost, or raise the limit"
                );
                return Err(Error::invalid("cost", job.cost, expected));
            }
        }
        Ok(())
    }

    /// Takes tokens for work that is not a job; see [`windlass_core::engine::Jobs::take`].
    pub fn take_tokens(&mut self, request: &Take, now: Timestamp) -> Result<Took> {
        request.check()?;
        self.need_limits("use a store with limits")?;
        let Take { limit: name, group, cost, .. } = request;
        let limit = self.limits.get(name).ok_or_else(|| unknown("limit", name))?;
        let group = group.as_deref().unwrap_or_default();
        let rule = limit.rule_for(group);
        let Some(rate) = rule.rate else {
            let expected = "this limit has no rate, and only leases hold slots";
            return Err(Error::invalid("limit", name, expected));
        };
        if *cost > rate.capacity() {
            let expected = format!("the limit allows at most {} at once", rate.capacity());
            return Err(Error::invalid("cost", cost, expected));
        }
        let (name, counted_in) = (name.clone(), limit.counted_in(group).to_owned());
        let rate = windlass_core::model::Rule::rate(rate);
        let mut meter = self.rows.with_meter(&name, &counted_in, Clone::clone)?;
        match rate.room(0, &meter, Ahead::default(), *cost, now) {
            Room::At(at) => Ok(Took::At(at)),
            Room::Now | Room::Later => {
                rate.take(&mut meter, *cost, now);
                self.rows.save_meter(&name, &counted_in, &meter)?;
                Ok(Took::Granted)
            }
        }
    }

    /// Checks that a report may hold what it names.
    pub(crate) fn check_hold(&self, entry: &Entry, hold: &Hold) -> Result<()> {
        self.need_limits("snooze the job instead")?;
        let lane = lane_of(&entry.job.header);
        match &hold.on {
            HoldOn::Limit(name) if !self.names_of_limits(&lane).contains(name) => {
                let expected = "the job does not run under this limit";
                Err(Error::invalid("hold.limit", name, expected))
            }
            HoldOn::Group if self.held_limits(entry, hold).is_empty() => {
                let expected = "the job runs under no limit by group: hold its queue, or a limit";
                Err(Error::invalid("hold.group", entry.job.header.limit_group(), expected))
            }
            HoldOn::Limit(_) | HoldOn::Limits | HoldOn::Group | HoldOn::Queue => Ok(()),
            _ => Err(crate::unknown("hold")),
        }
    }

    /// The limits that a hold stops, with the group in which it does.
    fn held_limits(&self, entry: &Entry, hold: &Hold) -> Vec<(Name, String)> {
        let group = entry.job.header.limit_group();
        let held = |name: &Name, limit: &Limit| match &hold.on {
            HoldOn::Limit(held) => held == name,
            HoldOn::Limits => true,
            HoldOn::Group => limit.by_group,
            HoldOn::Queue => false,
            // Refused by the check above.
            _ => false,
        };
        let limits = self.limits_of(&lane_of(&entry.job.header)).into_iter();
        let limits = limits.filter(|(name, limit)| held(name, limit));
        limits.map(|(name, limit)| (name.clone(), limit.counted_in(group).to_owned())).collect()
    }

    /// Stops starts until a time.
    pub(crate) fn hold(&mut self, entry: &Entry, hold: &Hold, now: Timestamp) -> Result<()> {
        let until = now.plus(hold.ms);
        let limits = self.held_limits(entry, hold);
        let none_to_hold = hold.on == HoldOn::Limits && limits.is_empty();
        for (name, group) in limits {
            let mut meter = self.rows.with_meter(&name, &group, Clone::clone)?;
            meter.hold(until);
            self.rows.save_meter(&name, &group, &meter)?;
        }
        if hold.on == HoldOn::Queue || none_to_hold {
            let queue = &entry.job.header.queue;
            let settings = self.queues.entry(queue.clone()).or_default();
            settings.held_until = (hold.ms > 0).then_some(until);
            self.rows.save_queue(queue, Some(settings))?;
        }
        // Claims that wait must learn the new time.
        self.readied += 1;
        Ok(())
    }
}

impl<R: Rows> Executor<R> {
    /// Removes holds of queues that are over from their settings, so that a store need not decide them again.
    pub fn end_holds(&mut self, now: Timestamp) -> Result<()> {
        let is_over = |at: Option<Timestamp>| at.is_some_and(|until| until <= now);
        let held = self.queues.iter().filter(|(_, settings)| is_over(settings.held_until));
        for queue in held.map(|(queue, _)| queue.clone()).collect::<Vec<Name>>() {
            let settings = self.queues.entry(queue.clone()).or_default();
            settings.held_until = None;
            if *settings == Default::default() {
                self.queues.remove(&queue);
            }
            self.rows.save_queue(&queue, self.queues.get(&queue))?;
        }
        Ok(())
    }
}

/// The error for a limit that does not exist.
pub(crate) fn unknown(field: &'static str, name: &Name) -> Error {
    Error::invalid(field, name, "no such limit: create it first")
}
