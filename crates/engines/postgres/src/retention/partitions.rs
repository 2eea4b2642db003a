//! Partitions of `job` and `finished`: creation ahead of time, survey, emptying and dropping.
//!
//! A survey pages through a partition without locks and decides which jobs can go with it: those that the fast path
//! completed and that have no other rows. Ended jobs with rows in `life` or `part` are removed one by one. The emptying
//! does not rely on the survey: under the lock that excludes writers it keeps every job that has such a row, which any
//! change of an ended job writes (`empty_partition` in `sql/001_initial/6_maintenance.sql`). A job that is stored late,
//! with an old id, voids the survey.
//!
//! A survey and the list of unfit partitions are void in another epoch and once the clock has gone backwards. A survey
//! is also discarded after a refused lock.

use crate::conn::Lent;
use crate::conn::error::Try;
use crate::engine::PostgresEngine;
use crate::retention::context::{Cutoffs, Partition, RetentionContext, WIDTH_MIN_MS};
use crate::slow::load::CONFIGURE_LOCK;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use uuid::Uuid;
use windlass_core::engine::{Epoch, MaintainReply};
use windlass_core::sync::lock;
use windlass_core::{JobId, Timestamp};

const SURVEY: &str = include_str!("../../sql/survey.sql");
const ADD: &str = "SELECT {s}.add_partitions($1, $2)";
const BEGIN_SURVEY: &str = "SELECT {s}.begin_survey($1)";
const EMPTY: &str = "SELECT {s}.empty_partition($1, $2, $3, $4)";
const DROP: &str = "SELECT {s}.drop_partition($1, $2)";

/// A job whose partition ended longer ago than this voids the survey of the partition when it is stored.
pub(crate) const OLD_ID_MS: u64 = 60_000;
/// How long after its end a partition is left alone: by then all jobs that do not void a survey are stored.
const QUIET_MS: u64 = OLD_ID_MS + 30_000;
/// Number of partitions per longest retention; gives their width.
const WIDTH_PARTS: u64 = 8;
/// Maximum width in a new store, and from then on the store's age: retention is often configured only after the first
/// partitions exist.
const WIDTH_FIRST_MS: u64 = 300_000;
/// Number of partitions created ahead of time.
const AHEAD: u64 = 2;
/// Minimum time covered ahead: partitions cannot be added while a transaction reads `job`, and jobs without a partition
/// are removed row by row.
const AHEAD_MIN_MS: u64 = 600_000;
/// Delay until the first new partition begins: lets in-flight inserts into the default partition finish. The engine
/// would retry them, but an application that calls `enqueue` in SQL does not.
const BEGIN_AFTER_MS: u64 = 2_000;
/// Maximum number of partitions: planning a statement that looks up jobs takes time for each.
const PARTITIONS_MAX: usize = 48;
/// Jobs surveyed in one step.
const PAGE: i64 = 20_000;
/// Maximum number of jobs that stay in an emptied partition.
const STAY_MAX: usize = 10_000;
/// A partition in which more must stay is removed row by row, and surveyed again after this time.
const SURVEY_AGAIN_MS: u64 = 600_000;
/// The name under which refused locks of partitions are counted.
const LOCK_NAME: &str = "partition";

/// Surveys of this process.
#[derive(Default)]
pub(crate) struct Partitions {
    survey: Mutex<Option<Survey>>,
    /// Partitions in which too many jobs must stay, and when to survey them again.
    unfit: Mutex<HashMap<i32, Timestamp>>,
}

/// A survey in progress.
struct Survey {
    partition: Partition,
    /// The epoch in which it began.
    epoch: Epoch,
    /// The partition's count of late jobs when it began.
    late_jobs: i64,
    /// When it began.
    at: Timestamp,
    cutoffs: Cutoffs,
    /// First id of the next page.
    from: Uuid,
    /// Jobs that must stay.
    stay: Vec<Uuid>,
    /// Number of jobs that can go with the partition, by lane, state and tenant.
    gone: HashMap<(i32, i16, String), i64>,
}

/// Result of surveying a page.
enum Page {
    More,
    Last,
    TooManyStay,
}

