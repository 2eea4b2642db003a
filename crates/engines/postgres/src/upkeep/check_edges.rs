//! Checks dependencies against the jobs at both of their ends.

use super::check::Finds;
use crate::conn::Lent;
use crate::conn::error::Try;
use crate::rows::entries::{Found, job_id};
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

const COUNTS: &str = "SELECT dependent, count(*)::bigint, count(*) FILTER (WHERE open)::bigint
    FROM {s}.edge GROUP BY dependent";
const OPEN: &str = "SELECT DISTINCT upstream FROM {s}.edge WHERE open";
const KEPT: &str =
    "SELECT dependent, upstream FROM {s}.edge WHERE (input::json ->> 'kept')::boolean";
const UNRESOLVED: &str = "SELECT id FROM {s}.unresolved";

/// The rows of dependencies.
#[derive(Default)]
pub(super) struct Edges {
    /// All and open dependencies, by dependent.
    counts: HashMap<Uuid, (i64, i64)>,
    /// Jobs with open edges.
    upstream: HashSet<Uuid>,
    unresolved: HashSet<Uuid>,
    /// How many jobs a job keeps, and how many keep it.
    kept: HashMap<Uuid, (u32, u32)>,
}

impl Edges {
    pub(super) async fn read(conn: &Lent) -> Try<Self> {
        let counts = conn.query(COUNTS, &[]).await?;
        let counts = counts.iter().map(|row| (row.get(0), (row.get(1), row.get(2))));
        let counts = counts.collect();
        let upstream = conn.query(OPEN, &[]).await?.iter().map(|row| row.get(0)).collect();
        let unresolved = conn.query(UNRESOLVED, &[]).await?.iter().map(|row| row.get(0)).collect();
        let mut kept: HashMap<Uuid, (u32, u32)> = HashMap::new();
        for row in conn.query(KEPT, &[]).await? {
            kept.entry(row.get(0)).or_default().0 += 1;
            kept.entry(row.get(1)).or_default().1 += 1;
        }
        Ok(Self { counts, upstream, unresolved, kept })
    }

    /// Adds the findings of one job.
    pub(super) fn judge(&mut self, job: &Found, found: &mut Finds) {
        let (id, uuid, job) = (job.entry.id(), job.entry.id().as_uuid(), &job.entry.job);
        let ours = (i64::from(job.dependencies.total), i64::from(job.dependencies.open));
        let stored = self.counts.remove(&uuid).unwrap_or_default();
        if ours != stored {
            let (waits, open) = (ours.1, stored.1);
            found.push(format!("job {id} waits for {waits} dependencies, and {open} are open"));
        }
        if self.upstream.remove(&uuid) && !job.followed {
            found.push(format!("jobs depend on job {id}, which does not know it"));
        }
        let ours = (job.dependencies.kept, job.dependencies.readers);
        let stored = self.kept.remove(&uuid).unwrap_or_default();
        if ours != stored {
            found.push(format!("job {id} keeps and is kept by {ours:?} jobs, but {stored:?} do"));
        }
        if self.unresolved.remove(&uuid) != job.is_unresolved() {
            found.push(format!("job {id} has dependents, and maintenance does not know it"));
        }
    }

    /// Adds rows without a job.
    pub(super) fn judge_rest(&self, found: &mut Finds) {
        let strays = self.counts.keys().chain(&self.upstream).chain(&self.unresolved);
        for id in strays.map(|id| job_id(*id)) {
            found.push(format!("dependencies of job {id}, which does not exist"));
        }
    }
}
