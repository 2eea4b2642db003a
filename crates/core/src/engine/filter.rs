//! Filters of job listings. Independent of how an engine finds jobs.

use crate::error::{Error, Result};
use crate::id::JobId;
use crate::limits;
use crate::model::{Header, Name, State};
use crate::name::{check_name, check_text};
use crate::time::Timestamp;

/// A filter of jobs. A job matches if it satisfies every criterion that is set; `None` matches any job.
///
/// ```
/// use windlass_core::engine::Filter;
/// use windlass_core::model::State;
///
/// let theirs = Filter::state(State::Dead).queue("mail").tenant("acme").tag("newsletter");
/// theirs.check()?;
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// The queue.
    pub queue: Option<Name>,
    /// The kind.
    pub kind: Option<Name>,
    /// The state.
    pub state: Option<State>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The ordering key.
    pub key: Option<String>,
    /// One of the job's tags.
    pub tag: Option<String>,
    /// The parent job.
    pub parent: Option<JobId>,
    /// The flow.
    pub flow: Option<Name>,
    /// Enqueued at this time or later.
    pub created_from: Option<Timestamp>,
    /// Enqueued before this time (exclusive, so that adjacent windows share no job).
    pub created_until: Option<Timestamp>,
}

/// A range of times in job ids, both ends included; `None` means unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdTimes {
    /// The earliest time.
    pub from: Option<Timestamp>,
    /// The latest time.
    pub until: Option<Timestamp>,
}

impl Filter {
    /// Jobs in this state.
    pub fn state(state: State) -> Self {
        Self { state: Some(state), ..Self::default() }
    }

    /// Requires this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Requires this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Name>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Requires this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Requires this ordering key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Requires this tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Requires this parent job.
    #[must_use]
    pub const fn parent(mut self, parent: JobId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Requires this flow.
    #[must_use]
    pub fn flow(mut self, flow: impl Into<Name>) -> Self {
        self.flow = Some(flow.into());
        self
    }

    /// Requires that the job was enqueued at this time or later.
    #[must_use]
    pub const fn created_from(mut self, from: Timestamp) -> Self {
        self.created_from = Some(from);
        self
    }

    /// Requires that the job was enqueued before this time.
    #[must_use]
    pub const fn created_until(mut self, until: Timestamp) -> Self {
        self.created_until = Some(until);
        self
    }

    /// Whether a job matches.
    pub fn fits(&self, header: &Header, state: State) -> bool {
        fn is<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        }
        fn has<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        is(&self.queue, &header.queue)
            && is(&self.kind, &header.kind)
            && is(&self.state, &state)
            && has(&self.tenant, &header.tenant)
            && has(&self.key, &header.key)
            && has(&self.parent, &header.parent)
            && has(&self.flow, &header.flow)
            && self.tag.as_ref().is_none_or(|tag| header.tags.contains(tag))
            && self.created_from.is_none_or(|from| header.created_at >= from)
            && self.created_until.is_none_or(|until| header.created_at < until)
    }

    /// The times that the ids of matching jobs may contain: the creation window, widened by the allowed skew
    /// of ids. Listings are ordered by id and need not read outside of it.
    pub fn id_times(&self) -> IdTimes {
        let skew_ms = limits::ID_SKEW_MAX_MS;
        IdTimes {
            from: self.created_from.map(|from| from.minus(skew_ms)),
            until: self.created_until.map(|until| until.plus(skew_ms)),
        }
    }

    /// Validates the filter.
    pub fn check(&self) -> Result<()> {
        if let Some(queue) = &self.queue {
            check_name("queue", queue)?;
        }
        if let Some(kind) = &self.kind {
            check_name("kind", kind)?;
        }
        if let Some(tenant) = &self.tenant {
            check_text("tenant", tenant, limits::NAME_BYTES_MAX)?;
        }
        if let Some(key) = &self.key {
            check_text("key", key, limits::KEY_BYTES_MAX)?;
        }
        if let Some(flow) = &self.flow {
            check_name("flow", flow)?;
        }
        if let Some(tag) = &self.tag {
            check_text("tag", tag, limits::TAG_BYTES_MAX)?;
        }
        match (self.created_from, self.created_until) {
            (Some(from), Some(until)) if until <= from => {
                let expected = format!("it must be later than created_from, {from}");
                Err(Error::invalid("created_until", until, expected))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    const AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn ids_of_a_window_are_searched_within_the_largest_clock_difference() {
        let filter = Filter::default().created_from(AT).created_until(AT.plus(1));
        let IdTimes { from, until } = filter.id_times();
        for made_at in [AT.minus(limits::ID_SKEW_MAX_MS), AT.plus(limits::ID_SKEW_MAX_MS)] {
            let id = JobId::new(made_at, &Seeded::new(1));
            id.check(AT).unwrap();
            assert!(from.unwrap() <= id.time() && id.time() <= until.unwrap());
        }
        assert_eq!(Filter::default().id_times(), IdTimes::default());
        let all = Filter::default().created_from(Timestamp::from_millis(i64::MIN));
        assert_eq!(all.created_until(Timestamp::MAX).id_times().until, Some(Timestamp::MAX));
    }
}