impl Partitions {
    fn survey(&self) -> MutexGuard<'_, Option<Survey>> {
        lock(&self.survey)
    }

    fn unfit(&self) -> MutexGuard<'_, HashMap<i32, Timestamp>> {
        lock(&self.unfit)
    }

    /// Whether ended jobs of a partition are removed row by row, if the shortest retention is `shortest_ms`.
    pub(super) fn is_removed_by_rows(&self, partition: &Partition, shortest_ms: u64) -> bool {
        partition.is_small()
            || partition.is_too_wide(shortest_ms)
            || self.unfit().contains_key(&partition.no)
    }

    /// Forgets which partitions were unfit.
    pub(super) fn forget(&self) {
        self.unfit().clear();
    }

    /// The oldest partition whose time and shortest retention are over and that is not unfit.
    fn due(&self, context: &RetentionContext) -> Option<Partition> {
        let (shortest_ms, _) = context.kept_ms?;
        let wait_ms = shortest_ms.max(QUIET_MS);
        let over = |partition: &&Partition| partition.ends_at().plus(wait_ms) <= context.now;
        let mut unfit = self.unfit();
        unfit.retain(|_, again_at| *again_at > context.now);
        let mut over = context.partitions.iter().filter(over);
        over.find(|partition| !unfit.contains_key(&partition.no)).copied()
    }

    fn set_unfit(&self, partition: &Partition, now: Timestamp) {
        self.unfit().insert(partition.no, now.plus(SURVEY_AGAIN_MS));
    }
}

impl PostgresEngine {
    /// Creates partitions for future jobs.
    pub(crate) async fn add_partitions(&self, conn: &Lent) -> Try<()> {
        let context = self.retention_context(conn).await?;
        let Some((_, most_ms)) = context.kept_ms else { return Ok(()) };
        let width_ms = (most_ms / WIDTH_PARTS).max(WIDTH_MIN_MS);
        let last = context.partitions.last().map_or(context.now, Partition::ends_at);
        let mut from = last.max(context.now.plus(BEGIN_AFTER_MS));
        let first = context.partitions.first().map_or(from, Partition::begins_at);
        let age_ms = context.now.since(first);
        let ahead_ms = (AHEAD * width_ms).min(age_ms).max(AHEAD_MIN_MS);
        let (mut firsts, mut ends) = (Vec::new(), Vec::new());
        for _ in context.partitions.len()..PARTITIONS_MAX {
            if from > context.now.plus(ahead_ms) {
                break;
            }
            let upto = from.plus(width_ms.min(from.since(first).max(WIDTH_FIRST_MS)));
            firsts.push(JobId::first_at(from).as_uuid());
            ends.push(JobId::first_at(upto).as_uuid());
            from = upto;
        }
        if firsts.is_empty() {
            return Ok(());
        }
        let added = conn.query(ADD, &[&firsts, &ends]).await?;
        if !added.first().is_some_and(|row| row.get(0)) {
            tracing::debug!(
                "no partition can be added now; jobs without one are removed row by row"
            );
        }
        Ok(())
    }

    /// Runs one step towards dropping the oldest partition; returns whether more can be done at once. Waits ten seconds
    /// after a refused lock.
    pub(super) async fn maintain_partitions(
        &self,
        conn: &Lent,
        context: &RetentionContext,
        reply: &mut MaintainReply,
    ) -> Try<bool> {
        let partitions = &self.inner.partitions;
        if self.is_lock_paused(context.now, LOCK_NAME) {
            return Ok(false);
        }
        let Some(partition) = partitions.due(context) else { return Ok(false) };
        let maintained = match partition.is_small() {
            true => self.drop_partition(conn, &partition, context.now).await,
            false => self.survey_and_empty(conn, &partition, context, reply).await,
        };
        match maintained {
            Ok(more) => {
                self.lock_granted(LOCK_NAME);
                Ok(more)
            }
            Err(trouble) => {
                self.lock_refused(context.now, LOCK_NAME, &trouble.into_error());
                // If even this fails, the step fails.
                conn.command("ROLLBACK").await?;
                Ok(false)
            }
        }
    }

    async fn drop_partition(
        &self,
        conn: &Lent,
        partition: &Partition,
        now: Timestamp,
    ) -> Try<bool> {
        let few = STAY_MAX as i32;
        let dropped = conn.query(DROP, &[&partition.no, &few]).await?;
        let dropped = dropped.first().is_some_and(|row| row.get(0));
        if !dropped {
            self.inner.partitions.set_unfit(partition, now);
        }
        Ok(dropped)
    }

