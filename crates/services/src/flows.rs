//! Flows: reads, cancels and replays all jobs that share a flow's name.

use std::collections::{BTreeMap, VecDeque};
use windlass_core::engine::{
    Admin, Change, ChangeItem, Changed, Filter, Get, Item, List, ListOrder, Stamped,
};
use windlass_core::limits::{FLOW_JOBS_MAX, PAGE_MAX};
use windlass_core::model::{Job, Name, State};
use windlass_core::{Error, JobId, Result};

/// All jobs of a flow with their inputs, without parts: each after those that it depends on.
///
/// ```
/// # use windlass_core::engine::{Enqueue, Jobs as _};
/// # use windlass_core::model::NewJob;
/// # use windlass_memory::MemoryEngine;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let engine = MemoryEngine::new();
/// # engine.enqueue(Enqueue::each([NewJob::new("hello").flow("import-7")])).await?;
/// let jobs = windlass_services::flow_jobs(&engine, &"import-7".into()).await?.value;
/// assert_eq!(jobs.len(), 1);
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
pub async fn flow_jobs(engine: &dyn Admin, flow: &Name) -> Result<Stamped<Vec<Job>>> {
    let filter = Filter::default().flow(flow.clone());
    let mut list = List::new(filter).order(ListOrder::Oldest).limit(PAGE_MAX);
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let page = engine.list(list.clone()).await?;
        let ids: Vec<JobId> = page.value.rows.iter().map(|job| job.header.id).collect();
        if jobs.len() + ids.len() > FLOW_JOBS_MAX {
            let expected = format!(
                "it has more than {FLOW_JOBS_MAX} jobs, the limit of this call: list them by `flow`, page by page"
            );
            return Err(Error::invalid("flow", flow, expected));
        }
        if !ids.is_empty() {
            jobs.extend(engine.get(Get::new(ids)).await?.value.into_iter().flatten());
        }
        match page.value.next {
            Some(next) => list.after = Some(next),
            None => return Ok(Stamped { value: in_order(jobs), ..page.map(|_| Vec::new()) }),
        }
    }
}

/// Cancels all jobs of a flow that have not ended. Dependents go first, so that none ends because of another.
pub async fn cancel_flow(engine: &dyn Admin, flow: &Name) -> Result<Stamped<Vec<Item<Changed>>>> {
    let jobs = flow_jobs(engine, flow).await?;
    let open = |job: &&Job| !job.state.is_terminal();
    let ids = jobs.value.iter().rev().filter(open).map(|job| job.header.id).collect();
    change(engine, jobs.map(|_| ids), Change::Cancel).await
}

/// Replays all jobs of a flow that ended without being completed, each after those that it depends on, so that it waits
/// for them again.
pub async fn replay_flow(engine: &dyn Admin, flow: &Name) -> Result<Stamped<Vec<Item<Changed>>>> {
    let jobs = flow_jobs(engine, flow).await?;
    let failed = |job: &&Job| job.state.is_terminal() && job.state != State::Completed;
    let ids = jobs.value.iter().filter(failed).map(|job| job.header.id).collect();
    change(engine, jobs.map(|_| ids), Change::replay()).await
}

async fn change(
    engine: &dyn Admin,
    ids: Stamped<Vec<JobId>>,
    change: Change,
) -> Result<Stamped<Vec<Item<Changed>>>> {
    if ids.value.is_empty() {
        return Ok(ids.map(|_| Vec::new()));
    }
    let items = ids.value.into_iter().map(|id| ChangeItem::new(id, change.clone()));
    engine.change(items.collect()).await
}

/// Sorts jobs so that each comes after those that it depends on.
fn in_order(jobs: Vec<Job>) -> Vec<Job> {
    let places: BTreeMap<JobId, usize> =
        jobs.iter().enumerate().map(|(place, job)| (job.header.id, place)).collect();
    let mut dependents = vec![Vec::new(); jobs.len()];
    let mut open = vec![0_usize; jobs.len()];
    for (place, job) in jobs.iter().enumerate() {
        for upstream in job.inputs.iter().filter_map(|input| places.get(&input.job)) {
            dependents[*upstream].push(place);
            open[place] += 1;
        }
    }
    let mut jobs: Vec<Option<Job>> = jobs.into_iter().map(Some).collect();
    let mut free: VecDeque<usize> = (0..jobs.len()).filter(|place| open[*place] == 0).collect();
    let mut order = Vec::with_capacity(jobs.len());
    while let Some(place) = free.pop_front() {
        order.extend(jobs[place].take());
        for dependent in &dependents[place] {
            open[*dependent] -= 1;
            if open[*dependent] == 0 {
                free.push_back(*dependent);
            }
        }
    }
    order
}
