//! Operator settings per queue and per kind.

use super::topic::check_subscriptions;
use super::{EventBounds, Name, Subscription};
use crate::error::{Error, Result, within_limit, within_range};
use crate::limits::{AGE_MAX_MS, LISTED_LIMITS_MAX};
use crate::name::check_name;
use crate::policy::{KeepMax, Retention};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The order of ready jobs within a lane. See [`crate::policy::rank`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// By priority, then in the order of enqueueing.
    #[default]
    Strict,
    /// By the time at which a job became ready, adjusted by `quantum_ms` per step of priority: no job
    /// starves.
    Ageing {
        /// How much waiting time one step of priority is worth.
        quantum_ms: u64,
    },
    /// Newest first, with millisecond resolution; priority is ignored.
    Lifo,
    /// Round robin among tenants, even if one floods the queue; priority is ignored.
    Fair,
}

/// The settings of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct QueueSettings {
    /// While set, no job of the queue is claimed.
    pub paused: bool,
    /// Maximum number of waiting jobs; further enqueues are refused.
    pub max_depth: Option<u64>,
    /// The order of its ready jobs. A change applies to jobs that become ready afterwards.
    pub order: Order,
    /// How long its ended jobs are kept, unless the job sets its own retention.
    pub retention: Retention,
    /// When its waiting jobs expire, unless the job sets its own limit.
    pub max_wait_ms: Option<u64>,
    /// Maximum total bytes of its dead jobs. Beyond it the oldest are removed, regardless of their retention.
    pub dead_bytes_max: Option<u64>,
    /// How many of its ended jobs are kept. Beyond it the oldest are removed, regardless of the queue's retention.
    pub keep_max: KeepMax,
    /// Names of the limits that its jobs run under.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Name>,
    /// Whether the transitions of its jobs are recorded as [events](crate::engine::Admin::events), and how many are kept.
    /// Off by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<EventBounds>,
    /// Its subscriptions. If there are any, the queue is a topic: it stores no new jobs, but one copy of each in the queue of
    /// every subscription that wants it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscriptions: Vec<Subscription>,
    /// No job of the queue is claimed before this time. Reports set it: see [`Hold`](crate::engine::Hold).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Timestamp>,
}

/// A change to some settings of a queue; `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePatch {
    /// Pause or resume.
    pub paused: Option<bool>,
    /// Set or remove the depth limit.
    pub max_depth: Option<Option<u64>>,
    /// Change the order of jobs that become ready from now on.
    pub order: Option<Order>,
    /// Change the retention of ended jobs.
    pub retention: Option<Retention>,
    /// Set or remove the limit on waiting time.
    pub max_wait_ms: Option<Option<u64>>,
    /// Set or remove the byte limit of dead jobs.
    pub dead_bytes_max: Option<Option<u64>>,
    /// Change how many ended jobs are kept.
    pub keep_max: Option<KeepMax>,
    /// Replace the names of the limits that its jobs run under.
    pub limits: Option<Vec<Name>>,
    /// Switch events on with these bounds, change the bounds, or switch events off.
    pub events: Option<Option<EventBounds>>,
    /// Replace its subscriptions. Jobs that were enqueued before stay where they are.
    pub subscriptions: Option<Vec<Subscription>>,
}

impl QueuePatch {
    /// Pauses or resumes.
    pub fn paused(paused: bool) -> Self {
        Self { paused: Some(paused), ..Self::default() }
    }

    /// Sets or removes the depth limit.
    pub fn max_depth(limit: Option<u64>) -> Self {
        Self { max_depth: Some(limit), ..Self::default() }
    }

    /// Changes the order of jobs that become ready from now on.
    pub fn order(order: Order) -> Self {
        Self { order: Some(order), ..Self::default() }
    }

    /// Changes the retention of ended jobs.
    pub fn retention(retention: Retention) -> Self {
        Self { retention: Some(retention), ..Self::default() }
    }

    /// Sets or removes the limit on waiting time.
    pub fn max_wait_ms(limit: Option<u64>) -> Self {
        Self { max_wait_ms: Some(limit), ..Self::default() }
    }

    /// Sets or removes the byte limit of dead jobs.
    pub fn dead_bytes_max(limit: Option<u64>) -> Self {
        Self { dead_bytes_max: Some(limit), ..Self::default() }
    }

    /// Changes how many ended jobs are kept.
    pub fn keep_max(keep_max: KeepMax) -> Self {
        Self { keep_max: Some(keep_max), ..Self::default() }
    }

    /// Replaces the names of the limits that its jobs run under.
    pub fn limits<N: Into<Name>>(limits: impl IntoIterator<Item = N>) -> Self {
        let limits = limits.into_iter().map(Into::into).collect();
        Self { limits: Some(limits), ..Self::default() }
    }

    /// Switches events on with these bounds, changes the bounds, or switches events off. Events that are switched off are
    /// dropped.
    pub fn events(bounds: Option<EventBounds>) -> Self {
        Self { events: Some(bounds), ..Self::default() }
    }

    /// Replaces its subscriptions. With any, the queue is a topic; without, it is an ordinary queue again.
    pub fn subscriptions(subscriptions: impl IntoIterator<Item = Subscription>) -> Self {
        Self { subscriptions: Some(subscriptions.into_iter().collect()), ..Self::default() }
    }