    async fn survey_and_empty(
        &self,
        conn: &Lent,
        partition: &Partition,
        context: &RetentionContext,
        reply: &mut MaintainReply,
    ) -> Try<bool> {
        let partitions = &self.inner.partitions;
        let begun = partitions.survey().take();
        let mut survey = match begun.filter(|begun| begun.holds(conn, partition, context.now)) {
            Some(survey) => survey,
            None => Survey::begin(conn, partition, context).await?,
        };
        match self.survey_page(conn, &mut survey, context, reply).await? {
            Page::More => *partitions.survey() = Some(survey),
            Page::Last => self.empty_partition(conn, &survey, reply).await?,
            Page::TooManyStay => partitions.set_unfit(partition, context.now),
        }
        Ok(true)
    }

    /// Surveys the next page, and removes the jobs of it that have to be removed one by one.
    async fn survey_page(
        &self,
        conn: &Lent,
        survey: &mut Survey,
        context: &RetentionContext,
        reply: &mut MaintainReply,
    ) -> Try<Page> {
        let Survey { from, partition, cutoffs, .. } = &*survey;
        let rows = conn.query(SURVEY, &[from, &partition.upto, &PAGE, &cutoffs.to_json()]).await?;
        let (mut seen, mut last) = (0, None);
        for row in &rows {
            let (way, count): (i32, i64) = (row.get(0), row.get(3));
            seen += count;
            last = row.get::<_, Option<Uuid>>(6);
            let ids = || row.get::<_, Option<Vec<Uuid>>>(4).unwrap_or_default();
            match way {
                0 => {
                    let group = (row.get(1), row.get(2), row.get(7));
                    *survey.gone.entry(group).or_default() += count;
                }
                1 => {
                    let ended: Vec<i64> = row.get(5);
                    self.remove(conn, context, &ids(), &ended, reply).await?;
                }
                _ => survey.stay.extend(ids()),
            }
        }
        if survey.stay.len() > STAY_MAX {
            return Ok(Page::TooManyStay);
        }
        match last {
            Some(last) if seen == PAGE => {
                survey.from = Uuid::from_u128(last.as_u128() + 1);
                Ok(Page::More)
            }
            _ => {
                survey.from = survey.partition.upto;
                Ok(Page::Last)
            }
        }
    }

    /// Empties a surveyed partition, unless something in it, the settings or the clock voids the survey.
    async fn empty_partition(
        &self,
        conn: &Lent,
        survey: &Survey,
        reply: &mut MaintainReply,
    ) -> Try<()> {
        conn.command("BEGIN").await?;
        conn.query(CONFIGURE_LOCK, &[]).await?;
        let context = self.retention_context(conn).await?;
        let Survey { partition, late_jobs, at, cutoffs, stay, gone, .. } = survey;
        if !survey.holds(conn, partition, context.now) || !cutoffs.hold_in(&context.cutoffs_at(*at))
        {
            return conn.command("ROLLBACK").await;
        }
        let few = STAY_MAX as i32;
        let answer = conn.query(EMPTY, &[&partition.no, late_jobs, stay, &few]).await?;
        match answer.first().map(|row| row.get::<_, &str>(0)) {
            Some("emptied") => {
                context.note(conn, gone).await?;
                conn.command("COMMIT").await?;
                let gone = gone.iter().map(|((lane, state, _), count)| (*lane, *state, *count));
                context.count(reply, &gone.collect::<Vec<_>>())?;
                return Ok(());
            }
            Some("full") => self.inner.partitions.set_unfit(partition, context.now),
            _ => {}
        }
        conn.command("ROLLBACK").await
    }
}

impl Survey {
    async fn begin(conn: &Lent, partition: &Partition, context: &RetentionContext) -> Try<Self> {
        let late_jobs = conn.query(BEGIN_SURVEY, &[&partition.no]).await?;
        let late_jobs = late_jobs.first().and_then(|row| row.get(0)).unwrap_or_default();
        Ok(Self {
            partition: *partition,
            epoch: conn.epoch.clone(),
            late_jobs,
            at: context.now,
            cutoffs: context.cutoffs.clone(),
            from: partition.from,
            stay: Vec::new(),
            gone: HashMap::new(),
        })
    }

    /// Whether it is a survey of this partition, made in this epoch and not in the future.
    fn holds(&self, conn: &Lent, partition: &Partition, now: Timestamp) -> bool {
        self.epoch == conn.epoch && self.partition.is(partition) && self.at <= now
    }
}
