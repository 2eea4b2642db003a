//! Generates the documented example from the tables of settings: the output of `windlass config example` and
//! the content of `docs/windlass.example.toml`.

use super::field::{Field, Reload};
use super::sections::{Fixed, LimitRules, Named, Recurring, Registered, SECTIONS, variable};
use super::value::Value;
use std::fmt::Write as _;
use windlass_core::model::QueueSettings;

/// Maximum number of characters in a comment line.
const LINE_CHARS: usize = 100;

const HEAD: &str = "\
# Windlass: every setting, with its default.
#
# `windlass serve` reads ./windlass.toml if it exists, or the file named by --config PATH or
# WINDLASS_CONFIG. Settings that are left out have their defaults. Flags override environment
# variables, and variables override the file: `--set server.grace=30s`, `WINDLASS_SERVER_GRACE=30s`.
# `windlass config check` validates the file, `windlass config show` prints the effective settings
# with their sources, and `kill -HUP` makes a running server reload the file. Times are written like
# \"500ms\", \"10s\", \"1h30m\" or \"7d\", sizes like 65536, \"512K\" or \"64M\".
";

/// Returns the whole example.
pub(crate) fn example() -> String {
    let mut text = HEAD.to_owned();
    let defaults = Fixed::default();
    for section in SECTIONS {
        text.push('\n');
        comment(&mut text, section.doc);
        let _ = writeln!(text, "[{}]", section.name);
        for field in section.fields {
            let key = format!("{}.{}", section.name, field.name);
            let when = match field.reload {
                Reload::Live => "Can be changed by a reload",
                Reload::Restart => "Needs a restart",
            };
            let last = format!("{when}; variable {}.", variable(&key, field));
            describe(&mut text, field, &last);
            let _ =
                writeln!(text, "{} = {}", field.name, field.kind.written(&(field.get)(&defaults)));
        }
    }
    named::<LimitRules>(&mut text);
    named::<QueueSettings>(&mut text);
    named::<Registered>(&mut text);
    named::<Recurring>(&mut text);
    text
}

/// A named section. Its settings are commented out without a space after `#`, which distinguishes them from
/// text.
fn named<T: Named>(text: &mut String) {
    text.push('\n');
    comment(text, T::DOC);
    let _ = writeln!(text, "#[{}.{}]", T::SECTION, T::EXAMPLE_NAME);
    let example = T::example();
    for field in T::fields() {
        let value = (field.get)(&example);
        let written = field.kind.written(&value);
        if value == Value::None
            && field.kind.read(&super::tree::Raw::Text("none".into())) != Ok(Value::None)
        {
            comment(text, &format!("{}: {}", field.name, field.doc));
            continue;
        }
        describe(text, field, "");
        let _ = writeln!(text, "#{} = {written}", field.name);
    }
}

fn describe<T>(text: &mut String, field: &Field<T>, last: &str) {
    let range = match field.kind.range() {
        range if range.is_empty() || range == "true or false" => String::new(),
        range => {
            let range = range.strip_prefix("it must be ").unwrap_or(&range);
            format!(" {}{}.", range[..1].to_uppercase(), &range[1..])
        }
    };
    comment(text, format!("{}{range} {last}", field.doc).trim_end());
}

fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > LINE_CHARS {
            text.push_str(&line);
            text.push('\n');
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::load::Choice;
    use super::super::sections::keys;
    use super::super::{Config, Inputs};
    use super::*;
    use std::path::{Path, PathBuf};

    /// Path of the example in the documentation.
    fn document() -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        root.join("docs/windlass.example.toml")
    }

    fn load(path: &Path) -> Config {
        let given = Inputs { file: Choice::Named(path.to_owned()), ..Inputs::default() };
        Config::load(&given).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    #[test]
    fn the_document_is_what_the_code_says() {
        let kept = std::fs::read_to_string(document()).unwrap_or_default();
        let way_out = "run `windlass config example > docs/windlass.example.toml`";
        assert!(kept == example(), "docs/windlass.example.toml has drifted; {way_out}");
    }

    #[test]
    fn the_example_is_read_and_is_the_defaults() {
        let config = load(&document());
        let defaults = Fixed::default();
        for (key, field) in keys() {
            assert_eq!((field.get)(&config.fixed), (field.get)(&defaults), "{key}");
        }
        assert!(config.queues.is_empty() && config.kinds.is_empty() && config.schedules.is_empty());
    }

    #[test]
    fn commented_settings_are_valid_when_enabled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("windlass.toml");
        let used = |line: &str| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '[') => {
                format!("{rest}\n")
            }
            _ => format!("{line}\n"),
        };
        std::fs::write(&path, example().lines().map(used).collect::<String>()).unwrap();
        let config = load(&path);
        let limit = &config.limits[0];
        assert_eq!(limit.over(LimitRules::default()).unwrap(), LimitRules::example());
        let queue = &config.queues[0];
        assert_eq!(queue.name, QueueSettings::EXAMPLE_NAME);
        assert_eq!(queue.named.len(), QueueSettings::fields().len());
        assert_eq!(queue.over(QueueSettings::default()).unwrap(), QueueSettings::default());
        let kind = &config.kinds[0];
        assert_eq!(kind.over(Registered::default()).unwrap(), Registered::example());
        let schedule = &config.schedules[0];
        assert_eq!(schedule.over(Recurring::default()).unwrap(), Recurring::example());
    }
}
