//! What a store contains, and what it should contain according to its jobs.

use super::check::{id_of, members};
use super::derived::{Derived, suspects};
use crate::conn::error::{Try, unavailable};
use crate::keys::{key_field, lane_text};
use crate::rows::places::{self, places};
use crate::rows::{record, small};
use crate::slow::edges::edge;
use crate::slow::transaction::{Loaded, Transaction};
use redis::cmd;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use windlass_core::JobId;
use windlass_core::engine::SessionId;
use windlass_core::model::State;
use windlass_core::policy::Ahead;
use windlass_executor::{Entry, LaneKey, UniqueHold};

/// Keys and jobs that are read in one step.
const SCANNED: usize = 1_000;

/// The names of indexes with one entry per job.
fn is_index(name: &str) -> bool {
    let state = name.strip_suffix("+own").unwrap_or(name);
    const BY_JOB: [&str; 11] = [
        "all",
        "ready",
        "due",
        "held",
        "line",
        "group_line",
        "expire",
        "remove",
        "aging",
        "unresolved",
        "edge",
    ];
    BY_JOB.contains(&name)
        || State::ALL.iter().any(|it| *it != State::Available && it.as_str() == state)
}

/// A difference between a store and its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// An entry of an index that is missing, has the wrong score, or should not exist.
    Entry { key: Vec<u8>, member: Vec<u8>, id: JobId, what: &'static str },
    /// A field of a hash.
    Field { key: Vec<u8>, field: Vec<u8>, wanted: Option<Vec<u8>>, what: &'static str },
    /// An entry of a list that follows from counts or sessions.
    Derived(Derived),
    /// Dependencies of a job that does not exist.
    Inputs { key: Vec<u8>, id: JobId },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { key, id, what, .. } => {
                write!(f, "job {id} {what} {}", String::from_utf8_lossy(key))
            }
            Self::Field { key, field, what, .. } => {
                let (key, field) = (String::from_utf8_lossy(key), String::from_utf8_lossy(field));
                write!(f, "field {field:?} of {key} {what}")
            }
            Self::Derived(entry) => entry.fmt(f),
            Self::Inputs { id, .. } => write!(f, "dependencies of job {id}, which does not exist"),
        }
    }
}

/// Fields of hashes.
type Fields = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

/// What a store contains and should contain.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) jobs: u64,
    pub(super) contradictions: Vec<String>,
    wanted: BTreeMap<(Vec<u8>, Vec<u8>), (i64, JobId)>,
    stored: BTreeMap<(Vec<u8>, Vec<u8>), (i64, JobId)>,
    wanted_fields: Fields,
    stored_fields: Fields,
    groups: BTreeMap<(Vec<u8>, Vec<u8>), (u64, Ahead)>,
    running: BTreeMap<(Vec<u8>, Vec<u8>), u64>,
    states: HashMap<JobId, State>,
    /// Lanes with jobs, those with ready jobs, and those with lines of groups.
    lanes: BTreeSet<LaneKey>,
    ready: BTreeSet<LaneKey>,
    lines: BTreeSet<(LaneKey, String)>,
    derived: BTreeSet<Derived>,
    /// All and open dependencies, by dependent.
    dependents: BTreeMap<JobId, (u32, u32)>,
    strays: Vec<(Vec<u8>, JobId)>,
}

