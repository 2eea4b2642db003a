//! Colours, on a terminal only and never against the user's will (`NO_COLOR`).

use std::io::IsTerminal as _;

/// What a colour stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// As it should be.
    Good,
    /// Worth a look.
    Notice,
    /// Bad.
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

/// `text` in a colour, if stdout shows colours.
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
