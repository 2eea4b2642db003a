//! Verbs that only read: jobs, pages, statistics, sessions, settings.

mod limits;
mod list;
mod stats;
mod why;

use crate::conn::error::{Trouble, Try};
use crate::conn::script::Reads;
use crate::engine::RedisEngine;
use crate::rows::{record, small};
use crate::slow::transaction::{Loaded, Transaction};
use std::collections::{BTreeSet, HashMap};
use windlass_core::engine::{
    Get, Page, RemovedCount, RemovedKey, RemovedQuery, RemovedTable, SessionId, SessionInfo,
    SessionInfoFields, Settings, Stamped,
};
use windlass_core::model::{Job, PartSet, State};
use windlass_core::time::HOUR_MS;
use windlass_core::{JobId, Result, Timestamp};

/// Jobs that are read in one call.
const JOBS_MAX: usize = 1_000;

impl RedisEngine {
    pub(crate) async fn get_jobs(&self, request: Get) -> Result<Stamped<Vec<Option<Job>>>> {
        request.check()?;
        let (transaction, mut loaded) = self.inner.shared.look().await?;
        let read = async {
            let (transaction, loaded) = (&transaction, &mut loaded);
            let found = read_jobs(transaction, &request.ids, request.parts, loaded).await?;
            let view = |found: Option<record::Found>| found.map(|it| it.entry.view(request.parts));
            let mut jobs: Vec<Option<Job>> = found.into_iter().map(view).collect();
            show_running(transaction, jobs.iter_mut().flatten(), loaded).await?;
            show_inputs(transaction, jobs.iter_mut().flatten(), loaded).await?;
            Ok::<_, Trouble>(jobs)
        };
        let value = read.await.map_err(Trouble::into_error)?;
        Ok(transaction.stamp(&loaded, value))
    }

    pub(crate) async fn all_settings(&self) -> Result<Stamped<Settings>> {
        let (transaction, loaded) = self.inner.shared.look().await?;
        let settings = &*transaction.settings;
        let queues = settings.queues.clone().into_iter().collect();
        let kinds = settings.kinds.clone().into_iter().collect();
        let all =
            Settings::new(queues, kinds).limits(settings.limits.clone().into_iter().collect());
        Ok(transaction.stamp(&loaded, all))
    }

    pub(crate) async fn open_sessions(&self) -> Result<Stamped<Vec<SessionInfo>>> {
        let (transaction, mut loaded) = self.inner.shared.look().await?;
        let read = async {
            let (transaction, loaded) = (&transaction, &mut loaded);
            let mut reads = Reads::default();
            reads.peek("HGETALL", &transaction.keys.one("session"), &[]);
            let replies = transaction.read(reads, loaded).await?;
            let mut sessions = Vec::new();
            let mut reads = Reads::default();
            for (id, stored) in replies.pairs(0)? {
                let id = small::text(id)?;
                reads.peek("ZCARD", &transaction.keys.held(id), &[]);
                sessions.push((SessionId::new(id), small::read_session(stored)?));
            }
            let replies = transaction.read(reads, loaded).await?;
            let mut infos = Vec::new();
            for (at, (id, entry)) in sessions.into_iter().enumerate() {
                infos.push(SessionInfo::from(SessionInfoFields {
                    id,
                    worker: entry.worker,
                    opened_at: entry.opened_at,
                    expires_at: entry.expires_at,
                    running: replies.int(at)?.cast_unsigned(),
                    info: entry.info,
                }));
            }
            infos.sort_by(|one, two| one.id.cmp(&two.id));
            Ok::<_, Trouble>(infos)
        };
        let value = read.await.map_err(Trouble::into_error)?;
        Ok(transaction.stamp(&loaded, value))
    }

    pub(crate) async fn removed_jobs(
        &self,
        request: RemovedQuery,
    ) -> Result<Stamped<Page<RemovedCount>>> {
        request.check()?;
        let (transaction, mut loaded) = self.inner.shared.look().await?;
        let read = async {
            let (transaction, loaded) = (&transaction, &mut loaded);
            let place = request.place()?;
            let from =
                place.map_or(request.first_hour(), |place| place.hour.max(request.first_hour()));
            // Only as many hours as the page needs: each row is of one hour.
            let (from, most) = (from.as_millis().to_string(), (request.limit + 1).to_string());
            let mut reads = Reads::default();
            let args: [&[u8]; 5] = [from.as_bytes(), b"+inf", b"LIMIT", b"0", most.as_bytes()];
            reads.peek("ZRANGEBYSCORE", &transaction.keys.one("removed"), &args);
            let replies = transaction.read(reads, loaded).await?;
            let mut table = RemovedTable::default();
            for hour in replies.members(0)? {
                let hour = crate::conn::script::number(hour)? as i64;
                let mut reads = Reads::default();
                reads.peek("HGETALL", &transaction.keys.removed(hour), &[]);
                let replies = transaction.read(reads, loaded).await?;
                for (field, count) in replies.pairs(0)? {
                    if let Some(key) = removed_key(hour, small::text(field)?) {
                        table.add(key, crate::conn::script::number(count)? as u64);
                    }
                }
                let page = table.page(&request)?;
                if page.next.is_some() {
                    return Ok(page);
                }
            }
            Ok::<_, Trouble>(table.page(&request)?)
        };
        let value = read.await.map_err(Trouble::into_error)?;
        Ok(transaction.stamp(&loaded, value))
    }
}

