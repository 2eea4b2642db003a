//! Filters of job listings. Independent of how an engine finds jobs: engines may select candidates by an index, and
//! [`Filter::fits`] decides.

use super::Field;
use crate::error::{Error, Result, within_limit};
use crate::id::JobId;
use crate::id_prefix::IdPrefix;
use crate::limits;
use crate::model::{Job, Name, Part, PartName, PartSet, State};
use crate::name::{check_name, check_text};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
    /// Due at this time or later.
    pub due_from: Option<Timestamp>,
    /// Due before this time.
    pub due_until: Option<Timestamp>,
    /// Ended at this time or later.
    pub ended_from: Option<Timestamp>,
    /// Ended before this time.
    pub ended_until: Option<Timestamp>,
    /// The start of the id.
    pub id: Option<IdPrefix>,
    /// A text that the payload or the last error of the job contains, in upper or lower case. Only ASCII letters are
    /// compared without case. Payloads in an envelope (compressed, encrypted or stored elsewhere) do not match.
    pub text: Option<String>,
    /// Fields of the payload and the metadata with their values; see [`Field::is_in`].
    pub fields: Vec<(Field, String)>,
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

    /// Requires that the job is due at this time or later.
    #[must_use]
    pub const fn due_from(mut self, from: Timestamp) -> Self {
        self.due_from = Some(from);
        self
    }

    /// Requires that the job is due before this time.
    #[must_use]
    pub const fn due_until(mut self, until: Timestamp) -> Self {
        self.due_until = Some(until);
        self
    }

    /// Requires that the job ended at this time or later.
    #[must_use]
    pub const fn ended_from(mut self, from: Timestamp) -> Self {
        self.ended_from = Some(from);
        self
    }

    /// Requires that the job ended before this time.
    #[must_use]
    pub const fn ended_until(mut self, until: Timestamp) -> Self {
        self.ended_until = Some(until);
        self
    }

    /// Requires an id that starts with this.
    #[must_use]
    pub const fn id(mut self, prefix: IdPrefix) -> Self {
        self.id = Some(prefix);
        self
    }

    /// Requires a text in the payload or the last error.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Requires a field of the payload or the metadata to have this value.
    #[must_use]
    pub fn field(mut self, field: Field, value: impl Into<String>) -> Self {
        self.fields.push((field, value.into()));
        self
    }

    /// The parts that [`fits`](Self::fits) reads.
    pub fn parts(&self) -> PartSet {
        let text = self.text.as_ref().map(|_| PartName::Payload);
        let parts = self.fields.iter().map(|(field, _)| field.part()).chain(text);
        parts.fold(PartSet::NONE, PartSet::with)
    }

    /// Whether a job matches. Its parts must include those of [`parts`](Self::parts).
    pub fn fits(&self, job: &Job) -> bool {
        let header = &job.header;
        fn is<T: PartialEq>(wanted: &Option<T>, found: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        }
        fn has<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        is(&self.queue, &header.queue)
            && is(&self.kind, &header.kind)
            && is(&self.state, &job.state)
            && has(&self.tenant, &header.tenant)
            && has(&self.key, &header.key)
            && has(&self.parent, &header.parent)
            && has(&self.flow, &header.flow)
            && self.tag.as_ref().is_none_or(|tag| header.tags.contains(tag))
            && is_within(self.created_from, self.created_until, Some(header.created_at))
            && is_within(self.due_from, self.due_until, Some(header.run_at))
            && is_within(self.ended_from, self.ended_until, job.finished_at)
            && self.id.is_none_or(|prefix| prefix.includes(header.id))
            // The parts come last, because they cost the most.
            && self.fields.iter().all(|(field, value)| field.is(job.parts.get(field.part()), value))
            && self.text.as_ref().is_none_or(|text| has_text(job, text))
    }

    /// The first and the last id that a matching job may have, both included: the creation window, widened by the
    /// allowed skew of ids, and the prefix. Listings by id need not read outside of them.
    pub fn ids(&self) -> (JobId, JobId) {
        let skew_ms = limits::ID_SKEW_MAX_MS;
        let first = self.created_from.map(|from| JobId::first_at(from.minus(skew_ms)));
        let last = self.created_until.map(|until| JobId::last_at(until.plus(skew_ms)));
        let (lowest, highest) = self.id.map_or((JobId::MIN, JobId::MAX), IdPrefix::range);
        (first.map_or(lowest, |id| id.max(lowest)), last.map_or(highest, |id| id.min(highest)))
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
        if let Some(text) = &self.text {
            check_text("text", text, limits::SEARCH_TEXT_BYTES_MAX)?;
        }
        if self.fields.len() > limits::FILTER_FIELDS_MAX {
            let expected = format!("use at most {} fields in a filter", limits::FILTER_FIELDS_MAX);
            return Err(Error::invalid("fields", self.fields.len(), expected));
        }
        for (_, value) in &self.fields {
            let hint = "search for a shorter value";
            within_limit("fields", value.len(), limits::FIELD_VALUE_BYTES_MAX, hint)?;
        }
        check_window(["created_from", "created_until"], self.created_from, self.created_until)?;
        check_window(["due_from", "due_until"], self.due_from, self.due_until)?;
        check_window(["ended_from", "ended_until"], self.ended_from, self.ended_until)
    }
}

