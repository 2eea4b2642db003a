//! Colours for terminal output, disabled by `NO_COLOR` and if stdout is not a terminal.

use std::io::IsTerminal as _;

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Success.
    Good,
    /// Needs attention.
    Notice,
    /// Failure.
    Bad,
    /// Less important.
    Faint,
    /// A heading.
    Strong,
}

impl Colour {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Notice => "33",
            Self::Bad => "31",
            Self::Faint => "2",
            Self::Strong => "1",
        }
    }
}

/// Colours `text`, if stdout supports it.
pub(crate) fn paint(text: &str, colour: Colour) -> String {
    if text.is_empty() || !shows_colours() {
        return text.to_owned();
    }
    format!("\x1b[{}m{text}\x1b[0m", colour.code())
}

fn shows_colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !unwanted && std::io::stdout().is_terminal()
}