/// The key of a count in the history of an hour: `c`, the lane, the outcome and the tenant.
fn removed_key(hour: i64, field: &str) -> Option<RemovedKey> {
    let mut parts = field.strip_prefix('c')?.splitn(3, '\0');
    let (queue, kind) = crate::keys::lane_of(parts.next()?)?;
    let outcome = *State::ALL.get(parts.next()?.parse::<usize>().ok()?)?;
    let tenant = parts.next().filter(|tenant| !tenant.is_empty()).map(ToOwned::to_owned);
    let hour = Timestamp::from_millis(hour);
    debug_assert_eq!(hour.as_millis() % HOUR_MS.cast_signed(), 0);
    Some(RemovedKey::new(hour, queue, kind, tenant, outcome))
}

/// Reads jobs, in the order of their ids in the request.
pub(crate) async fn read_jobs(
    transaction: &Transaction<'_>,
    ids: &[JobId],
    parts: PartSet,
    loaded: &mut Loaded,
) -> Try<Vec<Option<record::Found>>> {
    let mut jobs = Vec::with_capacity(ids.len());
    for ids in ids.chunks(JOBS_MAX) {
        let mut reads = Reads::default();
        let mut numbers = Vec::with_capacity(ids.len());
        for id in ids {
            let at = reads.peek("HGET", &transaction.keys.one("job"), &[id.as_bytes()]);
            let parts: Vec<_> = record::part_fields(*id, parts)
                .map(|(name, field)| {
                    (name, reads.peek("HGET", &transaction.keys.one("part"), &[&field]))
                })
                .collect();
            numbers.push((*id, at, parts));
        }
        let replies = transaction.read(reads, loaded).await?;
        for (id, at, parts) in numbers {
            jobs.push(crate::slow::load::found(&replies, id, at, &parts)?);
        }
    }
    Ok(jobs)
}

/// Adds their dependencies to jobs.
async fn show_inputs(
    transaction: &Transaction<'_>,
    jobs: impl Iterator<Item = &mut Job>,
    loaded: &mut Loaded,
) -> Try<()> {
    let mut jobs: Vec<&mut Job> = jobs.filter(|job| job.dependencies.total > 0).collect();
    let ids: Vec<JobId> = jobs.iter().map(|job| job.header.id).collect();
    let inputs = transaction.read_inputs(&ids, false, loaded).await?;
    for (job, (_, inputs)) in jobs.iter_mut().zip(inputs) {
        job.inputs = inputs.into_values().collect();
    }
    Ok(())
}

/// Adds their limits, the host and the expiry of the lease to running jobs.
pub(crate) async fn show_running(
    transaction: &Transaction<'_>,
    jobs: impl Iterator<Item = &mut Job>,
    loaded: &mut Loaded,
) -> Try<()> {
    let mut jobs: Vec<&mut Job> = jobs.filter(|job| job.running.is_some()).collect();
    let sessions = jobs.iter().filter_map(|job| Some(job.running.as_ref()?.session.clone()));
    let sessions: Vec<SessionId> = sessions.collect::<BTreeSet<_>>().into_iter().collect();
    let mut reads = Reads::default();
    for id in &sessions {
        reads.peek("HGET", &transaction.keys.one("session"), &[id.as_str().as_bytes()]);
    }
    let replies = transaction.read(reads, loaded).await?;
    let mut known = HashMap::new();
    for (at, id) in sessions.into_iter().enumerate() {
        if let Some(stored) = replies.bytes(at)? {
            known.insert(id, small::read_session(stored)?);
        }
    }
    for job in &mut jobs {
        let lane = (job.header.queue.clone(), job.header.kind.clone());
        job.limits = loaded.names_of_limits(&lane);
        if let Some(running) = &mut job.running
            && let Some(session) = known.get(&running.session)
        {
            session.show_in(running);
        }
    }
    Ok(())
}
