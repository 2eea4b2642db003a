//! The jobs and sessions that a maintenance step may change. Candidates come from indexes that are not verified; the
//! jobs themselves are.

use crate::conn::error::Try;
use crate::conn::script::Reads;
use crate::keys::Keys;
use crate::rows::places::ended;
use crate::rows::small;
use crate::slow::edges::UNRESOLVED_MAX;
use crate::slow::transaction::{Loaded, Transaction};
use std::collections::{BTreeMap, HashSet};
use windlass_core::engine::{MaintainRequest, SessionId, Work};
use windlass_core::model::{Name, State};
use windlass_core::{JobId, Timestamp};
use windlass_executor::{Due, LaneKey};
use windlass_workset::Wants;

/// Indexes that are asked for their first entries in one call.
const INDEXES_MAX: usize = 2_000;

/// An index of ended jobs, and how long its queue keeps them.
struct Ended {
    key: Vec<u8>,
    kept_ms: u64,
}

impl Transaction<'_> {
    /// Finds candidates, and wants those that are due.
    pub(super) async fn find_due(
        &self,
        request: MaintainRequest,
        wants: &mut Wants,
        loaded: &mut Loaded,
    ) -> Try<()> {
        let most = request.budget as usize + 1;
        self.read(Reads::default(), loaded).await?;
        loaded.due_at = Some(loaded.now);
        let mut due = match request.work {
            Work::Promote => {
                self.find_openings(wants, loaded, most).await?;
                self.find_unresolved(request, wants, loaded).await?;
                self.scheduled(loaded, most).await?
            }
            Work::Expire => self.expiring(loaded, most).await?,
            Work::Retain => self.removable(loaded, most).await?,
            Work::Reclaim => return self.run_out(wants, loaded, most).await,
            Work::Compact => return Ok(()),
            // The executor refuses it.
            _ => return Ok(()),
        };
        due.truncate(most);
        let now = loaded.now;
        wants.own.extend(due.iter().filter(|(at, _)| *at <= now).map(|(_, id)| *id));
        loaded.due = due;
        Ok(())
    }

    async fn scheduled(&self, loaded: &mut Loaded, most: usize) -> Try<Vec<Due>> {
        let (mut reads, last) = (Reads::default(), (most - 1).to_string());
        let args: [&[u8]; 3] = [b"0", last.as_bytes(), b"WITHSCORES"];
        reads.peek("ZRANGE", &self.keys.one("due"), &args);
        let replies = self.read(reads, loaded).await?;
        let mut due = Vec::new();
        for (member, score) in replies.scores(0)? {
            let (_, id) = small::read_entered(member)?;
            due.push((small::at(score), id));
        }
        Ok(due)
    }

    /// Ended jobs with whose dependencies maintenance has work.
    async fn find_unresolved(
        &self,
        request: MaintainRequest,
        wants: &mut Wants,
        loaded: &mut Loaded,
    ) -> Try<()> {
        let (mut reads, last) = (Reads::default(), UNRESOLVED_MAX.min(request.budget) - 1);
        let last = last.to_string();
        reads.peek("ZRANGE", &self.keys.one("unresolved"), &[b"0", last.as_bytes()]);
        let replies = self.read(reads, loaded).await?;
        for member in replies.members(0)? {
            let id = small::id(member)?;
            loaded.unresolved.push(id);
            wants.own.insert(id);
        }
        Ok(())
    }

    /// The lines whose time has come, and the time of the first one after them.
    async fn find_openings(&self, wants: &mut Wants, loaded: &mut Loaded, most: usize) -> Try<()> {
        let queues: Vec<Name> = self.settings.queues_with_lanes().into_iter().cloned().collect();
        let openings = self.openings(&queues, most, loaded).await?;
        for (queue, opening) in openings.into_iter().take(most) {
            if opening.at > loaded.now {
                loaded.next_opening = Some(opening.at);
                break;
            }
            wants.groups.insert(opening.group.clone());
            loaded.openings.push((queue, opening));
        }
        Ok(())
    }

    async fn expiring(&self, loaded: &mut Loaded, most: usize) -> Try<Vec<Due>> {
        let mut indexes = vec![(self.keys.one("expire"), 0)];
        let limited = self.settings.queues.iter();
        indexes.extend(
            limited.filter_map(|(queue, it)| Some((self.keys.aging(queue), it.max_wait_ms?))),
        );
        let found = self.first_of(&indexes, most, loaded).await?;
        Ok(in_order(found.into_iter().flatten().collect()))
    }

    async fn removable(&self, loaded: &mut Loaded, most: usize) -> Try<Vec<Due>> {
        let mut indexes = vec![Ended { key: self.keys.one("remove"), kept_ms: 0 }];
        for lane in &self.settings.lanes {
            let settings = self.settings.queues.get(&lane.0).cloned().unwrap_or_default();
            for state in ended() {
                let key = self.keys.state(state, false, lane);
                indexes.push(Ended { key, kept_ms: settings.retention.of(state) });
            }
        }
        // The first of each says which are due; the others need not be read further.
        let indexes: Vec<_> = indexes.into_iter().map(|it| (it.key, it.kept_ms)).collect();
        let first = self.first_of(&indexes, 1, loaded).await?;
        let is_due = |found: &&(_, Vec<Due>)| found.1.iter().any(|(at, _)| *at <= loaded.now);
        let due: Vec<(Vec<u8>, u64)> = indexes
            .into_iter()
            .zip(first.clone())
            .collect::<Vec<_>>()
            .iter()
            .filter(is_due)
            .map(|(index, _)| index.clone())
            .collect();
        let more = self.first_of(&due, most, loaded).await?;
        let mut all: Vec<Due> = first.into_iter().chain(more).flatten().collect();
        all.extend(self.surplus(loaded, most).await?);
        Ok(in_order(all))
    }

    /// The first entries of these indexes, and the times at which they fall due.
    async fn first_of(
        &self,
        indexes: &[(Vec<u8>, u64)],
        most: usize,
        loaded: &mut Loaded,
    ) -> Try<Vec<Vec<Due>>> {
        let last = (most - 1).to_string();
        let mut found = Vec::with_capacity(indexes.len());
        for chunk in indexes.chunks(INDEXES_MAX) {
            let mut reads = Reads::default();
            for (key, _) in chunk {
                reads.peek("ZRANGE", key, &[b"0", last.as_bytes(), b"WITHSCORES"]);
            }
            let replies = self.read(reads, loaded).await?;
            for (at, (_, ms)) in chunk.iter().enumerate() {
                let mut due = Vec::new();
                for (member, score) in replies.scores(at)? {
                    due.push((small::at(score).plus(*ms), small::id(member)?));
                }
                found.push(due);
            }
        }
        Ok(found)
    }

    /// The oldest ended jobs beyond the number that their queue keeps: due since they ended.
    async fn surplus(&self, loaded: &mut Loaded, most: usize) -> Try<Vec<Due>> {
        let mut all = Vec::new();
        for (queue, settings) in &self.settings.queues {
            for (state, kept) in settings.keep_max.limits() {
                let lanes: Vec<&LaneKey> = self.settings.lanes_of(queue).collect();
                let indexes = ended_indexes(self.keys, state, &lanes);
                let mut reads = Reads::default();
                for (key, _) in &indexes {
                    reads.peek("ZCARD", key, &[]);
                }
                let replies = self.read(reads, loaded).await?;
                let counts = (0..indexes.len()).map(|at| replies.int(at));
                let count = counts.sum::<Try<i64>>()?.cast_unsigned();
                let beyond = count.saturating_sub(kept).min(most as u64) as usize;
                if beyond > 0 {
                    let oldest = self.first_of(&indexes, beyond, loaded).await?;
                    let mut oldest: Vec<Due> = oldest.into_iter().flatten().collect();
                    oldest.sort_unstable();
                    oldest.truncate(beyond);
                    loaded.surplus.extend(oldest.iter().map(|(_, id)| *id));
                    all.extend(oldest);
                }
            }
        }
        Ok(all)
    }

    /// Expired sessions, their leases, and the session that expires next. A session expires when its time is over and the
    /// server has been up for as long as the session's time to live.
    async fn run_out(&self, wants: &mut Wants, loaded: &mut Loaded, most: usize) -> Try<()> {
        let now = loaded.now;
        let expiry = self.keys.one("expiry");
        let (mut reads, count) = (Reads::default(), most.to_string());
        let now_text = now.as_millis().to_string();
        let args: [&[u8]; 5] = [b"-inf", now_text.as_bytes(), b"LIMIT", b"0", count.as_bytes()];
        reads.peek("ZRANGEBYSCORE", &expiry, &args);
        let after = format!("({now_text}");
        let args: [&[u8]; 5] = [after.as_bytes(), b"+inf", b"LIMIT", b"0", b"1"];
        reads.peek("ZRANGEBYSCORE", &expiry, &args);
        let replies = self.read(reads, loaded).await?;
        let mut sessions = Vec::new();
        for member in [replies.members(0)?, replies.members(1)?].concat() {
            sessions.push(SessionId::new(small::text(member)?));
        }
        let mut reads = Reads::default();
        for id in &sessions {
            reads.expect("HGET", &self.keys.one("session"), &[id.as_str().as_bytes()]);
        }
        let replies = self.read(reads, loaded).await?;
        let started_at = self.live.server.started_at;
        let mut order: BTreeMap<(Timestamp, SessionId), ()> = BTreeMap::new();
        for (at, id) in sessions.iter().enumerate() {
            let Some(stored) = replies.bytes(at)? else { continue };
            let mut session = small::read_session(stored)?;
            session.expires_at = session.expires_at.max(started_at.plus(session.ttl_ms));
            order.insert((session.expires_at, id.clone()), ());
            loaded.held.entry(id.clone()).or_default();
            loaded.sessions.insert(id.clone(), session);
        }
        let over: Vec<SessionId> =
            order.into_keys().filter(|(at, _)| *at <= now).map(|(_, id)| id).collect();
        let (mut reads, last) = (Reads::default(), (most - 1).to_string());
        for id in &over {
            reads.expect("ZRANGE", &self.keys.held(id.as_str()), &[b"0", last.as_bytes()]);
        }
        let replies = self.read(reads, loaded).await?;
        let mut left = most;
        for (at, id) in over.iter().enumerate() {
            for member in replies.members(at)? {
                let (_, job) = small::read_entered(member)?;
                if left == 0 {
                    // Held, but not to be taken back in this step.
                    loaded.held.entry(id.clone()).or_default().insert(job);
                    continue;
                }
                left -= 1;
                loaded.held.entry(id.clone()).or_default().insert(job);
                wants.own.insert(job);
            }
        }
        Ok(())
    }
}

/// The indexes of jobs that ended in a state and have no retention of their own.
fn ended_indexes(keys: &Keys, state: State, lanes: &[&LaneKey]) -> Vec<(Vec<u8>, u64)> {
    lanes.iter().map(|lane| (keys.state(state, false, lane), 0)).collect()
}

/// The entries in order, each job once: one that is due by age and by number is due when it ended.
fn in_order(mut due: Vec<Due>) -> Vec<Due> {
    due.sort_unstable();
    let mut seen: HashSet<JobId> = HashSet::new();
    due.retain(|(_, id)| seen.insert(*id));
    due
}
