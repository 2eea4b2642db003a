//! Applies the queues, kinds and schedules of the file to the store: writes only differences, and leaves
//! everything that the file does not name as it is. Idempotent, and safe with several servers at a time.

use super::load::Config;
use super::sections::{Entry, LimitRules, Named, Recurring, Registered};
use anyhow::{Context as _, Result, anyhow};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use windlass_core::engine::{Configure, Engine};
use windlass_core::limits::BATCH_MAX;
use windlass_core::model::{KindPatch, QueuePatch, QueueSettings};
use windlass_core::sync::lock;
use windlass_services::{Audit, Audited, Kinds, Principal, ScheduleView, Schedules};

/// Name of the actor in the audit log.
const WHO: &str = "configuration";
/// Timeout for applying the whole configuration.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The store, once it is open, and the configuration to apply to it.
pub(crate) struct Setup {
    engine: OnceLock<Arc<dyn Engine>>,
    /// The configuration as of the last reload.
    config: Mutex<Arc<Config>>,
}

impl Setup {
    pub(crate) fn new(config: Config) -> Self {
        Self { engine: OnceLock::new(), config: Mutex::new(Arc::new(config)) }
    }

    /// The current configuration.
    pub(crate) fn config(&self) -> Arc<Config> {
        lock(&self.config).clone()
    }

    /// Applies the configuration to a store that was just opened; returns one line per changed setting.
    pub(crate) async fn opened(&self, engine: Arc<dyn Engine>) -> Result<Vec<String>> {
        let (audit, who) = (Audit::new(engine.clone()), Principal::direct(WHO));
        let engine: Arc<dyn Engine> = Arc::new(Audited::new(engine, audit, Arc::new(who)));
        let changed = apply(&self.config(), &engine).await?;
        // The store is opened once; a second value would be the same store.
        let _ = self.engine.set(engine);
        Ok(changed)
    }

    /// Replaces the configuration and applies it; returns one line per changed setting.
    pub(crate) async fn change(&self, config: Config) -> Result<Vec<String>> {
        let changed = match self.engine.get() {
            Some(engine) => apply(&config, engine).await?,
            None => {
                vec!["queues, kinds and schedules are applied once the store is open".to_owned()]
            }
        };
        *lock(&self.config) = Arc::new(config);
        Ok(changed)
    }
}

/// Applies a configuration within the timeout; returns one line per changed setting.
async fn apply(config: &Config, engine: &Arc<dyn Engine>) -> Result<Vec<String>> {
    let applied = tokio::time::timeout(TIME_MAX, in_time(config, engine)).await;
    let late =
        || format!("cannot set up queues, kinds and schedules: no answer within {TIME_MAX:?}");
    applied.with_context(late)?
}

async fn in_time(config: &Config, engine: &Arc<dyn Engine>) -> Result<Vec<String>> {
    let mut changed = limits(&config.limits, &**engine).await.context("cannot set up limits")?;
    changed.extend(queues(&config.queues, &**engine).await.context("cannot set up queues")?);
    let kinds = Kinds::new(engine.clone());
    for entry in &config.kinds {
        let lines = kind(entry, &kinds).await;
        changed.extend(lines.with_context(|| format!("cannot set up {}", entry.key()))?);
    }
    let listed = limits_of_kinds(&config.kinds, &**engine).await;
    changed.extend(listed.context("cannot set up limits of kinds")?);
    let schedules_of = Schedules::new(engine.clone());
    for entry in &config.schedules {
        let lines = schedule(entry, &schedules_of).await;
        changed.extend(lines.with_context(|| format!("cannot set up {}", entry.key()))?);
    }
    Ok(changed)
}

