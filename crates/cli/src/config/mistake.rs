//! Configuration errors with location, key, value and expected value. It must not know which keys exist.

use super::value::Wrong;
use std::fmt;

/// Maximum number of errors printed; a file with more is probably not a configuration.
const SHOWN_MAX: usize = 100;
/// One typo per this many letters is tolerated when a similar key is suggested.
const LETTERS_PER_SLIP: usize = 3;
/// Maximum number of typos tolerated; enough for a superfluous `_ms`.
const SLIPS_MAX: usize = 3;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Default,
    /// A line of the file.
    File {
        path: String,
        line: usize,
    },
    /// An environment variable.
    Env(String),
    /// A command-line flag.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Env(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mistake {
    pub(crate) source: Source,
    pub(crate) text: String,
}

impl Mistake {
    pub(crate) fn new(source: Source, text: impl Into<String>) -> Self {
        Self { source, text: text.into() }
    }

    /// An invalid value.
    pub(crate) fn value(source: Source, key: &str, given: impl fmt::Display, wrong: Wrong) -> Self {
        let given = wrong.shown.unwrap_or_else(|| given.to_string());
        let error = windlass_core::Error::invalid(key.to_owned(), given, wrong.expected);
        Self::new(source, error.to_string())
    }

    /// An unknown key; suggests a similar one of `known`, or lists them all.
    pub(crate) fn unknown<'a>(
        source: Source,
        key: &str,
        known: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        let way_out = match nearest(key, known.clone()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("the known ones: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        };
        Self::new(source, format!("{key} is not a setting; {way_out}"))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Default => f.write_str(&self.text),
            source => write!(f, "{source}: {}", self.text),
        }
    }
}

/// All errors of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// Sorts the errors by source and line; `Ok` if there are none.
    pub(crate) fn none_of(mut mistakes: Vec<Mistake>) -> Result<(), Self> {
        mistakes.sort();
        if mistakes.is_empty() { Ok(()) } else { Err(Self(mistakes)) }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the configuration has a mistake:")?,
            count => write!(f, "the configuration has {count} mistakes:")?,
        }
        for mistake in self.0.iter().take(SHOWN_MAX) {
            write!(f, "\n  {mistake}")?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// The known key that most resembles `word`: as a whole, or by its last part if `word` has no dots.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &str| {
        let whole = strsim::damerau_levenshtein(word, known);
        if word.contains('.') {
            whole
        } else {
            whole.min(strsim::damerau_levenshtein(word, &last(known)))
        }
    };
    let slips = (last(word).len() / LETTERS_PER_SLIP).clamp(1, SLIPS_MAX);
    let near = known.into_iter().map(|known| (distance(known), known));
    near.filter(|(distance, _)| *distance <= slips).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_understood_and_another_word_is_not() {
        let known = ["server.listen", "server.call_timeout", "store.url"];
        assert_eq!(nearest("server.lisen", known), Some("server.listen"));
        assert_eq!(nearest("server.call_timeout_ms", known), Some("server.call_timeout"));
        assert_eq!(nearest("listen", known), Some("server.listen"));
        assert_eq!(nearest("server.colour", known), None);
    }

    #[test]
    fn many_mistakes_are_bounded() {
        let one = |line| Mistake::new(Source::File { path: "f".into(), line }, "x");
        let text = Mistakes::none_of((1..=250).map(one).collect()).unwrap_err().to_string();
        assert!(text.starts_with("the configuration has 250 mistakes:\n  f:1: x\n"), "{text}");
        assert!(text.ends_with("f:100: x\n  and 150 more"), "{text}");
    }
}
