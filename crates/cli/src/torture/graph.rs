//! Random graphs of jobs.

use windlass_core::model::{Dependency, NewJob, OnFailure};
use windlass_core::random::Random;

/// Maximum number of jobs in a graph.
pub(super) const JOBS_MAX: u64 = 200;
/// Maximum number of jobs that a job runs after, except for one that collects many.
const AFTER_MAX: u64 = 4;
/// Jobs that a job chooses from: those just before it make chains, all of them make fans.
const NEAR: u64 = 5;

/// Lets these jobs run after each other, without cycles. They are shuffled: the order of a request does not matter.
pub(super) fn random(jobs: impl Iterator<Item = NewJob>, random: &dyn Random) -> Vec<NewJob> {
    let mut jobs: Vec<NewJob> = jobs.collect();
    for index in 1..jobs.len() {
        let collects = random.below(40) == 0;
        let count = if collects { index as u64 } else { random.below(AFTER_MAX) };
        let mut chosen = std::collections::BTreeSet::new();
        for number in 0..count {
            let among = index as u64;
            let upstream = match (collects, random.below(2)) {
                (true, _) => number,
                (false, 0) => among - 1 - random.below(among.min(NEAR)),
                (false, _) => random.below(among),
            };
            chosen.insert(upstream as usize);
        }
        for upstream in chosen {
            let Some(id) = jobs[upstream].id else { continue };
            let policy = match random.below(4) {
                0 => OnFailure::Fail,
                1 => OnFailure::Cancel,
                _ => OnFailure::Run,
            };
            jobs[index].after.push(Dependency::on(id).on_failure(policy));
        }
    }
    for index in (1..jobs.len()).rev() {
        jobs.swap(index, random.below(index as u64 + 1) as usize);
    }
    jobs
}
