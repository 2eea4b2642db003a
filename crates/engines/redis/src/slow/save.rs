//! Turns the changes of a run into writes. Makes no decisions.

use crate::conn::error::Try;
use crate::conn::script::Commands;
use crate::keys::{Keys, key_field, lane_text, slot};
use crate::rows::places::{self, Places, places};
use crate::rows::record::{self, JobRow};
use crate::rows::small;
use crate::slow::edges::save_edges;
use crate::slow::events::save_events;
use crate::slow::groups::lane_field;
use crate::slow::load::tenant_member;
use crate::slow::transaction::{Transaction, WorkingSet};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use windlass_core::Timestamp;
use windlass_core::engine::OTHER_TENANT;
use windlass_core::limits::REMOVED_TENANTS_MAX;
use windlass_core::model::{Name, PartName, State};
use windlass_core::sync::lock;
use windlass_executor::{Entry, LaneKey, Turns, UniqueHold};
use windlass_workset::{ChangedGroup, ChangedJob, GroupRows, Reopened, codec};

/// The writes of a run, gathered by key.
struct Saver<'a, 'l> {
    transaction: &'a Transaction<'a>,
    keys: &'a Keys,
    set: &'a WorkingSet<'l>,
    hashes: BTreeMap<Vec<u8>, Fields>,
    leave: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    enter: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    counts: BTreeMap<(Vec<u8>, Vec<u8>), i64>,
    lanes: BTreeSet<LaneKey>,
    opened: BTreeSet<LaneKey>,
    other: Commands,
    revises: bool,
}

/// Changes of a hash.
#[derive(Default)]
struct Fields {
    set: Vec<Vec<u8>>,
    delete: Vec<Vec<u8>>,
}

/// The writes that save the changes of a run.
pub(super) fn saves(
    transaction: &Transaction<'_>,
    set: &WorkingSet<'_>,
    turns: &HashMap<Name, Turns>,
) -> Try<Commands> {
    let mut saver = Saver {
        transaction,
        keys: transaction.keys,
        set,
        hashes: BTreeMap::new(),
        leave: BTreeMap::new(),
        enter: BTreeMap::new(),
        counts: BTreeMap::new(),
        lanes: BTreeSet::new(),
        opened: BTreeSet::new(),
        other: Commands::default(),
        revises: false,
    };
    for changed in set.changed() {
        saver.job(&changed)?;
    }
    saver.held_keys();
    saver.turns(turns);
    saver.sessions()?;
    saver.settings()?;
    saver.groups()?;
    saver.removed();
    let mut writes = saver.into_commands();
    save_edges(transaction.keys, set, &mut writes)?;
    save_events(transaction, set, &mut writes)?;
    Ok(writes)
}

impl Saver<'_, '_> {
    fn hset(&mut self, key: Vec<u8>, field: Vec<u8>, value: Vec<u8>) {
        self.hashes.entry(key).or_default().set.extend([field, value]);
    }

    fn hdel(&mut self, key: Vec<u8>, field: Vec<u8>) {
        self.hashes.entry(key).or_default().delete.push(field);
    }

    fn job(&mut self, changed: &ChangedJob<'_, JobRow>) -> Try<()> {
        let (before, after) = (changed.before, changed.after);
        let id = match (before, after) {
            (_, Some(entry)) => entry.id(),
            (Some(found), None) => found.entry.id(),
            (None, None) => return Ok(()),
        };
        let was = before.map(|found| self.places(&found.entry)).unwrap_or_default();
        let is = after.map(|entry| self.places(entry)).unwrap_or_default();
        self.move_job(&was, &is);
        self.count_running(before.map(|found| &found.entry), -1);
        self.count_running(after, 1);
        let field = id.as_bytes().to_vec();
        match after {
            Some(entry) => {
                let lane = places::lane(entry);
                if entry.job.state == State::Available {
                    self.opened.insert(lane.clone());
                }
                if !self.transaction.settings.lanes.contains(&lane) {
                    self.lanes.insert(lane);
                }
                let row = self.row(changed, entry);
                self.hset(self.keys.one("job"), field, record::encode(entry, row)?);
            }
            None => self.hdel(self.keys.one("job"), field),
        }
        for name in PartName::ALL {
            let was = before.and_then(|found| found.entry.job.parts.get(name));
            let is = after.and_then(|entry| entry.job.parts.get(name));
            let (key, field) = (self.keys.one("part"), crate::keys::part(id, name));
            match (was, is) {
                (was, is) if was == is => {}
                (_, Some(part)) => self.hset(key, field, record::encode_part(part)?),
                (_, None) => self.hdel(key, field),
            }
        }
        Ok(())
    }

