//! Removing ended jobs past the retention of their queue: row by row while there are few, with their leaf where
//! there are many. Jobs with a retention of their own are left to the executor.

use crate::conn::Lent;
use crate::conn::error::{Trouble, Try};
use crate::engine::PostgresEngine;
use crate::read::QUEUES;
use crate::retention::cursor::Passed;
use crate::retention::partitions::{LEAVES, Leaf};
use crate::slow::load::Loaded;
use crate::slow::perform::CLOCK;
use futures_util::future::try_join4;
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use tokio::time::Instant;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::engine::{MaintainReply, Tally};
use windlass_core::model::{Name, State};
use windlass_core::{Result, Timestamp};

const LANES: &str = "SELECT id, queue FROM {s}.lane";
const REMOVE: &str = include_str!("../../sql/remove.sql");
/// Jobs that are past their retention, in one place, and where they were found.
macro_rules! due_in {
    ($place:literal) => {
        concat!(
            "SELECT f.id, w.ended, w.lane, w.state, f.at
            FROM unnest($1::integer[], $2::smallint[], $3::bigint[], $7::bigint[]) w (lane, state, ended, since)
            CROSS JOIN LATERAL (SELECT id, at FROM ",
            $place,
            " WHERE lane = w.lane AND state = w.state AND NOT own AND at >= w.since AND at <= w.ended
                AND id >= $4 AND id < $5 ORDER BY at LIMIT $6) f LIMIT $6"
        )
    };
}
const DUE_IN_LEAF: &str = due_in!("{s}.finished");
const DUE_IN_REST: &str = due_in!("{s}.finished_rest");

/// Everywhere: no id is as high as the last.
const EVERYWHERE: (Uuid, Uuid) = (Uuid::nil(), Uuid::max());

/// Until when jobs must have ended to go now, by lane and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuts {
    pub(crate) lanes: Vec<i32>,
    pub(crate) states: Vec<i16>,
    pub(crate) ended: Vec<i64>,
}

/// What retention goes by.
pub(crate) struct Ground {
    pub(crate) now: Timestamp,
    pub(crate) cuts: Cuts,
    pub(crate) leaves: Vec<Leaf>,
    /// For how long finished jobs are kept, at least and at most.
    pub(crate) kept_ms: Option<(u64, u64)>,
    queues: HashMap<i32, Name>,
    settings: Loaded,
}

impl Ground {
    /// Until when jobs must have ended to be past their retention at that time.
    pub(crate) fn cuts_at(&self, now: Timestamp) -> Cuts {
        let mut cuts = Cuts::default();
        for (lane, queue) in &self.queues {
            let retention = self.settings.settings_of(queue).retention;
            for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
                cuts.lanes.push(*lane);
                cuts.states.push(state as i16);
                cuts.ended.push(now.minus(retention.of(state)).as_millis());
            }
        }
        cuts
    }

    /// Counts jobs that are gone: rows of lane, state and number.
    pub(crate) fn count(&self, reply: &mut MaintainReply, gone: &[(i32, i16, i64)]) -> Result<()> {
        for (lane, state, count) in gone {
            let Some(queue) = self.queues.get(lane).cloned() else { continue };
            let from = crate::rows::codec::state(*state)?;
            let count = count.max(&0).cast_unsigned();
            reply.done = reply.done.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            let same = |t: &&mut Tally| t.queue == queue && t.from == from;
            match reply.tallies.iter_mut().find(same) {
                Some(tally) => tally.count += count,
                None => reply.tallies.push(Tally { queue, from, to: None, count }),
            }
        }
        Ok(())
    }
}

