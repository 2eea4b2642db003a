//! Statistics of limits: counts of groups, in one snapshot and without locks.

use crate::conn::Lent;
use crate::conn::error::Try;
use crate::engine::PostgresEngine;
use crate::slow::load::{Loaded, Loader};
use crate::slow::perform::CLOCK;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Result;
use windlass_core::engine::{LimitStats, Stamped, StatsRequest};
use windlass_core::limits::LIMIT_LINES_EXAMINED_MAX;
use windlass_core::model::Name;
use windlass_executor::LimitCounts;
use windlass_workset::MeterKey;

const IN_LINES: &str = "SELECT lane, sum(waiting)::bigint FROM {s}.group_lane GROUP BY lane";
const GROUPS: &str =
    "SELECT lane, grp, waiting + ahead FROM {s}.group_lane ORDER BY grp, lane LIMIT $1";
const RUNNING: &str = "SELECT lane, grp, count(*) FROM {s}.lease WHERE grp IS NOT NULL
    GROUP BY lane, grp ORDER BY grp, lane LIMIT $1";

impl PostgresEngine {
    pub(crate) async fn limit_stats(&self) -> Result<Stamped<Vec<LimitStats>>> {
        let conn = self.begin_look().await?;
        let looked = self.read_limits(&conn).await;
        self.end_look(conn, looked).await
    }

    async fn read_limits(&self, conn: &Lent) -> Try<Vec<LimitStats>> {
        let mut loaded = self.load_settings(conn).await?;
        if loaded.limits.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.inner.shared.now_in(&conn.query(CLOCK, &[]).await?);
        let lanes = self.count(conn, &StatsRequest::default()).await?;
        let counts = limit_counts(conn, &loaded).await?;
        let groups = counts.lines.iter().map(|(_, group, _)| group);
        let groups = groups.chain(counts.running.iter().map(|(_, group, _)| group));
        let groups: BTreeSet<&String> = groups.collect();
        let mut meters: BTreeSet<MeterKey> = BTreeSet::new();
        for (name, limit) in &loaded.limits {
            match limit.by_group {
                true => meters.extend(groups.iter().map(|group| (name.clone(), (*group).clone()))),
                false => drop(meters.insert((name.clone(), String::new()))),
            }
        }
        let loader = Loader::new(conn, self.inner.shared.clock.as_ref());
        loader.peek_meters(&meters, &mut loaded).await?;
        Ok(self.run_over(&loaded, conn).limit_stats(&lanes, &counts, now)?)
    }
}

async fn limit_counts(conn: &Lent, loaded: &Loaded) -> Try<LimitCounts> {
    let most = LIMIT_LINES_EXAMINED_MAX as i64;
    let (in_lines, groups, running) = (
        conn.query(IN_LINES, &[]).await?,
        conn.query(GROUPS, &[&most]).await?,
        conn.query(RUNNING, &[&most]).await?,
    );
    let numbers: Vec<i32> =
        in_lines.iter().chain(&groups).chain(&running).map(|row| row.get(0)).collect();
    let names = conn.lanes.names(conn, &numbers).await?;
    let mut counts = LimitCounts::default();
    for row in &in_lines {
        let Some(lane) = names.get(&row.get(0)).cloned() else { continue };
        counts.in_lines.insert(lane, row.get::<_, i64>(1).max(0).cast_unsigned());
    }
    for row in &groups {
        let Some(lane) = names.get(&row.get(0)).cloned() else { continue };
        counts.lines.push((lane, row.get(1), row.get::<_, i64>(2).max(0).cast_unsigned()));
    }
    let mut by_limit: BTreeMap<(Name, String), u64> = BTreeMap::new();
    for row in &running {
        let Some(lane) = names.get(&row.get(0)) else { continue };
        for name in loaded.names_of_limits(lane) {
            let jobs = row.get::<_, i64>(2).cast_unsigned();
            *by_limit.entry((name, row.get(1))).or_default() += jobs;
        }
    }
    counts.running =
        by_limit.into_iter().map(|((name, group), jobs)| (name, group, jobs)).collect();
    Ok(counts)
}
