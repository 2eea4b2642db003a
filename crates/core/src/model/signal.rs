//! Signals: what other programs tell a job, and what a job that waits remembers.

use super::Name;
use super::nesting::check_depth;
use super::step::{Step, check_more};
use crate::error::{Error, Result, within_limit, within_range};
use crate::limits;
use crate::name::{check_name, check_text};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// A signal to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Signal {
    /// The name that the job waits for.
    pub name: Name,
    /// What the signal says, as JSON.
    #[serde(default, with = "json_text", skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Identifies the signal: the job accepts an id once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Signal {
    /// A signal that consists of its name.
    pub fn new(name: impl Into<Name>) -> Self {
        Self { name: name.into(), payload: None, id: None }
    }

    /// Sets the payload to this JSON text.
    #[must_use]
    pub fn json(mut self, text: impl Into<String>) -> Self {
        self.payload = Some(text.into());
        self
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Bytes that it takes in an inbox.
    pub fn bytes(&self) -> usize {
        let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.name.len() + bytes(&self.payload) + bytes(&self.id)
    }

    /// Validates the signal.
    pub fn check(&self) -> Result<()> {
        check_name("signal.name", &self.name)?;
        if let Some(id) = &self.id {
            check_text("signal.id", id, limits::NAME_BYTES_MAX)?;
        }
        let Some(payload) = &self.payload else { return Ok(()) };
        let hint = "store it elsewhere and send its address";
        within_limit("signal.payload", payload.len(), limits::SIGNAL_BYTES_MAX, hint)?;
        check_json("signal.payload", payload)
    }
}

impl From<&str> for Signal {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// Checks that a text is JSON, and not nested too deeply.
pub(crate) fn check_json(field: &'static str, text: &str) -> Result<()> {
    check_depth(field, text.as_bytes())?;
    serde_json::from_str::<IgnoredAny>(text)
        .map(|_| ())
        .map_err(|error| Error::invalid(field, text, format!("it must be JSON: {error}")))
}

/// The signals that a job waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SignalWait {
    /// The names, of which one is enough; any signal if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Name>,
    /// How long it waits at most; then it runs without a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl SignalWait {
    /// Waits for any signal, without a time limit.
    pub const ANY: Self = Self { signals: Vec::new(), timeout_ms: None };

    /// Waits for one of these signals.
    pub fn for_signals(names: impl IntoIterator<Item = impl Into<Name>>) -> Self {
        Self { signals: names.into_iter().map(Into::into).collect(), timeout_ms: None }
    }

    /// Sets how long to wait at most.
    #[must_use]
    pub const fn timeout_ms(mut self, ms: u64) -> Self {
        self.timeout_ms = Some(ms);
        self
    }

    /// Whether a signal with this name ends the wait.
    pub fn takes(&self, name: &Name) -> bool {
        self.signals.is_empty() || self.signals.contains(name)
    }

    /// Validates the wait.
    pub fn check(&self) -> Result<()> {
        let hint = "wait for one name and distinguish by payload";
        within_limit("signals", self.signals.len(), limits::WAIT_SIGNALS_MAX, hint)?;
        self.signals.iter().try_for_each(|name| check_name("signals", name))?;
        self.timeout_ms
            .map_or(Ok(()), |ms| within_range("timeout_ms", ms, 0..=limits::BACKOFF_MAX_MS))
    }
}

/// What ended the last wait of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Wake {
    /// This signal.
    Signal(Signal),
    /// The time ran out before one of these signals arrived.
    TimedOut(Vec<Name>),
}

/// What a job needs to continue after it has waited. Few jobs have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Continuation {
    /// The signals that the job waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<SignalWait>,
    /// Signals that no wait has taken yet, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inbox: Vec<Signal>,
    /// The ids of the latest signals, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<String>,
    /// What ended its last wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<Wake>,
    /// The steps that its handler has recorded, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

impl Continuation {
    /// Begins a wait.
    pub fn begin(&mut self, wait: SignalWait) {
        (self.wait, self.wake) = (Some(wait), None);
    }

    /// Ends the wait: by this signal, or because its time ran out.
    pub fn end(&mut self, signal: Option<Signal>) {
        let wait = self.wait.take().unwrap_or_default();
        self.wake = Some(match signal {
            Some(signal) => {
                self.remember(&signal);
                Wake::Signal(signal)
            }
            None => Wake::TimedOut(wait.signals),
        });
    }

    /// Ends a wait that begins now by the first signal that it takes.
    pub fn take(&mut self, wait: &SignalWait) {
        if let Some(at) = self.inbox.iter().position(|signal| wait.takes(&signal.name)) {
            self.wake = Some(Wake::Signal(self.inbox.remove(at)));
        }
    }

    /// Keeps a signal for a later wait.
    pub fn keep(&mut self, signal: Signal) {
        self.remember(&signal);
        self.inbox.push(signal);
    }

    fn remember(&mut self, signal: &Signal) {
        let Some(id) = &signal.id else { return };
        if self.seen.len() == limits::SIGNAL_IDS_MAX {
            self.seen.remove(0);
        }
        self.seen.push(id.clone());
    }

    /// Whether a signal with this id was accepted before.
    pub fn has_seen(&self, id: &str) -> bool {
        self.seen.iter().any(|seen| seen == id)
    }

