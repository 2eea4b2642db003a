//! Prints the effective configuration with the source of each value. Secrets are redacted.

use super::load::Config;
use super::sections::{Entry, Named, keys};
use std::fmt::Write as _;

/// All settings with their values and sources, in the syntax of the file.
pub(crate) fn show(config: &Config) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (key, field) in keys() {
        let value = field.kind.written(&(field.get)(&config.fixed));
        lines.push((format!("{key} = {value}"), config.source(&key).to_string()));
    }
    let file = config.file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    entries(&mut lines, &config.limits, &file);
    entries(&mut lines, &config.queues, &file);
    entries(&mut lines, &config.kinds, &file);
    entries(&mut lines, &config.schedules, &file);
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for (line, source) in lines {
        let _ = writeln!(text, "{line:width$}  # {source}");
    }
    text
}

fn entries<T: Named>(lines: &mut Vec<(String, String)>, entries: &[Entry<T>], file: &str) {
    for entry in entries {
        for (field, value, line) in &entry.named {
            let value = field.kind.written(value);
            let key = format!("{}.{}", quoted(&entry.key()), field.name);
            lines.push((format!("{key} = {value}"), format!("{file}:{line}")));
        }
    }
}

/// Quotes a key where TOML requires it: names of queues may contain any character.
fn quoted(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match key.split_once('.') {
        Some((section, name)) if !name.chars().all(is_bare) => {
            format!("{section}.{}", serde_json::Value::from(name))
        }
        _ => key.to_owned(),
    }
}

/// Summarises a valid configuration in one line.
pub(crate) fn summary(config: &Config) -> String {
    let set =
        keys().filter(|(key, _)| *config.source(key) != super::mistake::Source::Default).count();
    let Config { queues, kinds, schedules, .. } = config;
    let [queues, kinds, schedules] = [queues.len(), kinds.len(), schedules.len()];
    format!(
        "{set} settings, {queues} queues, {kinds} kinds and {schedules} schedules; all other settings keep their values"
    )
}
