//! Formats times, numbers and sizes for display.

use askama::filters::HtmlSafe;
use std::fmt;
use windlass_core::Timestamp;
use windlass_core::time::{SECOND_MS, rough_span};

/// The reference time for relative times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    now: Option<Timestamp>,
}

impl Clock {
    /// Times relative to `now`; `None` formats absolute times.
    pub(super) const fn new(now: Option<Timestamp>) -> Self {
        Self { now }
    }

    /// `3 min ago`, `in 2 h`.
    pub(super) const fn ago(self, at: Timestamp) -> Time {
        Time { at, now: self.now, words: true }
    }

    /// `3 min`: the elapsed time.
    pub(super) const fn age(self, at: Timestamp) -> Time {
        Time { at, now: self.now, words: false }
    }
}

/// An instant, as an HTML element that the script keeps up to date.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    at: Timestamp,
    now: Option<Timestamp>,
    words: bool,
}

impl Time {
    fn text(&self, exact: &str) -> String {
        let Some(now) = self.now else { return exact.to_owned() };
        match (self.at.since(now), now.since(self.at)) {
            (ahead, _) if ahead >= SECOND_MS => format!("in {}", rough_span(ahead)),
            (_, behind) if behind >= SECOND_MS && self.words => {
                format!("{} ago", rough_span(behind))
            }
            (_, behind) if behind >= SECOND_MS => rough_span(behind),
            _ if self.words => "now".to_owned(),
            _ => "0 s".to_owned(),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = self.at.to_string();
        let exact = exact(self.at);
        let style = if self.words { "ago" } else { "age" };
        let text = self.text(&exact);
        write!(f, r#"<time datetime="{machine}" title="{exact}" data-as="{style}">{text}</time>"#)
    }
}

// Contains only digits and fixed words.
impl HtmlSafe for Time {}

/// `2026-11-16 03:25:58 UTC`
fn exact(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.get(..8).unwrap_or(time)),
        None => text,
    }
}

/// A number with thousands separators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Count(pub(super) u64);

impl Count {
    pub(super) const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// The number for attributes, without separators.
    pub(super) const fn plain(&self) -> u64 {
        self.0
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

impl HtmlSafe for Count {}

/// A number per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate(pub(super) f64);

impl Rate {
    pub(super) fn is_zero(&self) -> bool {
        self.0 == 0.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0.0 => f.write_str("0"),
            // Escaped, as the whole type is HTML.
            rate if rate < 0.005 => f.write_str("&lt;0.01"),
            rate if rate < 0.095 => write!(f, "{rate:.2}"),
            rate if rate < 9.95 => write!(f, "{rate:.1}"),
            rate => write!(f, "{}", Count(rate.round() as u64)),
        }
    }
}

impl HtmlSafe for Rate {}

/// `512 B`, `64 KiB`, `1.5 MiB`.
pub(super) fn size(bytes: usize) -> String {
    const KIB: usize = 1024;
    match bytes {
        bytes if bytes < KIB => format!("{bytes} B"),
        bytes if bytes < KIB * KIB => format!("{:.1} KiB", bytes as f64 / KIB as f64),
        bytes => format!("{:.1} MiB", bytes as f64 / (KIB * KIB) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_as_people_say_them() {
        assert_eq!(Count(1_234_567).to_string(), "1,234,567");
        assert_eq!(Count(999).to_string(), "999");
        assert_eq!(
            (Rate(0.016).to_string(), Rate(0.001).to_string()),
            ("0.02".into(), "&lt;0.01".into())
        );
        assert_eq!((Rate(0.0).to_string(), Rate(2.0).to_string()), ("0".into(), "2.0".into()));
        assert_eq!(Rate(12_345.6).to_string(), "12,346");
        assert_eq!((size(12), size(65_536)), ("12 B".into(), "64.0 KiB".into()));
    }

    #[test]
    fn times_are_seen_from_now_or_said_as_they_are() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let clock = Clock::new(Some(now));
        assert!(clock.ago(now.minus(180_000)).to_string().ends_with(">3 min ago</time>"));
        assert!(clock.ago(now.plus(7_200_000)).to_string().ends_with(">in 2 h</time>"));
        assert!(clock.age(now.minus(5_000)).to_string().ends_with(">5 s</time>"));
        let frozen = Clock::new(None).ago(now).to_string();
        assert!(frozen.ends_with(">2027-01-15 08:00:00 UTC</time>"), "{frozen}");
    }
}