    /// Checks that every value is within its limits.
    pub fn check(&self) -> Result<()> {
        check_listed(self.limits.as_deref())?;
        check_subscriptions(self.subscriptions.as_deref().unwrap_or_default())?;
        if let Some(Some(events)) = self.events {
            events.check()?;
        }
        if self.max_depth == Some(Some(0)) {
            return Err(Error::invalid(
                "max_depth",
                0,
                "use 1 or more; to stop its jobs, pause the queue",
            ));
        }
        if let Some(Order::Ageing { quantum_ms }) = self.order {
            within_range("order.quantum_ms", quantum_ms, 1..=AGE_MAX_MS)?;
        }
        if let Some(Some(ms)) = self.max_wait_ms {
            within_range("max_wait_ms", ms, 1..=AGE_MAX_MS)?;
        }
        if let Some(keep_max) = self.keep_max {
            keep_max.check()?;
        }
        self.retention.map_or(Ok(()), |retention| retention.check())
    }

    /// Applies the change.
    pub fn apply(&self, settings: &mut QueueSettings) {
        if let Some(paused) = self.paused {
            settings.paused = paused;
        }
        if let Some(limit) = self.max_depth {
            settings.max_depth = limit;
        }
        if let Some(order) = self.order {
            settings.order = order;
        }
        if let Some(retention) = self.retention {
            settings.retention = retention;
        }
        if let Some(limit) = self.max_wait_ms {
            settings.max_wait_ms = limit;
        }
        if let Some(limit) = self.dead_bytes_max {
            settings.dead_bytes_max = limit;
        }
        if let Some(keep_max) = self.keep_max {
            settings.keep_max = keep_max;
        }
        if let Some(limits) = &self.limits {
            settings.limits.clone_from(limits);
        }
        if let Some(events) = self.events {
            settings.events = events;
        }
        if let Some(subscriptions) = &self.subscriptions {
            settings.subscriptions.clone_from(subscriptions);
        }
    }
}

/// The settings of a kind, across all queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct KindSettings {
    /// While set, no job of the kind is claimed.
    pub paused: bool,
    /// How many more of its jobs may start; each claimed job takes one. An open circuit breaker sets 0, or 1
    /// for a probe. `None` means unlimited.
    pub permits: Option<u32>,
    /// Names of the limits that its jobs run under, beside those of their queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Name>,
}

/// A change to some settings of a kind; `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindPatch {
    /// Pause or resume.
    pub paused: Option<bool>,
    /// Set or remove the number of permits.
    pub permits: Option<Option<u32>>,
    /// Replace the names of the limits that its jobs run under.
    pub limits: Option<Vec<Name>>,
}

impl KindPatch {
    /// Pauses or resumes.
    pub fn paused(paused: bool) -> Self {
        Self { paused: Some(paused), ..Self::default() }
    }

    /// Sets or removes the number of permits.
    pub fn permits(permits: Option<u32>) -> Self {
        Self { permits: Some(permits), ..Self::default() }
    }

    /// Replaces the names of the limits that its jobs run under.
    pub fn limits<N: Into<Name>>(limits: impl IntoIterator<Item = N>) -> Self {
        let limits = limits.into_iter().map(Into::into).collect();
        Self { limits: Some(limits), ..Self::default() }
    }

    /// Checks that every value is within its limits.
    pub fn check(&self) -> Result<()> {
        check_listed(self.limits.as_deref())
    }

    /// Applies the change.
    pub fn apply(&self, settings: &mut KindSettings) {
        if let Some(paused) = self.paused {
            settings.paused = paused;
        }
        if let Some(permits) = self.permits {
            settings.permits = permits;
        }
        if let Some(limits) = &self.limits {
            settings.limits.clone_from(limits);
        }
    }
}

/// Checks the names of limits that a queue or a kind lists.
fn check_listed(limits: Option<&[Name]>) -> Result<()> {
    let limits = limits.unwrap_or_default();
    let hint = "combine some of them into one limit";
    within_limit("limits", limits.len(), LISTED_LIMITS_MAX, hint)?;
    for (index, name) in limits.iter().enumerate() {
        check_name("limits", name)?;
        if limits[..index].contains(name) {
            return Err(Error::invalid("limits", name, "list each limit once"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_its_own_setting_and_no_other() {
        let patched = |patch: QueuePatch| {
            let mut settings = QueueSettings::default();
            patch.apply(&mut settings);
            settings
        };
        let usual = QueueSettings::default;
        let retention = Retention { dead_ms: 7, ..Retention::default() };
        let keep_max = KeepMax::default().with_dead(7);
        for (patch, expected) in [
            (QueuePatch::default(), usual()),
            (QueuePatch::paused(true), QueueSettings { paused: true, ..usual() }),
            (QueuePatch::max_depth(Some(7)), QueueSettings { max_depth: Some(7), ..usual() }),
            (QueuePatch::order(Order::Fair), QueueSettings { order: Order::Fair, ..usual() }),
            (QueuePatch::retention(retention), QueueSettings { retention, ..usual() }),
            (QueuePatch::max_wait_ms(Some(7)), QueueSettings { max_wait_ms: Some(7), ..usual() }),
            (
                QueuePatch::dead_bytes_max(Some(7)),
                QueueSettings { dead_bytes_max: Some(7), ..usual() },
            ),
            (QueuePatch::keep_max(keep_max), QueueSettings { keep_max, ..usual() }),
            (
                QueuePatch::events(Some(EventBounds::default())),
                QueueSettings { events: Some(EventBounds::default()), ..usual() },
            ),
            (QueuePatch::limits(["l"]), QueueSettings { limits: vec!["l".into()], ..usual() }),
            (
                QueuePatch::subscriptions([Subscription::new("s", "q")]),
                QueueSettings { subscriptions: vec![Subscription::new("s", "q")], ..usual() },
            ),
        ] {
            assert_eq!(patched(patch.clone()), expected, "{patch:?}");
        }
    }
}
