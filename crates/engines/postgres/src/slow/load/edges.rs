//! Loads dependencies: the open edges of jobs that may end, and all dependencies of single jobs.

use super::{Loaded, Loader, some};
use crate::conn::error::Try;
use crate::conn::{Conn, Row};
use crate::rows::codec;
use crate::rows::entries::job_id;
use futures_util::future::try_join;
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::JobId;
use windlass_core::limits::RESOLUTIONS_MAX;
use windlass_core::model::Input;
use windlass_workset::{Wants, edges_loaded_max};

/// A lateral lookup per job: the planner could reverse a join and read all open edges.
const OPEN: &str = "SELECT w.upstream, e.dependent, e.position, e.input
    FROM unnest($1::uuid[]) w (upstream) CROSS JOIN LATERAL
        (SELECT dependent, position, input FROM {s}.edge WHERE upstream = w.upstream AND open
            ORDER BY dependent, position LIMIT $2) e";
const INPUTS: &str = "SELECT dependent, upstream, input FROM {s}.edge WHERE dependent = ANY($1)
    ORDER BY dependent, position";
/// In order, so that the positions follow from the first one.
const SPANS: &str = "SELECT w.dependent, w.first, e.upstream, e.input
    FROM unnest($1::uuid[], $2::integer[]) w (dependent, first) CROSS JOIN LATERAL
        (SELECT position, upstream, input FROM {s}.edge WHERE dependent = w.dependent AND position >= w.first
            ORDER BY position LIMIT $3) e ORDER BY w.dependent, e.position";
/// Ended jobs that one maintenance step continues to resolve. Each may have a wide fan.
pub(crate) const UNRESOLVED_MAX: u32 = 16;
pub(super) const UNRESOLVED: &str = "SELECT id FROM {s}.unresolved ORDER BY id LIMIT $1";

impl Loader<'_, '_> {
    /// Loads the wanted edges. The jobs that they belong to are locked, so no edge is added meanwhile.
    pub(super) async fn edges(&self, wants: &Wants, loaded: &mut Loaded) -> Try<()> {
        let upstream: Vec<Uuid> = loaded.edges_to_load(wants).map(|id| id.as_uuid()).collect();
        let whole: Vec<Uuid> = loaded.inputs_to_load(wants).map(|id| id.as_uuid()).collect();
        self.spans(wants, loaded).await?;
        if upstream.is_empty() && whole.is_empty() {
            return Ok(());
        }
        let most = edges_loaded_max(upstream.len());
        let limit = most as i64 + 1;
        self.conn.prepare(&[OPEN, INPUTS]).await?;
        let (open, inputs) = try_join(
            some(!upstream.is_empty(), self.conn.query(OPEN, &[&upstream, &limit])),
            some(!whole.is_empty(), self.conn.query(INPUTS, &[&whole])),
        )
        .await?;
        for id in upstream {
            loaded.edges.open.entry(job_id(id)).or_default();
        }
        for row in &open {
            let upstream = job_id(row.get(0));
            let key = (job_id(row.get(1)), row.get::<_, i32>(2).cast_unsigned());
            loaded.edges.add_open(upstream, key, codec::input(upstream, row.get(3))?, most);
        }
        for id in whole {
            loaded.edges.whole.entry(job_id(id)).or_default();
        }
        for row in &inputs {
            let (dependent, input) = input(row)?;
            loaded.edges.add_next(dependent, input);
        }
        Ok(())
    }

    /// Loads the dependencies of jobs that release others.
    async fn spans(&self, wants: &Wants, loaded: &mut Loaded) -> Try<()> {
        let (ids, first): (Vec<Uuid>, Vec<i32>) = loaded
            .spans_to_load(wants)
            .map(|(id, from)| (id.as_uuid(), from.cast_signed()))
            .unzip();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = self.conn.query(SPANS, &[&ids, &first, &i64::from(RESOLUTIONS_MAX)]).await?;
        let mut spans: HashMap<Uuid, Vec<Input>> = HashMap::new();
        for row in &rows {
            let input = codec::input(job_id(row.get(2)), row.get(3))?;
            spans.entry(row.get(0)).or_default().push(input);
        }
        for (id, first) in ids.into_iter().zip(first) {
            let inputs = spans.remove(&id).unwrap_or_default();
            loaded.edges.add_span(job_id(id), first.cast_unsigned(), inputs);
        }
        Ok(())
    }
}

/// The dependencies of these jobs, in order.
pub(crate) async fn inputs_of(conn: &Conn<'_>, ids: &[Uuid]) -> Try<Vec<(JobId, Input)>> {
    let rows = conn.query(INPUTS, &[&ids]).await?;
    rows.iter().map(input).collect()
}

fn input(row: &Row) -> Try<(JobId, Input)> {
    Ok((job_id(row.get(0)), codec::input(job_id(row.get(1)), row.get(2))?))
}