/// Creates or replaces limits. The file defines the whole limit: rules that it leaves out do not apply.
async fn limits(entries: &[Entry<LimitRules>], engine: &dyn Engine) -> Result<Vec<String>> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let (mut changed, mut changes) = (Vec::new(), Vec::new());
    let stored = engine.settings().await?.value.limits;
    for entry in entries {
        let limit = wanted(entry, LimitRules::default())?.limit();
        let limit = limit.map_err(|(key, given, wrong)| {
            anyhow!("{}.{key} = {given:?}: {}", entry.key(), wrong.expected)
        })?;
        let known = stored.iter().find(|(name, _)| **name == *entry.name).map(|(_, known)| known);
        let news = news(entry, Ok::<_, anyhow::Error>(known), |known| **known == limit);
        if news.is_some() {
            changed.extend(news);
            changes.push(Configure::limit(entry.name.as_str(), limit));
        }
    }
    configure(&changes, engine).await?;
    Ok(changed)
}

/// Makes changes of settings; fails at the first that is refused.
async fn configure(changes: &[Configure], engine: &dyn Engine) -> Result<()> {
    for changes in changes.chunks(BATCH_MAX) {
        for answer in engine.configure(changes.to_vec()).await?.value {
            answer?;
        }
    }
    Ok(())
}

async fn queues(entries: &[Entry<QueueSettings>], engine: &dyn Engine) -> Result<Vec<String>> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let (mut changed, mut patches) = (Vec::new(), Vec::new());
    let settings = engine.settings().await?.value.queues;
    for entry in entries {
        let own = settings.iter().find(|(name, _)| **name == *entry.name);
        let before = own.map(|(_, own)| own.clone()).unwrap_or_default();
        let after = wanted(entry, before.clone())?;
        if before != after {
            changed.extend(entry.changes(&before, &after));
            patches.push(Configure::queue(entry.name.as_str(), patch(&before, &after)));
        }
    }
    configure(&patches, engine).await?;
    Ok(changed)
}

/// The patch that changes `before` to `after`.
fn patch(before: &QueueSettings, after: &QueueSettings) -> QueuePatch {
    let mut patch = QueuePatch::default();
    patch.max_depth = (before.max_depth != after.max_depth).then_some(after.max_depth);
    patch.order = (before.order != after.order).then_some(after.order);
    patch.retention = (before.retention != after.retention).then_some(after.retention);
    patch.keep_max = (before.keep_max != after.keep_max).then_some(after.keep_max);
    patch.dead_bytes_max =
        (before.dead_bytes_max != after.dead_bytes_max).then_some(after.dead_bytes_max);
    patch.events = (before.events != after.events).then_some(after.events);
    patch.limits = (before.limits != after.limits).then(|| after.limits.clone());
    patch.max_wait_ms = (before.max_wait_ms != after.max_wait_ms).then_some(after.max_wait_ms);
    patch
}

/// Registers a kind. The file defines the whole kind: rules that it leaves out do not apply.
async fn kind(entry: &Entry<Registered>, kinds: &Kinds) -> Result<Option<String>> {
    let rules = wanted(entry, Registered::default())?.rules();
    let rules = rules.map_err(|(key, given, wrong)| {
        anyhow!("{}.{key} = {given:?}: {}", entry.key(), wrong.expected)
    })?;
    let news = news(entry, kinds.get(&entry.name).await, |known| *known == rules);
    if news.is_some() {
        kinds.put(&entry.name, &rules).await?;
    }
    Ok(news)
}

/// Changes the lists of limits of those kinds whose section has one.
async fn limits_of_kinds(
    entries: &[Entry<Registered>],
    engine: &dyn Engine,
) -> Result<Vec<String>> {
    let (mut changed, mut changes) = (Vec::new(), Vec::new());
    let mut stored = None;
    for entry in entries {
        let Some(limits) = wanted(entry, Registered::default())?.limits else { continue };
        if stored.is_none() {
            stored = Some(engine.settings().await?.value.kinds);
        }
        let known = stored.iter().flatten().find(|(name, _)| **name == *entry.name);
        let before = known.map_or(&[][..], |(_, settings)| &settings.limits);
        if before != limits {
            let key = entry.key();
            changed.push(format!("{key}.limits: {before:?} becomes {limits:?}"));
            changes.push(Configure::kind(entry.name.as_str(), KindPatch::limits(limits)));
        }
    }
    configure(&changes, engine).await?;
    Ok(changed)
}

