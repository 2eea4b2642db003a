//! Loads the configuration: flags override environment variables, variables override the file, the file
//! overrides defaults. Reports all errors at once. It reads files and nothing else; it must not know what
//! settings do.

use super::field::Field;
use super::file::Reading;
use super::held::Held as _;
use super::mistake::{Mistake, Mistakes, Source, nearest};
use super::sections::{
    Entry, Fixed, Levels, LimitRules, Named, Recurring, Registered, SECTIONS, keys, variable,
};
use super::tree::{self, Raw};
use super::value::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use windlass::Url;
use windlass_core::model::QueueSettings;

/// Configuration file that is read by default, if it exists.
pub(crate) const FILE_DEFAULT: &str = "windlass.toml";
/// Environment variable that names the configuration file.
const FILE_VARIABLE: &str = "WINDLASS_CONFIG";
/// Prefix of Windlass's environment variables.
const VARIABLE_PREFIX: &str = "WINDLASS_";
/// Maximum size of a configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The inputs of the configuration, kept so that a reload can read them again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) file: Choice,
    /// Environment variables.
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) flags: Vec<Flag>,
}

/// The configuration file to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    #[default]
    None,
    /// This file, if it exists.
    IfThere(PathBuf),
    /// This file; it is an error if it does not exist.
    Named(PathBuf),
}

/// A setting on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    pub(crate) key: String,
    /// Name of the flag, for error messages.
    pub(crate) flag: &'static str,
    pub(crate) text: String,
}

impl Inputs {
    /// These flags, the environment variables of this process, and the given file, or else the default one in
    /// the working directory.
    pub(crate) fn around(file: Option<PathBuf>, flags: Vec<Flag>) -> Self {
        let named = file.or_else(|| std::env::var_os(FILE_VARIABLE).map(PathBuf::from));
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(VARIABLE_PREFIX))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Self {
            file: named.map_or_else(|| Choice::IfThere(FILE_DEFAULT.into()), Choice::Named),
            variables: variables.collect(),
            flags,
        }
    }
}

/// A valid configuration.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) fixed: Fixed,
    pub(crate) limits: Vec<Entry<LimitRules>>,
    pub(crate) queues: Vec<Entry<QueueSettings>>,
    pub(crate) kinds: Vec<Entry<Registered>>,
    pub(crate) schedules: Vec<Entry<Recurring>>,
    /// The file it was read from.
    pub(crate) file: Option<PathBuf>,
    /// Whether that file was found in the working directory, not named by a flag or a variable.
    pub(super) found: bool,
    /// Warnings about variables whose names resemble those of settings.
    pub(crate) notes: Vec<String>,
    /// The source of each setting, by key; settings without an entry have their default.
    sources: BTreeMap<String, Source>,
}

impl Config {
    /// Reads and validates all inputs.
    pub(crate) fn load(given: &Inputs) -> Result<Self, Mistakes> {
        let mut loading = Loading::default();
        if let Some((path, text)) = loading.open(&given.file) {
            loading.file(&path, &text);
            loading.config.file = Some(path);
            loading.config.found = matches!(given.file, Choice::IfThere(_));
        }
        loading.variables(&given.variables);
        for flag in &given.flags {
            loading.flag(flag);
        }
        loading.check();
        Mistakes::none_of(loading.mistakes)?;
        Ok(loading.config)
    }

    /// Sets the log levels if no input sets them.
    pub(crate) fn log_by_default(&mut self, levels: &str) -> anyhow::Result<()> {
        if *self.source("log.level") == Source::Default {
            let levels = Levels::from_value(&Value::Text(levels.to_owned()));
            self.fixed.log.level = levels.map_err(|wrong| anyhow::anyhow!(wrong.expected))?;
        }
        Ok(())
    }

    /// Whether a setting came from the file.
    pub(super) fn is_in_file(&self, key: &str) -> bool {
        matches!(self.source(key), Source::File { .. })
    }

    /// The source of a setting.
    pub(crate) fn source(&self, key: &str) -> &Source {
        self.sources.get(key).unwrap_or(&Source::Default)
    }
}

/// A configuration that is being loaded, with the errors found so far.
#[derive(Default)]
struct Loading {
    config: Config,
    mistakes: Vec<Mistake>,
}

impl Loading {
    fn open(&mut self, choice: &Choice) -> Option<(PathBuf, String)> {
        let path = match choice {
            Choice::None => return None,
            Choice::IfThere(path) if !path.exists() => return None,
            Choice::IfThere(path) | Choice::Named(path) => path.clone(),
        };
        let way_out = format!("name another with --config PATH or {FILE_VARIABLE}");
        match read_text(&path, FILE_BYTES_MAX) {
            Ok(text) => Some((path, text)),
            Err(why) => {
                let source = Source::File { path: path.display().to_string(), line: 1 };
                self.mistakes.push(Mistake::new(source, format!("{why}; {way_out}")));
                None
            }
        }
    }

