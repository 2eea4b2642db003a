//! Commands in messages, completed so that they can be pasted: with the store that this command was given.

use std::borrow::Cow;
use std::sync::OnceLock;

/// Start of a command in a message.
const PROGRAM: &str = "windlass ";
/// Commands that open no store.
const WITHOUT_STORE: [&str; 5] = ["bench", "completions", "config", "man", "torture"];

/// The flags to add, if the store is not the default one.
static FLAGS: OnceLock<String> = OnceLock::new();

/// Sets the flags that select the store of this command. Later calls are ignored.
pub(crate) fn set(flags: &[(&str, String)]) {
    let flags: String =
        flags.iter().map(|(flag, value)| format!(" {flag} {}", quoted(value))).collect();
    let _ = FLAGS.set(flags);
}

/// The message with complete commands.
pub(crate) fn complete(message: &str) -> Cow<'_, str> {
    match FLAGS.get() {
        Some(flags) if !flags.is_empty() && message.contains(PROGRAM) => {
            with(message, flags).into()
        }
        _ => message.into(),
    }
}

/// Adds the flags to the commands of a message. A command is in backticks, or follows a colon and ends with its line.
fn with(message: &str, flags: &str) -> String {
    let mut text = String::new();
    let mut rest = message;
    while let Some(at) = rest.find(PROGRAM) {
        let (before, command) = rest.split_at(at);
        text += before;
        let end = match before.ends_with('`') {
            true => command.find('`'),
            false if before.ends_with(": ") => command.find('\n').or(Some(command.len())),
            false => None,
        };
        let (command, after) = command.split_at(end.unwrap_or(PROGRAM.len()));
        text += command;
        let name = command[PROGRAM.len()..].split(' ').next().unwrap_or_default();
        let is_given = [" --store ", " --url "].into_iter().any(|flag| command.contains(flag));
        if end.is_some() && !is_given && !WITHOUT_STORE.contains(&name) {
            text += flags;
        }
        rest = after;
    }
    text + rest
}

/// The value as one word of a shell.
fn quoted(value: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) {
        true => value.into(),
        false => format!("'{}'", value.replace('\'', r"'\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_messages_name_the_store() {
        let flags = " --store file:jobs";
        for (message, complete) in [
            ("see `windlass queues`; or not", "see `windlass queues --store file:jobs`; or not"),
            (
                "Resume it: windlass jobs resume 7",
                "Resume it: windlass jobs resume 7 --store file:jobs",
            ),
            ("a: windlass b\nc", "a: windlass b --store file:jobs\nc"),
            (
                "`windlass a` `windlass b`",
                "`windlass a --store file:jobs` `windlass b --store file:jobs`",
            ),
            ("see `windlass config show`", "see `windlass config show`"),
            ("use `windlass jobs --store URL`", "use `windlass jobs --store URL`"),
            ("a windlass worker", "a windlass worker"),
        ] {
            assert_eq!(with(message, flags), complete);
        }
    }

    #[test]
    fn values_are_one_word_of_a_shell() {
        assert_eq!(quoted("http://127.0.0.1:7474"), "http://127.0.0.1:7474");
        assert_eq!(quoted("file:my jobs"), "'file:my jobs'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
