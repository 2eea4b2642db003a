//! Leaves of `job` and `finished`: when one is added, looked through, emptied and dropped. What is past its
//! retention is decided elsewhere.
//!
//! A survey pages through a leaf without locks and decides which jobs go with it: those that were completed straight
//! from their lease and have no other rows. Ended jobs with rows in `life` or `part` are removed one by one. The
//! emptying itself does not rely on that: under the lock that excludes writers it keeps every job that has such a row,
//! which any change of an ended job writes (`sql/011_keep_changed.sql`). A job that is stored late touches the leaf,
//! which voids the survey.
//!
//! What a process remembers between steps is void in another epoch and once the clock has gone backwards. A survey is
//! discarded after a refused lock, too.

use crate::conn::Lent;
use crate::conn::error::Try;
use crate::engine::PostgresEngine;
use crate::retention::removal::{Cuts, Ground};
use crate::slow::load::CONFIGURE_LOCK;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::engine::{Epoch, MaintainReply};
use windlass_core::{JobId, Timestamp};

pub(crate) const LEAVES: &str = "SELECT no, from_id, upto_id, emptied,
        coalesce(pg_relation_size(to_regclass('{s}.finished_' || no)), 0)
    FROM {s}.leaf ORDER BY from_id";
const SURVEY: &str = include_str!("../../sql/survey.sql");
const ADD: &str = "SELECT {s}.add_leaves($1, $2)";
const TOUCHED: &str = "SELECT {s}.touched_leaf($1)";
const EMPTY: &str = "SELECT {s}.empty_leaf($1, $2, $3, $4)";
const DROP: &str = "SELECT {s}.drop_leaf($1, $2)";

/// A job that is stored in a leaf that ended longer ago than this touches the leaf.
pub(crate) const OLD_ID_MS: u64 = 60_000;
/// How long after its end a leaf is left alone: a job that did not touch it is stored by then.
const QUIET_MS: u64 = OLD_ID_MS + 30_000;
/// A leaf is as wide as this part of the longest retention,
const WIDTH_PARTS: u64 = 8;
/// but not narrower than this.
const WIDTH_MIN_MS: u64 = 60_000;
/// A store that is new has leaves no wider than this, and then no wider than it is old: for how long jobs are
/// kept is often said only after the first leaves are there.
const WIDTH_FIRST_MS: u64 = 300_000;
/// Leaves there are ahead of time,
const AHEAD: u64 = 2;
/// and for how long at least: none can be added while somebody reads `job`, and without them jobs go row by row.
const AHEAD_MIN_MS: u64 = 600_000;
/// The first of them begins so much later than now: whoever is on the way to where jobs without a leaf go gets there.
/// The engine would try again, but an application that calls `enqueue` in SQL does not.
const BEGIN_AFTER_MS: u64 = 2_000;
/// Leaves at most: every statement that looks for jobs knows them all.
const LEAVES_MAX: usize = 48;
/// Ends in a smaller leaf than this are removed row by row, as soon as they are due.
const SMALL_BYTES: i64 = 4 << 20;
/// Jobs of a leaf looked at in one step.
const PAGE: i64 = 20_000;
/// Jobs that may stay in a leaf that is emptied.
const STAY_MAX: usize = 10_000;
/// A leaf in which more must stay is removed row by row, and surveyed again after this time.
const LOOK_AGAIN_MS: u64 = 600_000;

/// A range of ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    no: i32,
    pub(crate) from: Uuid,
    pub(crate) upto: Uuid,
    emptied: bool,
    bytes: i64,
}

impl Leaf {
    pub(crate) fn read(row: &Row) -> Self {
        let (no, from, upto) = (row.get(0), row.get(1), row.get(2));
        Self { no, from, upto, emptied: row.get(3), bytes: row.get(4) }
    }

    fn begins_at(&self) -> Timestamp {
        JobId::from_uuid(self.from).time()
    }

    fn ends_at(&self) -> Timestamp {
        JobId::from_uuid(self.upto).time()
    }

    /// Whether a job kept for so long would be kept for more than that again, if it went with its leaf: this one
    /// was made when jobs were kept for longer, or those of other queues are.
    fn is_too_wide(&self, kept_ms: u64) -> bool {
        let width = self.ends_at().since(self.begins_at());
        width > kept_ms.max(WIDTH_MIN_MS)
    }

    /// Whether it is the same partition: numbers may be given again in another epoch.
    fn is(&self, other: &Self) -> bool {
        (self.no, self.from, self.upto) == (other.no, other.from, other.upto)
    }

    fn is_small(&self) -> bool {
        self.emptied || self.bytes < SMALL_BYTES
    }
}

/// What this process knows of leaves.
#[derive(Default)]
pub(crate) struct Leaves {
    survey: Mutex<Option<Survey>>,
    /// Leaves in which too many jobs must stay, and when to survey them again.
    unfit: Mutex<HashMap<i32, Timestamp>>,
}

