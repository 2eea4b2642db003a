//! `[kinds.NAME]`: rules of registered kinds. As with schedules, the file defines the whole kind: rules that it
//! leaves out do not apply. The list of limits is a setting like those of queues: left out, it stays as it is.

use super::{Field, Named};
use crate::config::field::field;
use crate::config::held::Json;
use crate::config::value::{Kind, Wrong};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use windlass_core::check_name;
use windlass_core::limits::{
    AGE_MAX_MS, BREAKER_INTERVAL_MS, BREAKER_SAMPLES_MAX, CHECK_PER_MILLE, DELAY_MAX_MS,
    MAX_ATTEMPTS_MAX, PAYLOAD_BYTES_MAX, SCHEMA_BYTES_MAX, TIMEOUT_MAX_MS,
};
use windlass_core::model::{CheckRule, KindPatch, KindRules, Name, PriorityRule};
use windlass_core::policy::{Backoff, BreakerPolicy};

const PAYLOAD_BYTES: RangeInclusive<u64> = 1..=PAYLOAD_BYTES_MAX as u64;
const ATTEMPTS: RangeInclusive<u64> = 1..=MAX_ATTEMPTS_MAX as u64;
const TIMEOUT_MS: RangeInclusive<u64> = 1..=TIMEOUT_MAX_MS;
const MAX_WAIT_MS: RangeInclusive<u64> = 1..=AGE_MAX_MS;
const CHECK_AFTER_MS: RangeInclusive<u64> = 0..=DELAY_MAX_MS;
const SAMPLES: RangeInclusive<u64> = 1..=BREAKER_SAMPLES_MAX;
/// Accepted error rates. The breaker opens above the rate, and the rate never exceeds 100 %, so 100 would
/// disable it.
const PERCENT: RangeInclusive<u64> = 0..=99;

/// The settings of one registered kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registered {
    schema: Option<Json>,
    schema_file: Option<PathBuf>,
    payload_bytes_max: Option<u64>,
    max_attempts: Option<u32>,
    timeout_ms: Option<u64>,
    max_wait_ms: Option<u64>,
    backoff: Option<Backoff>,
    priority: PriorityRule,
    sensitive: bool,
    has_breaker: bool,
    breaker: BreakerPolicy,
    check_kind: Option<String>,
    check: CheckSettings,
    pub(crate) limits: Option<Vec<Name>>,
}

/// The check of a kind, beside its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CheckSettings {
    queue: Option<String>,
    sample_per_mille: u32,
    after_ms: u64,
}

impl Default for CheckSettings {
    fn default() -> Self {
        Self { queue: None, sample_per_mille: 10, after_ms: 0 }
    }
}

