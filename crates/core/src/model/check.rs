//! Verification sampling: jobs of one kind that check a sample of the completed jobs of another. Independent of who
//! enqueues them.

use super::{Dependency, Due, Header, Input, Job, Name, NewJob, OnFailure, Part};
use crate::error::{Result, within_range};
use crate::id::{JobId, derived};
use crate::limits::{CHECK_PER_MILLE, DELAY_MAX_MS};
use crate::name::check_name;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The name of a check's dependency on the job that it checks.
pub const CHECKED: &str = "checked";

/// How the completed jobs of a kind are checked.
///
/// ```
/// use windlass_core::model::CheckRule;
///
/// let rule = CheckRule::new("verify_email").per_mille(100).after_ms(60_000);
/// rule.check()?;
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckRule {
    /// Kind of the checks.
    pub kind: Name,
    /// Queue of the checks; `None`: that of the checked job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    /// Checked jobs out of 1,000 completed ones.
    pub sample_per_mille: u32,
    /// Time between the completion and the check.
    #[serde(default)]
    pub after_ms: u64,
}

impl CheckRule {
    /// Checks each completed job at once with a job of this kind, in the same queue.
    pub fn new(kind: impl Into<Name>) -> Self {
        Self { kind: kind.into(), queue: None, sample_per_mille: 1_000, after_ms: 0 }
    }

    /// Puts the checks into this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Sets how many jobs out of 1,000 are checked.
    #[must_use]
    pub const fn per_mille(mut self, jobs: u32) -> Self {
        self.sample_per_mille = jobs;
        self
    }

    /// Sets the time between the completion and the check.
    #[must_use]
    pub const fn after_ms(mut self, ms: u64) -> Self {
        self.after_ms = ms;
        self
    }

    /// Checks that every value is within its limits.
    pub fn check(&self) -> Result<()> {
        check_name("check.kind", &self.kind)?;
        if let Some(queue) = &self.queue {
            check_name("check.queue", queue)?;
        }
        within_range("check.sample_per_mille", self.sample_per_mille.into(), CHECK_PER_MILLE)?;
        within_range("check.after_ms", self.after_ms, 0..=DELAY_MAX_MS)
    }

    /// Whether a job is in the sample: decided by its id alone, so that all processes decide alike.
    pub fn samples(&self, job: JobId) -> bool {
        per_mille_of(job) < self.sample_per_mille
    }

    /// The check of a job with this header and payload, as a follow-up of the report that completes the job: the engine
    /// derives its id. It has the payload of that job, and its result as an input.
    pub fn job(&self, checked: &Header, payload: Option<Part>) -> NewJob {
        let queue = self.queue.clone().unwrap_or_else(|| checked.queue.clone());
        let dependency = Dependency::on(checked.id).named(CHECKED).on_failure(OnFailure::Run);
        let mut job = NewJob::new(self.kind.clone()).queue(queue).after(dependency);
        job.tenant.clone_from(&checked.tenant);
        job.parts.payload = payload;
        job.due = if self.after_ms == 0 { Due::Now } else { Due::After(self.after_ms) };
        job
    }
}

/// A number below 1,000 that depends on the id alone.
fn per_mille_of(job: JobId) -> u32 {
    let hash = derived(Timestamp::EPOCH, &[b"sample", job.as_bytes()]);
    // Bytes of the hash without the version and the variant.
    let [.., a, b, c, d] = *hash.as_bytes();
    u32::from_be_bytes([a, b, c, d]) % 1_000
}

/// Whether a job is the check of another. Checks are not checked themselves, so that two kinds may check each other.
pub fn is_check(job: &Job) -> bool {
    let names_parent = |input: &Input| {
        Some(input.job) == job.header.parent && input.name.as_deref() == Some(CHECKED)
    };
    job.inputs.iter().any(names_parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn a_sample_is_a_share_of_the_jobs_and_larger_samples_contain_smaller_ones() {
        let random = Seeded::new(1);
        let ids: Vec<JobId> = (0..10_000).map(|n| JobId::new(NOW.plus(n), &random)).collect();
        let sampled = |per_mille| {
            let rule = CheckRule::new("c").per_mille(per_mille);
            ids.iter().filter(|id| rule.samples(**id)).copied().collect::<Vec<_>>()
        };
        let (tenth, all) = (sampled(100), sampled(1_000));
        assert!((900..1_100).contains(&tenth.len()), "{}", tenth.len());
        assert_eq!((all.len(), sampled(0).len()), (10_000, 0));
        let half = sampled(500);
        assert!(tenth.iter().all(|id| half.contains(id)));
        // Ids of fires and follow-ups are sampled, too.
        let derived = |n: u64| JobId::follow_up(ids[0], 1, n as usize, NOW);
        let rule = CheckRule::new("c").per_mille(100);
        let count = (0..10_000).filter(|n| rule.samples(derived(*n))).count();
        assert!((900..1_100).contains(&count), "{count}");
    }

    #[test]
    fn a_rule_that_cannot_hold_is_refused_by_field() {
        let field = |rule: CheckRule| rule.check().unwrap_err().field().unwrap().to_owned();
        assert_eq!(field(CheckRule::new("a b")), "check.kind");
        assert_eq!(field(CheckRule::new("c").queue("")), "check.queue");
        assert_eq!(field(CheckRule::new("c").per_mille(0)), "check.sample_per_mille");
        assert_eq!(field(CheckRule::new("c").per_mille(1_001)), "check.sample_per_mille");
        assert_eq!(field(CheckRule::new("c").after_ms(DELAY_MAX_MS + 1)), "check.after_ms");
    }
}