    fn row(&self, changed: &ChangedJob<'_, JobRow>, entry: &Entry) -> JobRow {
        let before = changed.before.map(|found| found.row).unwrap_or_default();
        let session = |entry: &Entry| entry.leased.as_ref().map(|it| it.session.clone());
        let same = changed.before.and_then(|found| session(&found.entry)) == session(entry);
        let alone = session(entry)
            .is_some_and(|session| self.set.is_alone(&session) || (same && before.alone));
        JobRow { revision: before.revision + 1, alone }
    }

    fn places(&self, entry: &Entry) -> Places {
        places(self.keys, entry, self.transaction.settings.ages(&entry.job.header.queue))
    }

    fn move_job(&mut self, was: &Places, is: &Places) {
        for (key, member) in was.keys().filter(|place| !is.contains_key(place)) {
            self.leave.entry(key.clone()).or_default().push(member.clone());
        }
        for (place, score) in is.iter().filter(|(place, score)| was.get(place) != Some(score)) {
            let (key, member) = place.clone();
            let members = self.enter.entry(key).or_default();
            members.extend([score.to_string().into_bytes(), member]);
        }
    }

    /// Counts a running job of a lane with limits by group.
    fn count_running(&mut self, entry: Option<&Entry>, by: i64) {
        let Some(entry) = entry.filter(|entry| entry.job.state == State::Running) else { return };
        let lane = places::lane(entry);
        if self.set.base().is_grouped(&lane) {
            let key = self.keys.group_running(entry.job.header.limit_group());
            *self.counts.entry((key, lane_field(&lane))).or_default() += by;
        }
    }

    fn held_keys(&mut self) {
        let set = self.set;
        for changed in set.changed_keys() {
            let (key, field) = (self.keys.one("holder"), key_field(changed.queue, changed.key));
            match changed.after {
                Some(id) => self.hset(key, field, id.as_bytes().to_vec()),
                None => self.hdel(key, field),
            }
        }
        for changed in set.changed_uniques() {
            let (key, ends, field) =
                (self.keys.one("unique"), self.keys.one("unique_end"), slot(changed.slot));
            let window = |hold: Option<UniqueHold>| {
                hold.and_then(|hold| hold.until).filter(|until| *until != UniqueHold::WHILE_STORED)
            };
            match (window(changed.before), window(changed.after)) {
                (_, Some(until)) => {
                    let members = self.enter.entry(ends).or_default();
                    members.extend([small::score(until), field.clone()]);
                }
                (Some(_), None) => self.leave.entry(ends).or_default().push(field.clone()),
                (None, None) => {}
            }
            match changed.after {
                Some(hold) => self.hset(key, field, small::unique(hold)),
                None => self.hdel(key, field),
            }
        }
    }

    fn turns(&mut self, turns: &HashMap<Name, Turns>) {
        for changed in self.set.changed_turns(turns) {
            let key = self.keys.turns(changed.queue);
            for (tenant, _, turn) in changed.tenants {
                let members = self.enter.entry(key.clone()).or_default();
                members.extend([turn.to_string().into_bytes(), tenant_member(tenant)]);
            }
            if let Some(turn) = changed.served {
                let (turn, queue) = (turn.to_string(), changed.queue.as_bytes());
                let args: [&[u8]; 3] = [b"GT", turn.as_bytes(), queue];
                self.other.push("ZADD", &self.keys.one("served"), &args);
            }
        }
    }