/// Puts a schedule. The file defines the whole schedule: settings that it leaves out have their defaults.
async fn schedule(entry: &Entry<Recurring>, schedules: &Schedules) -> Result<Option<String>> {
    let wanted = wanted(entry, Recurring::default())?;
    let (schedule, job) = (wanted.schedule(), wanted.job());
    let is_same = |known: &ScheduleView| known.schedule == schedule && known.job == job;
    let news = news(entry, schedules.get(&entry.name).await, is_same);
    if news.is_some() {
        schedules.put(&entry.name, schedule, job).await?;
    }
    Ok(news)
}

/// `base` with the settings of the file applied.
fn wanted<T: Named>(entry: &Entry<T>, base: T) -> Result<T> {
    entry.over(base).map_err(|wrong| anyhow!("{}", wrong.expected))
}

/// Describes the change that storing the entry makes, or `None` if the stored one is equal. An unreadable
/// stored entry counts as missing and is replaced.
fn news<T: Named, K, E>(
    entry: &Entry<T>,
    known: Result<Option<K>, E>,
    is_same: impl FnOnce(&K) -> bool,
) -> Option<String> {
    let what = match known.unwrap_or_default() {
        Some(known) if is_same(&known) => return None,
        Some(_) => "is changed",
        None => "is new",
    };
    Some(format!("{} {what}", entry.key()))
}

#[cfg(test)]
mod tests {
    use super::super::Inputs;
    use super::super::load::Choice;
    use super::*;
    use windlass_core::model::{Name, Order};
    use windlass_core::policy::RetentionFields;
    use windlass_memory::MemoryEngine;

    fn config(text: &str) -> Config {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("windlass.toml");
        std::fs::write(&path, text).unwrap();
        let given = Inputs { file: Choice::Named(path), ..Inputs::default() };
        Config::load(&given).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    #[tokio::test]
    async fn only_what_differs_is_written_and_what_is_not_named_stays() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let mut by_hand = QueuePatch::paused(true);
        by_hand.retention =
            Some(RetentionFields { finished_ms: 1, dead_ms: 2, expired_ms: 3 }.into());
        engine.configure(vec![Configure::queue("mail", by_hand)]).await.unwrap();
        let config = config(
            "[queues.mail]\nmax_depth = 7\nretention.dead = \"1d\"\norder = \"fair\"\n\
             dead_bytes_max = \"1G\"\n",
        );
        let changed = apply(&config, &engine).await.unwrap();
        assert_eq!(
            changed,
            [
                "queues.mail.max_depth: \"none\" becomes 7",
                "queues.mail.order: \"strict\" becomes \"fair\"",
                "queues.mail.retention.dead: \"2ms\" becomes \"1d\"",
                "queues.mail.dead_bytes_max: \"none\" becomes \"1G\"",
            ]
        );
        let settings = engine.settings().await.unwrap().value.queues;
        let mail = &settings[0].1;
        assert!(mail.paused, "no call resumed it");
        assert_eq!((mail.max_depth, mail.order), (Some(7), Order::Fair));
        assert_eq!(mail.dead_bytes_max, Some(1 << 30));
        let kept = RetentionFields { finished_ms: 1, dead_ms: 86_400_000, expired_ms: 3 };
        assert_eq!(mail.retention, kept.into());
        assert!(apply(&config, &engine).await.unwrap().is_empty(), "a second server finds it done");
    }

