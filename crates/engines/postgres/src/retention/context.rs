//! The input of a retention step: the clock, the settings, the cutoff times that follow from them, and the partitions.

use crate::conn::Lent;
use crate::conn::Row;
use crate::conn::error::Try;
use crate::engine::PostgresEngine;
use crate::slow::load::{Loaded, SettingRows, add_settings};
use crate::slow::perform::CLOCK;
use futures_util::future::try_join4;
use std::collections::{BTreeSet, HashMap};
use uuid::Uuid;
use windlass_core::engine::{MaintainReply, Tally};
use windlass_core::model::{Name, State};
use windlass_core::{JobId, Result, Timestamp};

const LANES: &str = "SELECT id, queue, kind FROM {s}.lane";
/// Adds removed jobs to the history; without a group, it does nothing.
const COUNT_REMOVED: &str =
    "SELECT {s}.count_removed($1::bigint[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bigint[])
    WHERE cardinality($1::bigint[]) > 0";
const PARTITIONS: &str = "SELECT no, from_id, upto_id, emptied,
        coalesce(pg_relation_size(to_regclass({'s.finished_'} || no)), 0)
    FROM {s}.partition ORDER BY from_id";

/// Minimum width of a partition.
pub(super) const WIDTH_MIN_MS: u64 = 60_000;
/// Ended jobs in a partition smaller than this are removed row by row as soon as they are due.
const SMALL_BYTES: i64 = 4 << 20;

/// A pair of partitions of `job` and `finished`, for the ids in `from..upto`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partition {
    pub(super) no: i32,
    pub(super) from: Uuid,
    pub(super) upto: Uuid,
    emptied: bool,
    bytes: i64,
}

impl Partition {
    fn read(row: &Row) -> Self {
        let (no, from, upto) = (row.get(0), row.get(1), row.get(2));
        Self { no, from, upto, emptied: row.get(3), bytes: row.get(4) }
    }

    pub(super) fn begins_at(&self) -> Timestamp {
        JobId::from_uuid(self.from).time()
    }

    pub(super) fn ends_at(&self) -> Timestamp {
        JobId::from_uuid(self.upto).time()
    }

    /// Whether removal with the partition would keep jobs for more than twice their retention `kept_ms`: the partition
    /// was created for a longer retention, perhaps that of another queue.
    pub(super) fn is_too_wide(&self, kept_ms: u64) -> bool {
        let width = self.ends_at().since(self.begins_at());
        width > kept_ms.max(WIDTH_MIN_MS)
    }

    /// Whether both are the same partition: numbers may be used again in another epoch.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.no, self.from, self.upto) == (other.no, other.from, other.upto)
    }

    /// Whether no job in it has ended yet.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn is_small(&self) -> bool {
        self.emptied || self.bytes < SMALL_BYTES
    }
}

/// Cutoff times by lane and state, as columns: jobs that ended at or before `ended` are past their retention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cutoffs {
    pub(super) lanes: Vec<i32>,
    pub(super) states: Vec<i16>,
    pub(super) ended: Vec<i64>,
}

impl Cutoffs {
    fn by_lane(&self) -> HashMap<(i32, i16), i64> {
        let names = self.lanes.iter().copied().zip(self.states.iter().copied());
        names.zip(self.ended.iter().copied()).collect()
    }

    /// Whether every job that these cutoffs remove is also removed by the others.
    pub(super) fn hold_in(&self, others: &Self) -> bool {
        let others = others.by_lane();
        let mine = self.by_lane();
        mine.iter().all(|(name, ended)| others.get(name).is_some_and(|other| other >= ended))
    }

    /// A JSON object with a time for each `lane.state`.
    pub(super) fn to_json(&self) -> String {
        let time = |((lane, state), ended)| format!(r#""{lane}.{state}":{ended}"#);
        let times: Vec<String> = self.by_lane().into_iter().map(time).collect();
        format!("{{{}}}", times.join(","))
    }
}

/// The state of the store at the beginning of a retention step.
pub(crate) struct RetentionContext {
    pub(super) now: Timestamp,
    pub(super) cutoffs: Cutoffs,
    /// All partitions, oldest first.
    pub(super) partitions: Vec<Partition>,
    /// The shortest and the longest retention of finished jobs; `None` without lanes.
    pub(super) kept_ms: Option<(u64, u64)>,
    queues: HashMap<i32, Name>,
    kinds: HashMap<i32, Name>,
    settings: Loaded,
}

impl RetentionContext {
    /// The cutoff times at `now`, without queues that record events: the executor removes their jobs.
    pub(super) fn cutoffs_at(&self, now: Timestamp) -> Cutoffs {
        let mut cutoffs = Cutoffs::default();
        for (lane, queue) in &self.queues {
            let settings = self.settings.settings_of(queue);
            if settings.events.is_some() {
                continue;
            }
            let retention = settings.retention;
            for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
                cutoffs.lanes.push(*lane);
                cutoffs.states.push(state as i16);
                cutoffs.ended.push(now.minus(retention.of(state)).as_millis());
            }
        }
        cutoffs
    }