    /// Checks that there is room for one more signal.
    pub fn check_room(&self, signal: &Signal) -> Result<()> {
        let hint = "the inbox is full: wait until the job has taken its signals";
        within_limit("inbox", self.inbox.len() + 1, limits::INBOX_SIGNALS_MAX, hint)?;
        let bytes = self.inbox.iter().map(Signal::bytes).sum::<usize>() + signal.bytes();
        within_limit("inbox", bytes, limits::INBOX_BYTES_MAX, hint)
    }

    /// Checks that these steps can be recorded.
    pub fn check_steps(&self, steps: &[Step]) -> Result<()> {
        check_more(&self.steps, steps)
    }

    /// Records steps, except those that are recorded already.
    pub fn record(&mut self, steps: &[Step]) {
        for step in steps {
            if !self.steps.contains(step) {
                self.steps.push(step.clone());
            }
        }
    }

    /// Validates what another store has kept.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { wait, inbox, seen, wake, steps } = self;
        check_more(&[], steps)?;
        wait.as_ref().map_or(Ok(()), SignalWait::check)?;
        let mut kept = Self::default();
        for signal in inbox {
            signal.check()?;
            kept.check_room(signal)?;
            kept.inbox.push(signal.clone());
        }
        within_limit("seen", seen.len(), limits::SIGNAL_IDS_MAX, "keep the latest")?;
        seen.iter().try_for_each(|id| check_text("seen", id, limits::NAME_BYTES_MAX))?;
        match wake {
            None => Ok(()),
            Some(Wake::Signal(signal)) => signal.check(),
            Some(Wake::TimedOut(names)) => SignalWait::for_signals(names.iter().cloned()).check(),
        }
    }

    /// Forgets signals and waits, for a job that is replayed. Its steps need not run again.
    pub fn start_over(&mut self) {
        (self.wait, self.wake) = (None, None);
        self.inbox.clear();
        self.seen.clear();
    }
}

/// JSON text as a JSON value.
pub(super) mod json_text {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::value::RawValue;

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(crate) fn serialize<S: Serializer>(
        text: &Option<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let raw = text.clone().map(RawValue::from_string).transpose();
        match raw {
            Ok(raw) => raw.serialize(serializer),
            // No engine stores it.
            Err(_) => text.serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        // `null` is a payload, too.
        Box::<RawValue>::deserialize(deserializer).map(|raw| Some(raw.get().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_signals_and_waits_name_the_field() {
        Signal::new("approved").json(r#"{"by":"eve"}"#).id("a-1").check().unwrap();
        let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
        for (signal, field) in [
            (Signal::new(""), "signal.name"),
            (Signal::new(long.clone()), "signal.name"),
            (Signal::new("a").id(long), "signal.id"),
            (Signal::new("a").json("{"), "signal.payload"),
            (Signal::new("a").json("1 2"), "signal.payload"),
            (
                Signal::new("a").json(format!("\"{}\"", "x".repeat(limits::SIGNAL_BYTES_MAX))),
                "signal.payload",
            ),
        ] {
            assert_eq!(signal.check().unwrap_err().field(), Some(field), "{signal:?}");
        }
        SignalWait::for_signals(["a", "b"]).timeout_ms(5).check().unwrap();
        let many = SignalWait::for_signals((0..=limits::WAIT_SIGNALS_MAX).map(|n| n.to_string()));
        for (wait, field) in [
            (SignalWait::for_signals([""]), "signals"),
            (many, "signals"),
            (SignalWait::ANY.timeout_ms(limits::BACKOFF_MAX_MS + 1), "timeout_ms"),
        ] {
            assert_eq!(wait.check().unwrap_err().field(), Some(field), "{wait:?}");
        }
    }

    #[test]
    fn an_inbox_has_room_for_a_number_of_signals_and_bytes() {
        let mut full = Continuation::default();
        while full.check_room(&Signal::new("a")).is_ok() {
            full.keep(Signal::new("a"));
        }
        assert_eq!(full.inbox.len(), limits::INBOX_SIGNALS_MAX);
        let large =
            Signal::new("a").json(format!("\"{}\"", "x".repeat(limits::SIGNAL_BYTES_MAX - 2)));
        let mut full = Continuation::default();
        while full.check_room(&large).is_ok() {
            full.keep(large.clone());
        }
        assert!(full.inbox.len() < limits::INBOX_SIGNALS_MAX);
    }

    #[test]
    fn payloads_are_json_values_when_stored_and_keep_their_text() {
        for payload in ["null", "1.50", r#"{"b": 1, "a": [true]}"#] {
            let mut stored = Continuation::default();
            stored.keep(Signal::new("a").json(payload).id("1"));
            stored.begin(SignalWait::for_signals(["b"]));
            stored.end(None);
            let text = serde_json::to_string(&stored).unwrap();
            assert_eq!(serde_json::from_str::<Continuation>(&text).unwrap(), stored, "{text}");
        }
    }

    #[test]
    fn only_the_latest_ids_are_remembered() {
        let mut job = Continuation::default();
        for n in 0..=limits::SIGNAL_IDS_MAX {
            job.end(Some(Signal::new("a").id(n.to_string())));
        }
        assert!(!job.has_seen("0") && job.has_seen("1"));
        assert_eq!(job.seen.len(), limits::SIGNAL_IDS_MAX);
    }
}