    #[tokio::test]
    async fn limits_are_set_before_the_queues_that_list_them() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let text = "[queues.mail]\nlimits = [\"stripe\"]\n\
                    [limits.stripe]\nmax_running = 5\nrate = \"100/1m\"\nby_group = true\n\
                    overrides = { acme = { max_running = 10 } }\n";
        let changed = apply(&config(text), &engine).await.unwrap();
        let listed = "queues.mail.limits: [] becomes [\"stripe\"]";
        assert_eq!(changed, ["limits.stripe is new", listed]);
        let settings = engine.settings().await.unwrap().value;
        let limit = &settings.limits[0].1;
        assert_eq!(limit.rule_for("acme").max_running, Some(10));
        assert_eq!(limit.rule_for("other").rate.map(|rate| rate.capacity()), Some(100));
        assert!(apply(&config(text), &engine).await.unwrap().is_empty());
        let changed = apply(&config(&text.replace("= 5", "= 6")), &engine).await.unwrap();
        assert_eq!(changed, ["limits.stripe is changed"]);
    }

    #[tokio::test]
    async fn kinds_list_limits_and_a_section_without_a_list_keeps_it() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let limit = "[limits.stripe]\nmax_running = 5\n";
        let text = format!("{limit}[kinds.refund]\nlimits = [\"stripe\"]\n");
        let changed = apply(&config(&text), &engine).await.unwrap();
        let listed = "kinds.refund.limits: [] becomes [\"stripe\"]";
        assert_eq!(changed, ["limits.stripe is new", "kinds.refund is new", listed]);
        let limits = async || engine.settings().await.unwrap().value.kinds[0].1.limits.clone();
        assert_eq!(limits().await, [Name::from("stripe")]);
        assert!(apply(&config(&text), &engine).await.unwrap().is_empty());
        let silent = format!("{limit}[kinds.refund]\n");
        assert!(apply(&config(&silent), &engine).await.unwrap().is_empty());
        assert_eq!(limits().await, [Name::from("stripe")]);
        let empty = format!("{limit}[kinds.refund]\nlimits = []\n");
        apply(&config(&empty), &engine).await.unwrap();
        assert!(engine.settings().await.unwrap().value.kinds.is_empty());
        let unknown = config("[kinds.refund]\nlimits = [\"missing\"]\n");
        let error = format!("{:#}", apply(&unknown, &engine).await.unwrap_err());
        assert!(error.contains("missing") && error.contains("create it first"), "{error}");
    }

    #[tokio::test]
    async fn kinds_are_registered_once_and_changed_when_the_file_is() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let text = "[kinds.charge]\nsensitive = true\nschema = { type = \"object\" }\nbreaker.enabled = true\n";
        assert_eq!(apply(&config(text), &engine).await.unwrap(), ["kinds.charge is new"]);
        let rules = Kinds::new(engine.clone()).get("charge").await.unwrap().unwrap();
        assert!(rules.sensitive && rules.breaker.is_some());
        assert_eq!(rules.schema.as_deref(), Some(r#"{"type":"object"}"#));
        assert!(apply(&config(text), &engine).await.unwrap().is_empty());
        let text = text.replace("sensitive = true", "max_attempts = 3");
        assert_eq!(apply(&config(&text), &engine).await.unwrap(), ["kinds.charge is changed"]);
        let rules = Kinds::new(engine.clone()).get("charge").await.unwrap().unwrap();
        assert!(!rules.sensitive && rules.max_attempts == Some(3), "it belongs to the file");
    }

    #[tokio::test]
    async fn schedules_are_put_once_and_changed_when_the_file_is() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let text = "[schedules.report]\nkind = \"send\"\ncron = \"0 6 * * *\"\npayload = { to = \"ada\" }\n";
        let changed = apply(&config(text), &engine).await.unwrap();
        assert_eq!(changed, ["schedules.report is new"]);
        let schedules = Schedules::new(engine.clone());
        let view = schedules.get("report").await.unwrap().unwrap();
        let payload = view.job.parts.payload.unwrap();
        assert_eq!(&*payload.bytes, br#"{"to":"ada"}"#);
        schedules.pause("report").await.unwrap();
        assert!(apply(&config(text), &engine).await.unwrap().is_empty());
        let changed = apply(&config(&text.replace("0 6", "0 7")), &engine).await.unwrap();
        assert_eq!(changed, ["schedules.report is changed"]);
        assert!(
            schedules.get("report").await.unwrap().unwrap().paused,
            "that is for people to say"
        );
    }
}