static FIELDS: &[Field<Registered>] = &[
    field!(
        "schema",
        Kind::JSON,
        Live,
        schema,
        "JSON Schema that every payload must match, as a table. References may only point into it."
    ),
    field!(
        "schema_file",
        Kind::TEXT,
        Live,
        schema_file,
        "File with such a schema as JSON, instead of a table."
    ),
    field!(
        "payload_bytes_max",
        Kind::size(PAYLOAD_BYTES).or_none(),
        Live,
        payload_bytes_max,
        "Maximum size of a payload, if lower than the limit of the store."
    ),
    field!(
        "max_attempts",
        Kind::count(ATTEMPTS).or_none(),
        Live,
        max_attempts,
        "Default maximum number of attempts, for jobs that do not set their own."
    ),
    field!(
        "timeout",
        Kind::time(TIMEOUT_MS).or_none(),
        Live,
        timeout_ms,
        "Default timeout of an attempt, for jobs that do not set their own."
    ),
    field!(
        "max_wait",
        Kind::time(MAX_WAIT_MS).or_none(),
        Live,
        max_wait_ms,
        "Default maximum wait before a due job expires, for jobs that do not set their own."
    ),
    field!(
        "backoff",
        Kind::TEXT.or_none(),
        Live,
        backoff,
        "Default delay after a failure, for jobs that do not set their own: a time (\"10s\"), a time that doubles up \
         to another (\"10s..1h\"), each with a jitter if you like (\"10s..1h~5s\"), or \"none\"."
    ),
    field!(
        "priority.min",
        Kind::SIGNED,
        Live,
        priority.min,
        "Lowest number allowed as priority, the most urgent. A job outside the range is refused."
    ),
    field!("priority.max", Kind::SIGNED, Live, priority.max, "Highest number allowed as priority."),
    field!(
        "priority.default",
        Kind::SIGNED,
        Live,
        priority.default,
        "Priority of jobs that leave it at 0."
    ),
    field!(
        "sensitive",
        Kind::FLAG,
        Live,
        sensitive,
        "Require the name of the kind as a confirmation to replay its jobs."
    ),
    field!(
        "breaker.enabled",
        Kind::FLAG,
        Live,
        has_breaker,
        "Enable the circuit breaker: hold jobs back while most of them fail."
    ),
    field!(
        "breaker.error_rate_percent",
        Kind::count(PERCENT),
        Live,
        breaker.error_rate_percent,
        "Error rate in percent above which the breaker opens."
    ),
    field!(
        "breaker.min_samples",
        Kind::count(SAMPLES),
        Live,
        breaker.min_samples,
        "Minimum number of outcomes in the window before the breaker can open."
    ),
    field!(
        "breaker.window",
        Kind::time(BREAKER_INTERVAL_MS),
        Live,
        breaker.window_ms,
        "Time window over which outcomes are counted."
    ),
    field!(
        "breaker.probe_every",
        Kind::time(BREAKER_INTERVAL_MS),
        Live,
        breaker.probe_every_ms,
        "Interval between probe jobs while the breaker is open."
    ),
    field!(
        "check.kind",
        Kind::TEXT,
        Live,
        check_kind,
        "Kind of the jobs that check completed jobs of this kind. They get the payload and the result."
    ),
    field!(
        "check.queue",
        Kind::TEXT,
        Live,
        check.queue,
        "Queue of the checks; left out, that of the checked job."
    ),
    field!(
        "check.sample_per_mille",
        Kind::count(CHECK_PER_MILLE),
        Live,
        check.sample_per_mille,
        "Checked jobs out of 1,000 completed ones."
    ),
    field!(
        "check.after",
        Kind::time(CHECK_AFTER_MS),
        Live,
        check.after_ms,
        "Time between the completion of a job and its check."
    ),
    field!(
        "limits",
        Kind::LIST,
        Live,
        limits,
        "Names of the limits that its jobs run under, beside those of their queues. Left out, they stay as they are \
         in the store."
    ),
];

impl CheckSettings {
    fn rule(&self, kind: &str) -> CheckRule {
        let mut rule = CheckRule::new(kind);
        rule.queue = self.queue.as_deref().map(Name::from);
        rule.per_mille(self.sample_per_mille).after_ms(self.after_ms)
    }
}

impl Registered {
    /// The rules to store; reads the schema file if one is set.
    pub(crate) fn rules(&self) -> Result<KindRules, (&'static str, String, Wrong)> {
        let mut rules = KindRules::default();
        rules.schema = self.schema.as_ref().map(|schema| schema.0.clone());
        if let Some(path) = &self.schema_file {
            let text = crate::config::load::read_text(path, SCHEMA_BYTES_MAX as u64);
            let wrong = |why: String| ("schema_file", path.display().to_string(), why.into());
            rules.schema = Some(text.map_err(wrong)?);
        }
        rules.payload_bytes_max = self.payload_bytes_max;
        rules.max_attempts = self.max_attempts;
        (rules.timeout_ms, rules.max_wait_ms) = (self.timeout_ms, self.max_wait_ms);
        rules.backoff = self.backoff;
        rules.priority = (self.priority != PriorityRule::default()).then_some(self.priority);
        rules.sensitive = self.sensitive;
        rules.breaker = self.has_breaker.then_some(self.breaker);
        rules.check = self.check_kind.as_deref().map(|kind| self.check.rule(kind));
        Ok(rules)
    }

    fn schema_key(&self) -> (&'static str, String) {
        match &self.schema_file {
            Some(path) => ("schema_file", path.display().to_string()),
            None => ("schema", self.schema.as_ref().map_or_else(String::new, |it| it.0.clone())),
        }
    }
}

impl Named for Registered {
    const SECTION: &'static str = "kinds";
    const DOC: &'static str = "A registered kind. Rules that are left out do not apply. A kind that is removed \
                               from the file stays in the store; `windlass kinds unregister` removes it.";
    const EXAMPLE_NAME: &'static str = "send_email";