impl Facts {
    pub(super) async fn read(transaction: &Transaction<'_>, loaded: &mut Loaded) -> Try<Self> {
        let mut facts = Self::default();
        let keys = transaction.keys;
        let sessions = hash(transaction, &keys.one("session")).await?;
        let mut open = Vec::with_capacity(sessions.len());
        for (id, stored) in sessions {
            let id = SessionId::new(small::text(&id)?);
            open.push((id, small::read_session(&stored)?.expires_at));
        }
        let sessions: HashSet<&SessionId> = open.iter().map(|(id, _)| id).collect();
        for (id, stored) in hash(transaction, &keys.one("job")).await? {
            let entry = record::decode(small::id(&id)?, &stored)?.entry;
            facts.jobs += 1;
            facts.contradictions.extend(entry.contradictions(&|id| sessions.contains(id)));
            facts.add_job(transaction, &entry, loaded);
        }
        facts.add_counts();
        facts.add_edges(transaction, loaded).await?;
        facts.derived =
            suspects(transaction, &facts.lanes, &facts.ready, &facts.lines, &open, loaded).await?;
        // Indexes of ages that maintenance still completes say nothing yet.
        let unfinished: HashSet<Vec<u8>> = hash(transaction, &keys.one("aging_todo"))
            .await?
            .into_iter()
            .map(|(queue, _)| keys.aging(&String::from_utf8_lossy(&queue)))
            .collect();
        facts.wanted.retain(|(key, _), _| !unfinished.contains(key));
        for key in all_keys(transaction).await? {
            if unfinished.contains(&key) {
                continue;
            }
            let name = &String::from_utf8_lossy(&key)[keys.prefix().len()..];
            let (name, of) = name.split_once(':').unwrap_or((name, ""));
            if name == "input"
                && let Ok(id) = of.parse::<JobId>()
                && !facts.dependents.contains_key(&id)
            {
                facts.strays.push((key, id));
                continue;
            }
            if is_index(name) {
                for (member, score) in members(transaction, &key, loaded).await? {
                    let id = id_of(name, &member)?;
                    facts.stored.insert((key.clone(), member), (score, id));
                }
            } else if ["holder", "group", "group_running"].contains(&name) {
                for (field, value) in hash(transaction, &key).await? {
                    facts.stored_fields.insert((key.clone(), field), value);
                }
            }
        }
        facts.check_uniques(hash(transaction, &keys.one("unique")).await?, &keys.one("unique"))?;
        facts.check_parts(hash_fields(transaction, &keys.one("part")).await?, &keys.one("part"))?;
        Ok(facts)
    }

    fn add_job(&mut self, transaction: &Transaction<'_>, entry: &Entry, loaded: &Loaded) {
        let (keys, header, id) = (transaction.keys, &entry.job.header, entry.id());
        let ages = transaction.settings.ages(&header.queue);
        for (place, score) in places(keys, entry, ages) {
            self.wanted.insert(place, (score, id));
        }
        self.states.insert(id, entry.job.state);
        if let Some(key) = header.key.as_ref().filter(|_| entry.holds_key) {
            let field = (keys.one("holder"), key_field(&header.queue, key));
            self.wanted_fields.insert(field, id.as_bytes().to_vec());
        }
        let counts = entry.job.dependencies;
        if counts.total > 0 {
            self.dependents.insert(id, (counts.total, counts.open));
        }
        let lane = places::lane(entry);
        self.lanes.insert(lane.clone());
        if entry.job.state == State::Available {
            self.ready.insert(lane.clone());
        }
        if entry.in_group_line() {
            self.lines.insert((lane.clone(), header.limit_group().to_owned()));
        }
        let (group, field) = (header.limit_group(), lane_text(&lane).into_bytes());
        let line = (keys.group(group), field.clone());
        let has_limits = !entry.job.limits.is_empty();
        if entry.in_group_line() {
            self.groups.entry(line).or_default().0 += 1;
        } else if entry.job.state == State::Available && has_limits {
            let (_, ahead) = self.groups.entry(line).or_default();
            ahead.jobs += 1;
            ahead.cost += u64::from(header.cost);
        } else if entry.job.state == State::Running && loaded.is_grouped(&lane) {
            *self.running.entry((keys.group_running(group), field)).or_default() += 1;
        }
    }

    /// Open dependencies are listed with the jobs that they are on, and are as many as their jobs say.
    async fn add_edges(&mut self, transaction: &Transaction<'_>, loaded: &mut Loaded) -> Try<()> {
        let ids: Vec<JobId> = self.dependents.keys().copied().collect();
        for (id, inputs) in transaction.read_inputs(&ids, false, loaded).await? {
            let open = inputs.iter().filter(|(_, input)| input.is_open());
            let found = (inputs.len() as u32, open.clone().count() as u32);
            if let Some(counts) = self.dependents.get(&id).filter(|counts| **counts != found) {
                let (waits, open) = (counts.1, found.1);
                let what = format!("job {id} waits for {waits} dependencies, and {open} are open");
                self.contradictions.push(what);
            }
            for (position, input) in open {
                let place = (transaction.keys.edges(input.job), edge(id, *position));
                self.wanted.insert(place, (0, id));
            }
        }
        Ok(())
    }

    /// The counts of groups become fields.
    fn add_counts(&mut self) {
        for (field, (waiting, ahead)) in std::mem::take(&mut self.groups) {
            let value = small::group(waiting, ahead.jobs, ahead.cost);
            self.wanted_fields.insert(field, value);
        }
        for (field, jobs) in std::mem::take(&mut self.running) {
            self.wanted_fields.insert(field, jobs.to_string().into_bytes());
        }
    }