impl PostgresEngine {
    /// One step of it.
    pub(crate) async fn retain(&self, budget: u32) -> Result<MaintainReply> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::told)?;
        match self.retain_on(&conn, budget).await {
            Ok(reply) => {
                conn.give_back();
                Ok(reply)
            }
            Err(trouble) => {
                let nothing = self.after_trouble(conn, trouble).await?;
                Ok(nothing.unwrap_or_default())
            }
        }
    }

    async fn retain_on(&self, conn: &Lent, budget: u32) -> Try<MaintainReply> {
        let ground = self.ground(conn).await?;
        if self.passed().is_void(&conn.epoch, ground.now) {
            self.inner.leaves.forget();
        }
        let mut reply = MaintainReply::default();
        reply.more = self.retain_rows(conn, &ground, budget, &mut reply).await?;
        if !reply.more {
            reply.more = self.tend_leaves(conn, &ground, &mut reply).await?;
        }
        reply.more |= reply.done >= budget;
        // A leaf goes as a whole.
        reply.done = reply.done.min(budget);
        Ok(reply)
    }

    /// What retention goes by, as it is now.
    pub(crate) async fn ground(&self, conn: &Lent) -> Try<Ground> {
        conn.prepare(&[CLOCK, LANES, QUEUES, LEAVES]).await?;
        let (clock, lanes, queues, leaves) = try_join4(
            conn.query(CLOCK, &[]),
            conn.query(LANES, &[]),
            conn.query(QUEUES, &[]),
            conn.query(LEAVES, &[]),
        )
        .await?;
        let mut settings = Loaded::default();
        settings.add_settings((queues, Vec::new(), Vec::new()))?;
        let queues: HashMap<i32, Name> =
            lanes.iter().map(|row| (row.get(0), row.get::<_, &str>(1).into())).collect();
        let kept = queues.values().map(|queue| settings.settings_of(queue).retention.finished_ms);
        let kept_ms = kept.fold(None, |kept: Option<(u64, u64)>, ms| match kept {
            Some((least, most)) => Some((least.min(ms), most.max(ms))),
            None => Some((ms, ms)),
        });
        let mut ground = Ground {
            now: self.inner.shared.now_in(&clock),
            cuts: Cuts::default(),
            leaves: leaves.iter().map(Leaf::read).collect(),
            kept_ms,
            queues,
            settings,
        };
        ground.cuts = ground.cuts_at(ground.now);
        Ok(ground)
    }

    /// Removes rows where there are few, in one place after the other; whether there may be more at once.
    async fn retain_rows(
        &self,
        conn: &Lent,
        ground: &Ground,
        budget: u32,
        reply: &mut MaintainReply,
    ) -> Try<bool> {
        let least_ms = ground.kept_ms.map_or(u64::MAX, |(least_ms, _)| least_ms);
        let small =
            ground.leaves.iter().filter(|leaf| self.inner.leaves.goes_by_rows(leaf, least_ms));
        let leaves = small.map(|leaf| (DUE_IN_LEAF, (leaf.from, leaf.upto)));
        let Cuts { lanes, states, ended } = &ground.cuts;
        let begun = Instant::now();
        let anew = self.passed().begin(begun);
        let mut is_full = false;
        for (due, (from, upto)) in std::iter::once((DUE_IN_REST, EVERYWHERE)).chain(leaves) {
            let left = i64::from(budget.saturating_sub(reply.done));
            if left == 0 {
                break;
            }
            let since = self.passed().since(from, &ground.cuts);
            let due = conn.query(due, &[lanes, states, ended, &from, &upto, &left, &since]).await?;
            let (ids, ended): (Vec<Uuid>, Vec<i64>) =
                due.iter().map(|row| (row.get::<_, Uuid>(0), row.get::<_, i64>(1))).unzip();
            self.remove(conn, ground, &ids, &ended, reply).await?;
            is_full |= due.len() as i64 >= left;
            let found = due.iter().map(|row| (row.get(2), row.get(3), row.get(4)));
            self.passed().note(from, found);
        }
        if anew {
            self.passed().rest(begun);
        }
        // What others hold was found and not removed: if that is all, it is left to them for a while.
        Ok(is_full && reply.done > 0)
    }

    fn passed(&self) -> MutexGuard<'_, Passed> {
        self.inner.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes these jobs, as far as they ended then or before.
    pub(crate) async fn remove(
        &self,
        conn: &Lent,
        ground: &Ground,
        ids: &[Uuid],
        ended: &[i64],
        reply: &mut MaintainReply,
    ) -> Try<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let gone = conn.query(REMOVE, &[&ids, &ended]).await?;
        let counts = |row: &Row| (row.get(0), row.get(1), row.get(2));
        let gone: Vec<(i32, i16, i64)> = gone.iter().map(counts).collect();
        Ok(ground.count(reply, &gone)?)
    }
}
