//! Parses `#[job(…)]`. Every value is validated during parsing, so that errors point at it.

use crate::backoff::{self, Backoff};
use crate::duration::{self, parse_ms};
use crate::limits::{AGE_MAX_MS, MAX_ATTEMPTS_MAX, MAX_CRASHES_MAX, TIMEOUT_MAX_MS};
use crate::unique::Unique;
use crate::{name, suggest};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitInt, LitStr, Path, Result, Type};

const KNOWN: &[&str] = &[
    "kind",
    "queue",
    "output",
    "unique",
    "priority",
    "max_attempts",
    "max_crashes",
    "timeout",
    "max_wait",
    "backoff",
    "retention",
    "crate",
];
const ENDS: &[&str] = &["finished", "dead", "expired"];

/// The parsed attributes of a type.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) krate: Option<Path>,
    pub(crate) kind: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) output: Option<Type>,
    pub(crate) unique: Option<Unique>,
    pub(crate) priority: Option<i32>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) max_crashes: Option<u32>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_wait_ms: Option<u64>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) retention: Option<Retention>,
}

/// How long ended jobs are kept; `None` leaves the default.
#[derive(Default)]
pub(crate) struct Retention {
    pub(crate) finished_ms: Option<u64>,
    pub(crate) dead_ms: Option<u64>,
    pub(crate) expired_ms: Option<u64>,
}

impl Attributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut read = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("job")) {
            attribute.parse_nested_meta(|meta| read.take(&meta))?;
        }
        Ok(read)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match word(meta).as_str() {
            "kind" => set(&mut self.kind, meta, checked_name(meta)?),
            "queue" => set(&mut self.queue, meta, checked_name(meta)?),
            "output" => set(&mut self.output, meta, output(meta)?),
            "unique" => set(&mut self.unique, meta, Unique::read(meta)?),
            "priority" => set(&mut self.priority, meta, number(meta, i32::MIN..=i32::MAX)?),
            "max_attempts" => {
                set(&mut self.max_attempts, meta, number(meta, 1..=MAX_ATTEMPTS_MAX)?)
            }
            "max_crashes" => set(&mut self.max_crashes, meta, number(meta, 0..=MAX_CRASHES_MAX)?),
            "timeout" => set(&mut self.timeout_ms, meta, duration(meta, 1..=TIMEOUT_MAX_MS)?),
            "max_wait" => set(&mut self.max_wait_ms, meta, duration(meta, 1..=AGE_MAX_MS)?),
            "backoff" => {
                let text = text(meta)?;
                let backoff =
                    backoff::parse(&text.value()).map_err(|what| Error::new(text.span(), what))?;
                set(&mut self.backoff, meta, backoff)
            }
            "retention" => set(&mut self.retention, meta, Retention::read(meta)?),
            "crate" => set(&mut self.krate, meta, text(meta)?.parse()?),
            _ => Err(unknown(meta, KNOWN)),
        }
    }
}

impl Retention {
    /// Parses `retention = "7d"` for every final state, or `retention(finished = "1d", dead = "30d")`.
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        if meta.input.peek(syn::Token![=]) {
            let ms = Some(duration(meta, 0..=AGE_MAX_MS)?);
            return Ok(Self { finished_ms: ms, dead_ms: ms, expired_ms: ms });
        }
        let mut retention = Self::default();
        meta.parse_nested_meta(|end| {
            let slot = match word(&end).as_str() {
                "finished" => &mut retention.finished_ms,
                "dead" => &mut retention.dead_ms,
                "expired" => &mut retention.expired_ms,
                _ => return Err(unknown(&end, ENDS)),
            };
            set(slot, &end, duration(&end, 0..=AGE_MAX_MS)?)
        })?;
        Ok(retention)
    }
}

/// The name of the attribute as written.
pub(crate) fn word(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn set<T>(slot: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error(format!("`{}` is given twice; keep one of them", word(meta)))),
    }
}

pub(crate) fn unknown(meta: &ParseNestedMeta<'_>, known: &[&str]) -> Error {
    let word = word(meta);
    let meant = match suggest::nearest(&word, known) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    };
    let known = known.join("`, `");
    meta.error(format!("`{word}` is not known here{meant} (the known ones are `{known}`)"))
}

pub(crate) fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value().and_then(|value| value.parse()).map_err(|error| {
        let word = word(meta);
        Error::new(error.span(), format!("`{word}` takes text in quotes, as in `{word} = \"…\"`"))
    })
}

fn output(meta: &ParseNestedMeta<'_>) -> Result<Type> {
    meta.value().and_then(|value| value.parse()).map_err(|error| {
        Error::new(error.span(), "`output` takes the type of the result, as in `output = Receipt`")
    })
}

fn checked_name(meta: &ParseNestedMeta<'_>) -> Result<String> {
    let text = text(meta)?;
    let value = text.value();
    match name::flaw(&value) {
        None => Ok(value),
        Some(flaw) => Err(Error::new(
            text.span(),
            format!("{} {value:?} is not a valid name: {flaw}", word(meta)),
        )),
    }
}

fn number<N>(meta: &ParseNestedMeta<'_>, range: RangeInclusive<N>) -> Result<N>
where
    N: FromStr<Err: Display> + PartialOrd + Display,
{
    let (lowest, highest) = (range.start(), range.end());
    let expected = format!("`{}` takes a number from {lowest} to {highest}", word(meta));
    let literal = meta.value().and_then(|value| value.parse::<LitInt>());
    let literal = literal.map_err(|error| Error::new(error.span(), &expected))?;
    let number = literal.base10_parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| Error::new(literal.span(), expected))
}

pub(crate) fn duration(meta: &ParseNestedMeta<'_>, range: RangeInclusive<u64>) -> Result<u64> {
    let text = text(meta)?;
    let value = text.value();
    let wrong = |what: String| Err(Error::new(text.span(), what));
    match parse_ms(&value) {
        None => wrong(format!("{value:?} is not a duration: {}", duration::FORM)),
        Some(ms) if range.contains(&ms) => Ok(ms),
        Some(_) => {
            let highest = range.end() / 86_400_000;
            let lowest = range.start();
            wrong(format!("`{}` must be between {lowest}ms and {highest}d", word(meta)))
        }
    }
}