    fn sessions(&mut self) -> Try<()> {
        for (id, session) in self.set.changed_sessions() {
            let field = id.as_str().as_bytes().to_vec();
            match session {
                Some(session) => {
                    let members = self.enter.entry(self.keys.one("expiry")).or_default();
                    members.extend([small::score(session.expires_at), field.clone()]);
                    self.hset(self.keys.one("session"), field, small::session(session)?);
                }
                None => {
                    self.leave.entry(self.keys.one("expiry")).or_default().push(field.clone());
                    self.hdel(self.keys.one("session"), field);
                }
            }
        }
        Ok(())
    }

    fn settings(&mut self) -> Try<()> {
        let set = self.set;
        for (queue, settings) in set.changed_queues() {
            self.revises = true;
            let (field, todo) = (queue.as_bytes().to_vec(), self.keys.one("aging_todo"));
            let ages = settings.is_some_and(|settings| settings.max_wait_ms.is_some());
            match (self.transaction.settings.ages(queue), ages) {
                // Maintenance adds the waiting jobs, step by step.
                (false, true) => self.hset(todo, field.clone(), Vec::new()),
                (true, false) => {
                    self.hdel(todo, field.clone());
                    self.other.push("UNLINK", &self.keys.aging(queue), &[]);
                }
                _ => {}
            }
            match settings {
                Some(settings) => {
                    self.hset(self.keys.one("queue"), field, codec::json(settings)?.into_bytes());
                }
                None => self.hdel(self.keys.one("queue"), field),
            }
        }
        for (kind, settings) in set.changed_kinds() {
            self.revises = true;
            let (key, field) = (self.keys.one("kind"), kind.as_bytes().to_vec());
            match settings {
                Some(settings) => self.hset(key, field, codec::json(settings)?.into_bytes()),
                None => self.hdel(key, field),
            }
        }
        for (name, limit) in set.changed_limits() {
            self.revises = true;
            let (key, field) = (self.keys.one("limit"), name.as_bytes().to_vec());
            match limit {
                Some(limit) => self.hset(key, field, codec::json(limit)?.into_bytes()),
                None => self.hdel(key, field),
            }
        }
        if self.transaction.relists {
            self.relist();
        }
        Ok(())
    }

    /// Counts the running jobs of lanes that begin or cease to count groups.
    fn relist(&mut self) {
        let counts = lock(&self.transaction.running_groups).clone();
        for (lane, groups) in counts {
            let by = match (self.set.base().is_grouped(&lane), self.set.counts_groups(&lane)) {
                (false, true) => 1,
                (true, false) => -1,
                _ => continue,
            };
            for (group, jobs) in groups {
                let key = (self.keys.group_running(&group), lane_field(&lane));
                *self.counts.entry(key).or_default() += by * jobs.cast_signed();
            }
        }
    }

    fn groups(&mut self) -> Try<()> {
        let set = self.set;
        for ChangedGroup { lane, group, before, after } in set.changed_groups() {
            self.group(lane, group, before, after);
        }
        for ((limit, group), meter) in set.changed_meters() {
            let idle = self.enter.entry(self.keys.one("meter_idle")).or_default();
            let member = format!("{limit} {group}").into_bytes();
            // Beyond the numbers that a score keeps exactly, it is never idle.
            idle.extend([small::score(meter.idle_at().min(FAR)), member]);
            let json = codec::json(meter)?.into_bytes();
            self.hset(self.keys.meters(group), limit.as_bytes().to_vec(), json);
        }
        for Reopened { queue, kind, at } in set.reopened() {
            let queues: Vec<Name> = match queue {
                Some(queue) => vec![queue.clone()],
                None => {
                    let lanes = self.transaction.settings.lanes.iter();
                    let of_kind =
                        lanes.filter(|(_, of)| kind.as_ref().is_none_or(|kind| kind == of));
                    let queues: BTreeSet<&Name> = of_kind.map(|(queue, _)| queue).collect();
                    queues.into_iter().cloned().collect()
                }
            };
            let prefix = kind.as_ref().map_or_else(String::new, |kind| format!("{kind} "));
            for queue in queues {
                let (at, most) = (small::score(*at), LINES_MAX.to_string());
                let args: [&[u8]; 3] = [&at, prefix.as_bytes(), most.as_bytes()];
                self.other.push("RESCORE", &self.keys.openings(&queue), &args);
                // Maintenance reopens the others, step by step.
                let field = format!("{queue} {prefix}");
                let todo = small::reopening(&at, None);
                self.other.push("LEFT", &self.keys.one("reopening"), &[field.as_bytes(), &todo]);
            }
        }
        Ok(())
    }