    fn fields() -> &'static [Field<Self>] {
        FIELDS
    }

    fn example() -> Self {
        let schema = r#"{"required":["to"],"type":"object"}"#;
        let (schema, limits) = (Some(Json(schema.to_owned())), Some(Vec::new()));
        Self { schema, limits, ..Self::default() }
    }

    fn check(&self, name: &str) -> Vec<(&'static str, String, Wrong)> {
        if self.schema.is_some() && self.schema_file.is_some() {
            let (key, given) = self.schema_key();
            return vec![(key, given, "set beside schema; keep one of the two".into())];
        }
        if !self.has_breaker && self.breaker != BreakerPolicy::new() {
            let expected = "set it to true, or remove the other breaker settings";
            return vec![("breaker.enabled", "false".to_owned(), expected.into())];
        }
        if self.check_kind.is_none() && self.check != CheckSettings::default() {
            let expected = "name the kind of the checks, or remove the other settings of the check";
            return vec![("check.kind", "not set".to_owned(), expected.into())];
        }
        let itself = self.check_kind.as_deref().filter(|kind| *kind == name);
        if let Some(kind) = itself {
            let expected = "a kind cannot check itself: name another kind";
            return vec![("check.kind", kind.to_owned(), expected.into())];
        }
        let rules = match self.rules() {
            Ok(rules) => rules,
            Err(wrong) => return vec![wrong],
        };
        let schema = rules.schema.as_deref().map_or(Ok(()), windlass_server::check_schema);
        let mut wrong = Vec::new();
        if let Some(limits) = &self.limits
            && let Err(error) = KindPatch::limits(limits.iter().cloned()).check()
        {
            wrong.push(("limits", limits.join(", "), error.into()));
        }
        for error in
            [check_name("kind", name), schema, rules.check()].into_iter().filter_map(Result::err)
        {
            let (key, given) = match error.field() {
                Some(field) if field.starts_with("schema") => self.schema_key(),
                Some("priority.min") => ("priority.min", self.priority.min.to_string()),
                Some("check.kind") => ("check.kind", self.check_kind.clone().unwrap_or_default()),
                Some("check.queue") => {
                    ("check.queue", self.check.queue.clone().unwrap_or_default())
                }
                Some("priority.default") => ("priority.default", self.priority.default.to_string()),
                _ => ("", name.to_owned()),
            };
            wrong.push((key, given, error.into()));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(spoil: impl Fn(&mut Registered)) -> Vec<(&'static str, String)> {
        let mut kind = Registered::example();
        assert_eq!(kind.check("send_email"), []);
        spoil(&mut kind);
        let wrong = kind.check("send_email");
        wrong.into_iter().map(|(key, _, wrong)| (key, wrong.expected)).collect()
    }

    #[test]
    fn invalid_rules_of_a_kind_are_reported_with_their_key_and_a_way_out() {
        let reported = wrong(|kind| kind.schema_file = Some("a.json".into()));
        assert_eq!(
            reported,
            [("schema_file", "set beside schema; keep one of the two".to_owned())]
        );
        let reported = wrong(|kind| kind.breaker.min_samples = 7);
        assert_eq!(reported[0].0, "breaker.enabled");
        let reported = wrong(|kind| {
            (kind.schema, kind.schema_file) = (None, Some("no/such/file.json".into()));
        });
        assert!(
            reported[0].0 == "schema_file" && reported[0].1.contains("cannot read it"),
            "{reported:?}"
        );
        let reported = wrong(|kind| kind.schema = Some(Json(r#"{"type":7}"#.to_owned())));
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert_eq!(reported[0].0, "schema");
        let reported = wrong(|kind| kind.limits = Some(vec!["l".into(), "l".into()]));
        assert_eq!(reported, [("limits", "list each limit once".to_owned())]);
        let reported = wrong(|kind| kind.check.after_ms = 5);
        assert_eq!(reported[0].0, "check.kind");
        for (kind, key) in [("send_email", "check.kind"), ("a b", "check.kind")] {
            let reported = wrong(|rules| rules.check_kind = Some(kind.to_owned()));
            assert_eq!(reported[0].0, key);
        }
        let reported = wrong(|kind| {
            (kind.check_kind, kind.check.queue) = (Some("c".to_owned()), Some("a b".to_owned()));
        });
        assert_eq!(reported[0].0, "check.queue");
        let reported = wrong(|kind| kind.priority.min = 5);
        let expected = "its kind allows 5 to 2147483647";
        assert_eq!(reported, [("priority.default", expected.to_owned())]);
    }
}