/// Refuses a window of time that contains no time.
fn check_window(
    [from_name, until_name]: [&'static str; 2],
    from: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<()> {
    match (from, until) {
        (Some(from), Some(until)) if until <= from => {
            let expected = format!("it must be later than {from_name}, {from}");
            Err(Error::invalid(until_name, until, expected))
        }
        _ => Ok(()),
    }
}

/// Whether a time is in a window; without a window, no time is needed.
fn is_within(from: Option<Timestamp>, until: Option<Timestamp>, at: Option<Timestamp>) -> bool {
    from.is_none_or(|from| at.is_some_and(|at| at >= from))
        && until.is_none_or(|until| at.is_some_and(|at| at < until))
}

/// Whether the last error or the payload contains a text.
fn has_text(job: &Job, text: &str) -> bool {
    let in_error = job.error.as_ref().is_some_and(|error| {
        contains(error.code.as_bytes(), text.as_bytes())
            || contains(error.message.as_bytes(), text.as_bytes())
    });
    let plain = |part: &&Part| part.envelope().is_none();
    let payload = job.parts.payload.as_ref().filter(plain);
    in_error || payload.is_some_and(|part| contains(&part.bytes, text.as_bytes()))
}

/// Whether `bytes` contain `text`, with ASCII letters in either case.
fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let Some((first, rest)) = text.split_first() else { return true };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    let ends = bytes.len().saturating_sub(rest.len());
    let mut starts = bytes.iter().take(ends).enumerate();
    starts.any(|(at, byte)| {
        (*byte == lower || *byte == upper)
            && bytes.get(at + 1..=at + rest.len()).is_some_and(|it| it.eq_ignore_ascii_case(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    const AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn ids_of_a_window_are_searched_within_the_largest_clock_difference() {
        let filter = Filter::default().created_from(AT).created_until(AT.plus(1));
        let (first, last) = filter.ids();
        for made_at in [AT.minus(limits::ID_SKEW_MAX_MS), AT.plus(limits::ID_SKEW_MAX_MS)] {
            let id = JobId::new(made_at, &Seeded::new(1));
            id.check(AT).unwrap();
            assert!(first <= id && id <= last);
        }
        assert_eq!(Filter::default().ids(), (JobId::MIN, JobId::MAX));
        let all = Filter::default().created_from(Timestamp::from_millis(i64::MIN));
        assert!(all.created_until(Timestamp::MAX).ids().1.time() > AT);
    }

    #[test]
    fn ids_of_a_window_and_a_prefix_are_in_both() {
        let id = JobId::new(AT, &Seeded::new(1));
        let prefix: IdPrefix = id.to_string()[..13].parse().unwrap();
        let (first, last) = Filter::default().id(prefix).created_until(AT.plus(1)).ids();
        assert_eq!((first, last), prefix.range());
        let (first, last) = Filter::default().id(prefix).created_from(AT.plus(1 << 40)).ids();
        assert!(first > last, "nothing");
    }

    #[test]
    fn text_is_found_anywhere_and_in_either_case() {
        let bytes = "ab Timeout: é".as_bytes();
        for text in ["ab", "timeout", "TIMEOUT: é", "é", "ab Timeout: é", "b t"] {
            assert!(contains(bytes, text.as_bytes()), "{text}");
        }
        for text in ["abc", "timeouts", "É", "ab Timeout: éx", "xab Timeout: é"] {
            assert!(!contains(bytes, text.as_bytes()), "{text}");
        }
        assert!(!contains(b"", b"a") && !contains(b"a", b"ab") && contains(b"aab", b"ab"));
    }

    #[test]
    fn a_filter_beyond_a_limit_is_refused_by_field() {
        let field: Field = "payload.a".parse().unwrap();
        let fields = vec![(field.clone(), "1".to_owned()); limits::FILTER_FIELDS_MAX + 1];
        let many = Filter { fields, ..Filter::default() };
        let long = "x".repeat(limits::FIELD_VALUE_BYTES_MAX + 1);
        let cases = [
            (many, "fields"),
            (Filter::default().field(field, long), "fields"),
            (Filter::default().text("x".repeat(limits::SEARCH_TEXT_BYTES_MAX + 1)), "text"),
            (Filter::default().text(""), "text"),
            (Filter::default().due_from(AT).due_until(AT), "due_until"),
            (Filter::default().ended_from(AT).ended_until(AT), "ended_until"),
        ];
        for (filter, name) in cases {
            assert_eq!(filter.check().unwrap_err().field(), Some(name));
        }
    }
}