    fn group(
        &mut self,
        lane: &LaneKey,
        group: &str,
        before: Option<&GroupRows>,
        after: &GroupRows,
    ) {
        let (key, field) = (self.keys.group(group), lane_field(lane));
        let GroupRows { waiting, ahead, opens_at, .. } = after;
        match after.is_empty() {
            true => self.hdel(key, field),
            false => self.hset(key, field, small::group(*waiting, ahead.jobs, ahead.cost)),
        }
        let (openings, member) =
            (self.keys.openings(&lane.0), format!("{} {group}", lane.1).into_bytes());
        if *waiting > 0 {
            // A line that no time opens is listed, too, so that a change of limits finds it.
            let score = opens_at.map_or_else(|| b"+inf".to_vec(), small::score);
            self.enter.entry(openings).or_default().extend([score, member]);
        } else if before.is_some_and(|before| before.waiting > 0) {
            self.leave.entry(openings).or_default().push(member);
        }
    }

    fn removed(&mut self) {
        for (key, count) in self.set.removed() {
            let (hour, outcome) = (key.hour.as_millis(), key.outcome as u8);
            let scope = lane_text(&(key.queue.clone(), key.kind.clone()));
            let tenant = key.tenant.as_deref().unwrap_or_default();
            let (outcome, count) = (outcome.to_string(), count.to_string());
            let most = REMOVED_TENANTS_MAX.to_string();
            let args = [&*scope, tenant, &outcome, &count, OTHER_TENANT, &most];
            self.other.push("TALLY", &self.keys.removed(hour), &args.map(str::as_bytes));
            let hour = hour.to_string();
            let args = [hour.as_bytes(), hour.as_bytes()];
            self.other.push("ZADD", &self.keys.one("removed"), &args);
        }
    }

    fn into_commands(self) -> Commands {
        let mut writes = Commands::default();
        for (key, members) in &self.leave {
            writes.push_all("ZREM", key, 1, members);
        }
        for (key, members) in &self.enter {
            writes.push_all("ZADD", key, 2, members);
        }
        for (key, Fields { set, delete }) in &self.hashes {
            writes.push_all("HSET", key, 2, set);
            writes.push_all("HDEL", key, 1, delete);
        }
        for ((key, field), by) in self.counts.iter().filter(|(_, by)| **by != 0) {
            writes.push("COUNT", key, &[field, by.to_string().as_bytes()]);
        }
        for (queue, kind) in &self.opened {
            writes.push("SADD", &self.keys.open(queue), &[kind.as_bytes()]);
        }
        if !self.lanes.is_empty() {
            let lanes: Vec<Vec<u8>> = self.lanes.iter().map(lane_field).collect();
            writes.push_all("SADD", &self.keys.one("lanes"), 1, &lanes);
        }
        if self.revises || !self.lanes.is_empty() {
            writes.push("INCR", &self.keys.one("revision"), &[]);
        }
        writes.append(self.other);
        writes
    }
}

/// Lines that a change of limits reopens at once, per queue.
const LINES_MAX: usize = 1_000;
/// The last time that a score keeps exactly.
const FAR: Timestamp = Timestamp::from_millis(1 << 53);
