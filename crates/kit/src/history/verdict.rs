//! The result of a check: counts, and each broken promise with all observations of the jobs concerned.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use windlass_core::JobId;

/// Maximum number of violations per kind that are reported in full; the others are only counted.
pub const VIOLATIONS_SHOWN_MAX: u64 = 20;

/// A type of broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// An acknowledged job no longer exists.
    Lost,
    /// A job exists that was never enqueued, or was started before it was enqueued.
    Phantom,
    /// One start was returned twice: an attempt under two leases, or a lease to two claims.
    DoubleStart,
    /// A lease was accepted after its end: the job had been claimed again, the lease had been settled, or no
    /// claim had ever returned it.
    StaleLease,
    /// Two reports under one lease were applied, or two of them ended one life of a job.
    SettledTwice,
    /// A job was started after it had ended.
    Revived,
    /// A reported final state was not permanent.
    Undone,
    /// A job ended in a way that no call asked for.
    Unearned,
    /// A job did not end.
    Stuck,
    /// Jobs of one ordering key ran at the same time, or not in the order of enqueueing.
    KeyOrder,
    /// More jobs of a group ran at a time, or started within a period, than its limit allows.
    LimitExceeded,
    /// A job was started before a job that it runs after could have ended.
    EarlyStart,
    /// The history contradicts itself: a fault of the recorder, not of the engine.
    BadRecord,
}

impl Kind {
    /// All types.
    pub const ALL: [Self; 13] = [
        Self::Lost,
        Self::Phantom,
        Self::DoubleStart,
        Self::StaleLease,
        Self::SettledTwice,
        Self::Revived,
        Self::Undone,
        Self::Unearned,
        Self::Stuck,
        Self::KeyOrder,
        Self::LimitExceeded,
        Self::EarlyStart,
        Self::BadRecord,
    ];

    /// The name in a verdict.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Phantom => "phantoms",
            Self::DoubleStart => "one start returned twice",
            Self::StaleLease => "stale leases accepted",
            Self::SettledTwice => "settled twice",
            Self::Revived => "started after the end",
            Self::Undone => "acknowledged ends undone",
            Self::Unearned => "ended without a request",
            Self::Stuck => "stuck",
            Self::KeyOrder => "key-order violations",
            Self::LimitExceeded => "limits exceeded",
            Self::EarlyStart => "dependents started early",
            Self::BadRecord => "bad records",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The type of the violation.
    pub kind: Kind,
    /// The jobs concerned.
    pub jobs: Vec<JobId>,
    /// A description in one sentence.
    pub what: String,
    /// All observations of these jobs, oldest call first.
    pub story: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.what)?;
        self.story.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// The observations in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Calls made.
    pub operations: u64,
    /// Calls with an unknown outcome.
    pub unanswered: u64,
    /// Jobs whose enqueue was acknowledged.
    pub acknowledged: u64,
    /// Jobs that ended completed.
    pub completed: u64,
    /// Jobs that ended dead.
    pub dead: u64,
    /// Jobs that ended cancelled.
    pub cancelled: u64,
    /// Jobs that ended expired.
    pub expired: u64,
    /// Acknowledged jobs that no longer exist, legitimately: discarded, or past their retention.
    pub removed: u64,
    /// Observed starts: leases returned by claims.
    pub starts: u64,
    /// Jobs started more than once, which is allowed.
    pub duplicates: u64,
    /// Broken promises by type; a missing type means none.
    pub broken: BTreeMap<Kind, u64>,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The observations in numbers.
    pub counts: Counts,
    /// Broken promises, up to [`VIOLATIONS_SHOWN_MAX`] per type.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.counts.broken.is_empty()
    }

    /// Number of violations of this type.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.broken.get(&kind).copied().unwrap_or_default()
    }

    /// Panics with the whole verdict unless every promise was kept.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "{self}");
    }

    /// Counts a violation, and adds it in full up to the limit of its type.
    pub(super) fn blame(
        &mut self,
        kind: Kind,
        jobs: &[JobId],
        what: impl FnOnce() -> String,
        story: impl FnOnce() -> Vec<String>,
    ) {
        let count = self.counts.broken.entry(kind).or_default();
        *count += 1;
        if *count <= VIOLATIONS_SHOWN_MAX {
            let violation = Violation { kind, jobs: jobs.to_vec(), what: what(), story: story() };
            self.violations.push(violation);
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        let seen = [
            ("operations", counts.operations),
            ("never answered", counts.unanswered),
            ("acknowledged", counts.acknowledged),
            ("completed", counts.completed),
            ("dead", counts.dead),
            ("cancelled", counts.cancelled),
            ("expired", counts.expired),
            ("removed", counts.removed),
            ("starts", counts.starts),
            ("duplicates (allowed)", counts.duplicates),
        ];
        for (name, count) in seen {
            writeln!(f, "{name:<30} {count:>10}")?;
        }
        for kind in Kind::ALL {
            writeln!(f, "{kind:<30} {:>10}", self.count(kind))?;
        }
        self.violations.iter().try_for_each(|violation| writeln!(f, "{violation}"))
    }
}