    /// The limits on numbers of ended jobs, without queues that record events: queue, state, number, and the cutoff time by
    /// age.
    pub(super) fn keep_limits(&self) -> Vec<(Name, State, u64, i64)> {
        let queues: BTreeSet<&Name> = self.queues.values().collect();
        let mut limits = Vec::new();
        for queue in queues {
            let settings = self.settings.settings_of(queue);
            if settings.events.is_some() {
                continue;
            }
            for (state, most) in settings.keep_max.limits() {
                let cutoff = self.now.minus(settings.retention.of(state)).as_millis();
                limits.push((queue.clone(), state, most, cutoff));
            }
        }
        limits
    }

    /// Adds jobs that went with their partition to the history of removed jobs, in the transaction of the connection.
    pub(super) async fn note(
        &self,
        conn: &Lent,
        gone: &HashMap<(i32, i16, String), i64>,
    ) -> Try<()> {
        let (mut queues, mut kinds) = (Vec::new(), Vec::new());
        let (mut tenants, mut states, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for ((lane, state, tenant), count) in gone {
            let (Some(queue), Some(kind)) = (self.queues.get(lane), self.kinds.get(lane)) else {
                continue;
            };
            queues.push(queue.to_string());
            kinds.push(kind.to_string());
            tenants.push(tenant.as_str());
            states.push(*state);
            counts.push(*count);
        }
        let times = vec![self.now.as_millis(); counts.len()];
        let rows =
            [&times as _, &queues as _, &kinds as _, &tenants as _, &states as _, &counts as _];
        conn.query(COUNT_REMOVED, &rows).await?;
        Ok(())
    }

    /// Adds removed jobs, as rows of lane, state and number, to the reply.
    pub(super) fn count(&self, reply: &mut MaintainReply, gone: &[(i32, i16, i64)]) -> Result<()> {
        for (lane, state, count) in gone {
            let Some(queue) = self.queues.get(lane).cloned() else { continue };
            let from = crate::rows::codec::state(*state)?;
            let count = count.max(&0).cast_unsigned();
            reply.done = reply.done.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            reply.add(Tally::new(queue, from, None, count));
        }
        Ok(())
    }
}

impl PostgresEngine {
    /// Reads the current context.
    pub(super) async fn retention_context(&self, conn: &Lent) -> Try<RetentionContext> {
        conn.prepare(&[CLOCK, LANES, PARTITIONS]).await?;
        let (clock, lanes, stored, partitions) = try_join4(
            conn.query(CLOCK, &[]),
            conn.query(LANES, &[]),
            SettingRows::read(conn),
            conn.query(PARTITIONS, &[]),
        )
        .await?;
        let mut settings = Loaded::default();
        add_settings(&mut settings, stored)?;
        let queues: HashMap<i32, Name> =
            lanes.iter().map(|row| (row.get(0), row.get::<_, &str>(1).into())).collect();
        let kinds = lanes.iter().map(|row| (row.get(0), row.get::<_, &str>(2).into())).collect();
        let kept = queues.values().map(|queue| settings.settings_of(queue).retention.finished_ms);
        let kept_ms = kept.fold(None, |kept: Option<(u64, u64)>, ms| match kept {
            Some((shortest, longest)) => Some((shortest.min(ms), longest.max(ms))),
            None => Some((ms, ms)),
        });
        let mut context = RetentionContext {
            now: self.inner.shared.now_in(&clock),
            cutoffs: Cutoffs::default(),
            partitions: partitions.iter().map(Partition::read).collect(),
            kept_ms,
            queues,
            kinds,
            settings,
        };
        context.cutoffs = context.cutoffs_at(context.now);
        Ok(context)
    }
}
