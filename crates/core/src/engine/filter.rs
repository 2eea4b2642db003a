//! Which jobs a listing shows. It must not know how an engine finds them.

use crate::error::{Error, Result};
use crate::id::JobId;
use crate::limits;
use crate::model::{Header, Name, State};
use crate::name::{check_name, check_text};
use crate::time::Timestamp;

/// Which jobs to list; `None` is any, and a job passes if everything that is set fits.
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
    /// Of this queue.
    pub queue: Option<Name>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// In this state.
    pub state: Option<State>,
    /// For this tenant.
    pub tenant: Option<String>,
    /// With this ordering key.
    pub key: Option<String>,
    /// With this tag among theirs.
    pub tag: Option<String>,
    /// That came from this job.
    pub parent: Option<JobId>,
    /// Enqueued at this instant or later.
    pub created_from: Option<Timestamp>,
    /// Enqueued before this instant, so that windows that follow each other share no job.
    pub created_until: Option<Timestamp>,
}

/// The times that the ids of some jobs may carry, both ends included; `None` is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdTimes {
    /// None earlier than this.
    pub from: Option<Timestamp>,
    /// None later than this.
    pub until: Option<Timestamp>,
}

impl Filter {
    /// In this state.
    pub fn state(state: State) -> Self {
        Self { state: Some(state), ..Self::default() }
    }

    /// And of this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// And of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Name>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// And for this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// And with this ordering key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// And with this tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// And that came from this job.
    #[must_use]
    pub const fn parent(mut self, parent: JobId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// And enqueued at this instant or later.
    #[must_use]
    pub const fn created_from(mut self, from: Timestamp) -> Self {
        self.created_from = Some(from);
        self
    }

    /// And enqueued before this instant.
    #[must_use]
    pub const fn created_until(mut self, until: Timestamp) -> Self {
        self.created_until = Some(until);
        self
    }

    /// Whether a job passes.
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
            && self.tag.as_ref().is_none_or(|tag| header.tags.contains(tag))
            && self.created_from.is_none_or(|from| header.created_at >= from)
            && self.created_until.is_none_or(|until| header.created_at < until)
    }

    /// The times that ids of passing jobs may carry: a window of creation, wider by how far the time
    /// inside an id may be off. A listing goes by ids, so it need not look outside of it.
    pub fn id_times(&self) -> IdTimes {
        let skew_ms = limits::ID_SKEW_MAX_MS;
        IdTimes {
            from: self.created_from.map(|from| from.minus(skew_ms)),
            until: self.created_until.map(|until| until.plus(skew_ms)),
        }
    }

    /// Whether it is acceptable.
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
    fn ids_of_a_window_are_looked_for_as_far_off_as_they_may_be() {
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