    fn file(&mut self, path: &Path, text: &str) {
        let path = path.display().to_string();
        let table = match tree::read(text) {
            Ok(table) => table,
            Err(errors) => {
                for error in errors {
                    let source = Source::File { path: path.clone(), line: error.line };
                    let text = format!("column {}: not TOML: {}", error.column, error.reason);
                    self.mistakes.push(Mistake::new(source, text));
                }
                return;
            }
        };
        let mut reading = Reading { path: &path, mistakes: &mut self.mistakes };
        let config = &mut self.config;
        for entry in &table {
            let section = SECTIONS.iter().find(|section| section.name == entry.key);
            match (section, &entry.raw) {
                (Some(section), Raw::Table(table)) => {
                    for (field, value, line) in
                        reading.assigned(table, section.name, "", section.fields)
                    {
                        let key = format!("{}.{}", section.name, field.name);
                        if reading.put(&mut config.fixed, field, &key, &value, line) {
                            config.sources.insert(key, reading.at(line));
                        }
                    }
                }
                (None, Raw::Table(table)) if entry.key == LimitRules::SECTION => {
                    config.limits = reading.named(table);
                }
                (None, Raw::Table(table)) if entry.key == QueueSettings::SECTION => {
                    config.queues = reading.named(table);
                }
                (None, Raw::Table(table)) if entry.key == Registered::SECTION => {
                    config.kinds = reading.named(table);
                }
                (None, Raw::Table(table)) if entry.key == Recurring::SECTION => {
                    config.schedules = reading.named(table);
                }
                _ => reading.stray(&entry.key, entry.line, &entry.raw),
            }
        }
    }

    fn variables(&mut self, variables: &[(String, String)]) {
        let known: Vec<_> =
            keys().map(|(key, field)| (variable(&key, field), key, field)).collect();
        for (name, text) in variables {
            if let Some((_, key, field)) = known.iter().find(|(known, ..)| known == name) {
                self.text(key, field, Source::Env(name.clone()), text);
            } else if name != FILE_VARIABLE {
                // Only a note: the environment may contain such variables for other reasons. Kubernetes, for
                // example, sets them for a service named windlass.
                let known = known.iter().map(|(known, ..)| &**known);
                let near = nearest(name, known);
                let note =
                    |near| format!("{name} is set but is not a setting; did you mean {near}?");
                self.config.notes.extend(near.map(note));
            }
        }
    }

    fn flag(&mut self, Flag { key, flag, text }: &Flag) {
        let source = Source::Flag((*flag).to_owned());
        match keys().find(|(known, _)| known == key) {
            Some((_, field)) => self.text(key, field, source, text),
            None => {
                let known: Vec<_> = keys().map(|(key, _)| key).collect();
                let known = known.iter().map(String::as_str);
                self.mistakes.push(Mistake::unknown(source, key, known));
            }
        }
    }

    fn text(&mut self, key: &str, field: &Field<Fixed>, source: Source, text: &str) {
        let set = |value| (field.set)(&mut self.config.fixed, &value);
        match field.kind.parse(text).and_then(set) {
            Ok(()) => {
                self.config.sources.insert(key.to_owned(), source);
            }
            Err(wrong) => self.mistakes.push(Mistake::value(source, key, text, wrong)),
        }
    }

    /// Validates combinations of settings.
    fn check(&mut self) {
        let Fixed { server, store, traces, .. } = &self.config.fixed;
        let mut wrong = Vec::new();
        if server.options.bodies_bytes_max < server.options.body_bytes_max {
            let expected = "it must have room for one request of server.body_bytes_max";
            let given = super::value::size(server.options.bodies_bytes_max as u64);
            wrong.push(("server.bodies_bytes_max", given, expected));
        }
        let fits = store.payload_bytes_max.map_or(Ok(()), |it| server.options.check_payloads(it));
        if fits.is_err() {
            let expected = "a payload of store.payload_bytes_max does not fit into it; raise it, or lower the other";
            let given = super::value::size(server.options.body_bytes_max as u64);
            wrong.push(("server.body_bytes_max", given, expected));
        }
        if !store.migrate && !matches!(store.url, Url::Postgres(_)) {
            let expected =
                "it applies to postgres:// stores only, and store.url is another; leave it out";
            wrong.push(("store.migrate", "false".to_owned(), expected));
        }
        if traces.service.is_empty() {
            wrong.push(("traces.service", String::new(), "write a name, as in \"windlass\""));
        }
        let shown = |path: &Option<PathBuf>| {
            path.as_ref().map_or_else(String::new, |path| path.display().to_string())
        };
        match (&server.tls_cert, &server.tls_key) {
            (Some(_), None) => {
                let expected = "a certificate needs its private key: set server.tls_key";
                wrong.push(("server.tls_cert", shown(&server.tls_cert), expected));
            }
            (None, Some(_)) => {
                let expected = "a private key needs its certificate: set server.tls_cert";
                wrong.push(("server.tls_key", shown(&server.tls_key), expected));
            }
            (None, None) if server.tls_client_ca.is_some() => {
                let expected = "client certificates require TLS: set \
                                server.tls_cert and server.tls_key";
                wrong.push(("server.tls_client_ca", shown(&server.tls_client_ca), expected));
            }
            _ => {}
        }
        for (key, given, expected) in wrong {
            let source = self.config.source(key).clone();
            self.mistakes.push(Mistake::value(source, key, given, expected.into()));
        }
    }
}

/// Reads a text file of at most `bytes_max` bytes, or returns the reason why it cannot.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let unread = |error: std::io::Error| format!("cannot read it: {error}");
    let mut text = String::new();
    let file = File::open(path).map_err(unread)?;
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(unread)?;
    match text.len() as u64 > bytes_max {
        true => Err(format!("it has more than {bytes_max} bytes; is it the right file?")),
        false => Ok(text),
    }
}
