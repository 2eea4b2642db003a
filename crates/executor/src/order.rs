//! The order of a graph: each job after those that it depends on.

use std::collections::{BTreeMap, VecDeque};
use windlass_core::model::NewJob;
use windlass_core::{Error, Result};

/// The order in which new jobs are stored so that each comes after those that it depends on. An error names a job that
/// depends on itself through others.
pub(crate) fn storing_order(jobs: &[NewJob]) -> Result<Vec<usize>, (usize, Error)> {
    if jobs.iter().all(|job| job.after.is_empty()) {
        return Ok((0..jobs.len()).collect());
    }
    // The first job with an id counts: further ones are the same job.
    let mut by_id = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        if let Some(id) = job.id {
            by_id.entry(id).or_insert(index);
        }
    }
    let mut dependents = vec![Vec::new(); jobs.len()];
    let mut open = vec![0_usize; jobs.len()];
    for (index, job) in jobs.iter().enumerate() {
        for dependency in &job.after {
            if let Some(upstream) = by_id.get(&dependency.job) {
                dependents[*upstream].push(index);
                open[index] += 1;
            }
        }
    }
    let mut free: VecDeque<usize> = (0..jobs.len()).filter(|index| open[*index] == 0).collect();
    let mut order = Vec::with_capacity(jobs.len());
    while let Some(index) = free.pop_front() {
        order.push(index);
        for dependent in &dependents[index] {
            open[*dependent] -= 1;
            if open[*dependent] == 0 {
                free.push_back(*dependent);
            }
        }
    }
    match open.iter().position(|open| *open > 0) {
        None => Ok(order),
        Some(index) => {
            let expected = "its dependencies lead back to itself: remove one of them";
            let id = jobs[index].id.map_or_else(String::new, |id| id.to_string());
            Err((index, Error::invalid("after", id, expected)))
        }
    }
}