/// A survey of a leaf that is under way.
struct Survey {
    leaf: Leaf,
    /// The epoch it began in.
    epoch: Epoch,
    /// How often the leaf had been touched when it began.
    touched: i64,
    /// When it began.
    at: Timestamp,
    cuts: Cuts,
    /// First id of the next page.
    from: Uuid,
    /// Jobs that must stay.
    stay: Vec<Uuid>,
    /// Number of jobs that can go with the leaf, by lane and state.
    gone: HashMap<(i32, i16), i64>,
}

/// What came of looking at a page.
enum Looked {
    More,
    Through,
    TooMuchStays,
}

impl Leaves {
    fn survey(&self) -> MutexGuard<'_, Option<Survey>> {
        self.survey.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unfit(&self) -> MutexGuard<'_, HashMap<i32, Timestamp>> {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether ended jobs of a leaf, of which some are kept for so long only, are removed row by row.
    pub(crate) fn goes_by_rows(&self, leaf: &Leaf, least_ms: u64) -> bool {
        leaf.is_small() || leaf.is_too_wide(least_ms) || self.unfit().contains_key(&leaf.no)
    }

    /// Forgets which leaves were unfit.
    pub(crate) fn forget(&self) {
        self.unfit().clear();
    }

    /// The oldest leaf that has had its time, if it can be expected to go.
    fn due(&self, ground: &Ground) -> Option<Leaf> {
        let (least_ms, _) = ground.kept_ms?;
        let over = |leaf: &&Leaf| leaf.ends_at().plus(least_ms.max(QUIET_MS)) <= ground.now;
        let mut unfit = self.unfit();
        unfit.retain(|_, again_at| *again_at > ground.now);
        ground.leaves.iter().filter(over).find(|leaf| !unfit.contains_key(&leaf.no)).copied()
    }

    fn set_unfit(&self, leaf: &Leaf, now: Timestamp) {
        self.unfit().insert(leaf.no, now.plus(LOOK_AGAIN_MS));
    }
}