    /// A unique key without a window is held by a job that has not ended.
    fn check_uniques(&mut self, stored: Pairs, key: &[u8]) -> Try<()> {
        for (field, value) in stored {
            let hold = small::read_unique(&value)?;
            let state = self.states.get(&hold.holder);
            let holds = match hold.until {
                None => state.is_some_and(|state| !state.is_terminal()),
                Some(UniqueHold::WHILE_STORED) => state.is_some(),
                Some(_) => true,
            };
            let place = (key.to_vec(), field);
            if holds {
                self.wanted_fields.insert(place.clone(), value.clone());
            }
            self.stored_fields.insert(place, value);
        }
        Ok(())
    }

    /// A part belongs to a job.
    fn check_parts(&mut self, fields: Vec<Vec<u8>>, key: &[u8]) -> Try<()> {
        for field in fields {
            if !self.states.contains_key(&small::id(&field)?) {
                self.stored_fields.insert((key.to_vec(), field), Vec::new());
            }
        }
        Ok(())
    }

    /// The differences.
    pub(super) fn wrong(&self) -> Vec<Wrong> {
        let mut wrong: Vec<Wrong> = self.derived.iter().cloned().map(Wrong::Derived).collect();
        let strays = self.strays.iter().cloned();
        wrong.extend(strays.map(|(key, id)| Wrong::Inputs { key, id }));
        let entry = |(key, member): &(Vec<u8>, Vec<u8>), id, what| {
            let (key, member) = (key.clone(), member.clone());
            Wrong::Entry { key, member, id, what }
        };
        for (place, (score, id)) in &self.wanted {
            match self.stored.get(place) {
                None => wrong.push(entry(place, *id, "is missing in")),
                Some((stored, _)) if stored != score => {
                    wrong.push(entry(place, *id, "is in the wrong place of"));
                }
                Some(_) => {}
            }
        }
        for (place, (_, id)) in &self.stored {
            if !self.wanted.contains_key(place) {
                wrong.push(entry(place, *id, "does not belong in"));
            }
        }
        let fields = self.wanted_fields.keys().chain(self.stored_fields.keys());
        for place in fields.collect::<BTreeSet<_>>() {
            let (wanted, stored) = (self.wanted_fields.get(place), self.stored_fields.get(place));
            if wanted != stored {
                let (key, field) = place.clone();
                let what = match (wanted, stored) {
                    (None, _) => "belongs to no job",
                    (Some(_), None) => "is missing",
                    (Some(_), Some(_)) => "does not agree with the jobs",
                };
                wrong.push(Wrong::Field { key, field, wanted: wanted.cloned(), what });
            }
        }
        wrong
    }
}

/// All keys of the store.
async fn all_keys(transaction: &Transaction<'_>) -> Try<Vec<Vec<u8>>> {
    let pattern = format!("{}*", transaction.keys.prefix());
    let (mut cursor, mut keys) = (b"0".to_vec(), HashSet::new());
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCANNED);
        let (next, found): (Vec<u8>, Vec<Vec<u8>>) = ask(transaction, &scan).await?;
        keys.extend(found);
        if next == b"0" {
            return Ok(keys.into_iter().collect());
        }
        cursor = next;
    }
}

/// Fields of a hash with their values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// All fields of a hash, each once.
async fn hash(transaction: &Transaction<'_>, key: &[u8]) -> Try<Pairs> {
    let (mut cursor, mut fields) = (b"0".to_vec(), HashMap::new());
    loop {
        let mut scan = cmd("HSCAN");
        scan.arg(key).arg(&cursor).arg("COUNT").arg(SCANNED);
        let (next, found): (Vec<u8>, Pairs) = ask(transaction, &scan).await?;
        fields.extend(found);
        if next == b"0" {
            return Ok(fields.into_iter().collect());
        }
        cursor = next;
    }
}

async fn hash_fields(transaction: &Transaction<'_>, key: &[u8]) -> Try<Vec<Vec<u8>>> {
    Ok(hash(transaction, key).await?.into_iter().map(|(field, _)| field).collect())
}

async fn ask<T: redis::FromRedisValue>(
    transaction: &Transaction<'_>,
    command: &redis::Cmd,
) -> Try<T> {
    let (reply, _) = transaction.link.send(command).await?;
    redis::from_redis_value(reply).map_err(|error| unavailable(error).into())
}