impl PostgresEngine {
    /// Makes sure that there are leaves for jobs to come.
    pub(crate) async fn add_leaves(&self, conn: &Lent) -> Try<()> {
        let ground = self.ground(conn).await?;
        let Some((_, most_ms)) = ground.kept_ms else { return Ok(()) };
        let width_ms = (most_ms / WIDTH_PARTS).max(WIDTH_MIN_MS);
        let last = ground.leaves.last().map_or(ground.now, Leaf::ends_at);
        let mut from = last.max(ground.now.plus(BEGIN_AFTER_MS));
        let first = ground.leaves.first().map_or(from, Leaf::begins_at);
        let age_ms = ground.now.since(first);
        let ahead_ms = (AHEAD * width_ms).min(age_ms).max(AHEAD_MIN_MS);
        let (mut firsts, mut ends) = (Vec::new(), Vec::new());
        for _ in ground.leaves.len()..LEAVES_MAX {
            if from > ground.now.plus(ahead_ms) {
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
            tracing::debug!("no leaf can be added; ended jobs go row by row meanwhile");
        }
        Ok(())
    }

    /// One step towards dropping the oldest leaf; returns whether there is more to do at once. After a refused lock it
    /// rests for ten seconds.
    pub(crate) async fn tend_leaves(
        &self,
        conn: &Lent,
        ground: &Ground,
        reply: &mut MaintainReply,
    ) -> Try<bool> {
        let leaves = &self.inner.leaves;
        if self.is_resting(ground.now, "leaf") {
            return Ok(false);
        }
        let Some(leaf) = leaves.due(ground) else { return Ok(false) };
        let tended = match leaf.is_small() {
            true => self.drop_leaf(conn, &leaf, ground.now).await,
            false => self.look_through(conn, &leaf, ground, reply).await,
        };
        match tended {
            Ok(more) => {
                self.was_let("leaf");
                Ok(more)
            }
            Err(trouble) => {
                self.rest(ground.now, "leaf", &trouble.told());
                // On a connection on which even this fails, the step fails.
                conn.command("ROLLBACK").await?;
                Ok(false)
            }
        }
    }

    async fn drop_leaf(&self, conn: &Lent, leaf: &Leaf, now: Timestamp) -> Try<bool> {
        let few = STAY_MAX as i32;
        let dropped = conn.query(DROP, &[&leaf.no, &few]).await?;
        let dropped = dropped.first().is_some_and(|row| row.get(0));
        if !dropped {
            self.inner.leaves.set_unfit(leaf, now);
        }
        Ok(dropped)
    }

    async fn look_through(
        &self,
        conn: &Lent,
        leaf: &Leaf,
        ground: &Ground,
        reply: &mut MaintainReply,
    ) -> Try<bool> {
        let leaves = &self.inner.leaves;
        let begun = leaves.survey().take();
        let mut survey = match begun.filter(|begun| begun.holds(conn, leaf, ground.now)) {
            Some(survey) => survey,
            None => Survey::begin(conn, leaf, ground).await?,
        };
        match self.survey_page(conn, &mut survey, ground, reply).await? {
            Looked::More => *leaves.survey() = Some(survey),
            Looked::Through => self.empty_leaf(conn, &survey, reply).await?,
            Looked::TooMuchStays => leaves.set_unfit(leaf, ground.now),
        }
        Ok(true)
    }

    /// Surveys the next page, and removes the jobs of it that have to be removed one by one.
    async fn survey_page(
        &self,
        conn: &Lent,
        survey: &mut Survey,
        ground: &Ground,
        reply: &mut MaintainReply,
    ) -> Try<Looked> {
        let Survey { from, leaf, cuts, .. } = &*survey;
        let rows = conn.query(SURVEY, &[from, &leaf.upto, &PAGE, &cuts.to_json()]).await?;
        let (mut seen, mut last) = (0, None);
        for row in &rows {
            let (way, count): (i32, i64) = (row.get(0), row.get(3));
            seen += count;
            last = row.get::<_, Option<Uuid>>(6);
            let ids = || row.get::<_, Option<Vec<Uuid>>>(4).unwrap_or_default();
            match way {
                0 => *survey.gone.entry((row.get(1), row.get(2))).or_default() += count,
                1 => {
                    let ended: Vec<i64> = row.get(5);
                    self.remove(conn, ground, &ids(), &ended, reply).await?;
                }
                _ => survey.stay.extend(ids()),
            }
        }
        if survey.stay.len() > STAY_MAX {
            return Ok(Looked::TooMuchStays);
        }
        match last {
            Some(last) if seen == PAGE => {
                survey.from = Uuid::from_u128(last.as_u128() + 1);
                Ok(Looked::More)
            }
            _ => {
                survey.from = survey.leaf.upto;
                Ok(Looked::Through)
            }
        }
    }

    /// Empties a surveyed leaf, unless something in it, the settings or the clock voids the survey.
    async fn empty_leaf(&self, conn: &Lent, survey: &Survey, reply: &mut MaintainReply) -> Try<()> {
        conn.command("BEGIN").await?;
        conn.query(CONFIGURE_LOCK, &[]).await?;
        let ground = self.ground(conn).await?;
        let Survey { leaf, touched, at, cuts, stay, gone, .. } = survey;
        if !survey.holds(conn, leaf, ground.now) || !cuts.hold_in(&ground.cuts_at(*at)) {
            return conn.command("ROLLBACK").await;
        }
        let few = STAY_MAX as i32;
        let answer = conn.query(EMPTY, &[&leaf.no, touched, stay, &few]).await?;
        match answer.first().map(|row| row.get::<_, &str>(0)) {
            Some("emptied") => {
                conn.command("COMMIT").await?;
                let gone = gone.iter().map(|((lane, state), count)| (*lane, *state, *count));
                ground.count(reply, &gone.collect::<Vec<_>>())?;
                return Ok(());
            }
            Some("full") => self.inner.leaves.set_unfit(leaf, ground.now),
            _ => {}
        }
        conn.command("ROLLBACK").await
    }
}

impl Survey {
    async fn begin(conn: &Lent, leaf: &Leaf, ground: &Ground) -> Try<Self> {
        let touched = conn.query(TOUCHED, &[&leaf.no]).await?;
        let touched = touched.first().and_then(|row| row.get(0)).unwrap_or_default();
        Ok(Self {
            leaf: *leaf,
            epoch: conn.epoch.clone(),
            touched,
            at: ground.now,
            cuts: ground.cuts.clone(),
            from: leaf.from,
            stay: Vec::new(),
            gone: HashMap::new(),
        })
    }

    /// Whether it describes this leaf of this store, and decided by a time that has come.
    fn holds(&self, conn: &Lent, leaf: &Leaf, now: Timestamp) -> bool {
        self.epoch == conn.epoch && self.leaf.is(leaf) && self.at <= now
    }
}

impl Cuts {
    fn by_lane(&self) -> HashMap<(i32, i16), i64> {
        let names = self.lanes.iter().copied().zip(self.states.iter().copied());
        names.zip(self.ended.iter().copied()).collect()
    }

    /// Whether what these let go, the others let go too.
    fn hold_in(&self, others: &Self) -> bool {
        let others = others.by_lane();
        let mine = self.by_lane();
        mine.iter().all(|(name, ended)| others.get(name).is_some_and(|other| other >= ended))
    }

    /// A time for each `lane.state`.
    fn to_json(&self) -> String {
        let time = |((lane, state), ended)| format!(r#""{lane}.{state}":{ended}"#);
        let times: Vec<String> = self.by_lane().into_iter().map(time).collect();
        format!("{{{}}}", times.join(","))
    }
}
