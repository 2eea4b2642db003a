//! A layer that checks samples of completed jobs: it adds a follow-up to the report that completes a job, so both take
//! effect in one step, and a repeated report adds nothing. It does nothing while no kind has a check. Independent of what
//! checks do, and of who registers kinds.

use crate::kinds;
use metrics::counter;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;
use windlass_core::engine::*;
use windlass_core::limits::SETTLE_FOLLOW_UPS_MAX;
use windlass_core::model::{
    CheckRule, Job, KindRules, Name, NewJob, Part, PartEdit, PartName, PartSet, is_check,
};
use windlass_core::sync::lock;
use windlass_core::{Error, Result};

/// Interval at which the rules are read again while jobs are settled.
const RELOAD_EVERY: Duration = Duration::from_secs(1);

/// The revision of a store without registered kinds.
const UNKNOWN: u64 = 0;

/// Enqueues the checks of completed jobs ([`CheckRule`]). Processes that run handlers on a store, or through which other
/// processes settle, settle through this layer; two of these layers would enqueue a check once, too.
///
/// A check never prevents the completion of its job: one that the store refuses is skipped, logged and counted.
#[derive(Clone)]
pub struct Checks {
    engine: Arc<dyn Engine>,
    known: Arc<Mutex<Known>>,
}

/// What is known about registered kinds.
#[derive(Default)]
struct Known {
    rules: Arc<Rules>,
    /// The revision of the registered kinds that `rules` was read from.
    revision: Option<u64>,
    /// When `rules` was last read.
    reloaded: Option<Instant>,
}

/// The rules of the kinds that take part in checks.
#[derive(Default)]
struct Rules {
    /// By the kind that is checked.
    checks: HashMap<Name, CheckRule>,
    /// Defaults of the checks, by their kind.
    defaults: HashMap<Name, KindRules>,
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checks({})", self.engine.capabilities().engine)
    }
}

impl Checks {
    /// Wraps this engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, known: Arc::default() }
    }

    /// The rules, at most about a second old. If the store does not answer, the old ones are kept; if there are none yet,
    /// the report fails, too, and is repeated: no job is completed without its check.
    async fn rules(&self) -> Result<Arc<Rules>> {
        let revision = {
            let mut known = lock(&self.known);
            let is_fresh = known.reloaded.is_some_and(|at| at.elapsed() < RELOAD_EVERY);
            if known.revision.is_some() && is_fresh {
                return Ok(known.rules.clone());
            }
            known.reloaded = Some(Instant::now());
            known.revision
        };
        let reloaded = self.reload(revision).await;
        let mut known = lock(&self.known);
        match reloaded {
            Ok(Some((revision, rules))) => {
                (known.revision, known.rules) = (Some(revision), Arc::new(rules));
            }
            // The key of a worker that is connected to a server: the server enqueues the checks.
            Err(Error::Forbidden { .. }) => known.revision = known.revision.or(Some(UNKNOWN)),
            Err(error) if known.revision.is_none() => return Err(error),
            Ok(None) | Err(_) => {}
        }
        Ok(known.rules.clone())
    }

    /// Reads the rules; `None` if they are unchanged since `before`.
    async fn reload(&self, before: Option<u64>) -> Result<Option<(u64, Rules)>> {
        let revision = kinds::revision(&*self.engine).await?.value;
        if before == Some(revision) {
            return Ok(None);
        }
        let mut all = HashMap::new();
        for it in kinds::all(&*self.engine).await? {
            if let Ok(rules) = it.rules {
                all.insert(it.kind, rules);
            }
        }
        let checks = all.iter().filter_map(|(kind, it)| Some((kind.clone(), it.check.clone()?)));
        let checks: HashMap<Name, CheckRule> = checks.collect();
        all.retain(|kind, _| checks.values().any(|rule| rule.kind == *kind));
        Ok(Some((revision, Rules { checks, defaults: all })))
    }

    async fn settle_checked(&self, mut request: Settle) -> Result<Stamped<SettleReply>> {
        let rules = self.rules().await?;
        let checked = self.add_checks(&rules, &mut request).await?;
        if checked.is_empty() {
            return self.engine.settle(request).await;
        }
        let again: Vec<_> =
            checked.iter().map(|it| (it.index, request.items[it.index].clone())).collect();
        let mut reply = self.engine.settle(request).await?;
        let mut unchecked = Vec::new();
        for (it, (index, item)) in checked.into_iter().zip(again) {
            match &mut reply.value.items[index] {
                Ok(settled) if settled.already => {}
                Ok(settled) => {
                    // Not a follow-up of the caller's.
                    settled.follow_ups.pop();
                    counter!("windlass_checks_total", "kind" => it.kind.to_string()).increment(1);
                }
                Err(error) if may_be_due_to_check(error) => {
                    warn!(kind = &*it.kind, job = %item.id, %error, "cannot enqueue the check of a job");
                    unchecked.push((index, without_check(item)));
                    skip(&it.kind);
                }
                Err(_) => {}
            }
        }
        self.settle_unchecked(unchecked, &mut reply.value).await?;
        Ok(reply)
    }

    /// Settles items whose checks were refused, without them.
    async fn settle_unchecked(
        &self,
        items: Vec<(usize, SettleItem)>,
        reply: &mut SettleReply,
    ) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let (places, items): (Vec<usize>, Vec<SettleItem>) = items.into_iter().unzip();
        let second = self.engine.settle(Settle::new(items)).await?.value;
        for (place, settled) in places.into_iter().zip(second.items) {
            reply.items[place] = settled;
        }
        Ok(())
    }

    /// Adds the checks of sampled jobs to the reports that complete them.
    async fn add_checks(&self, rules: &Rules, request: &mut Settle) -> Result<Vec<Checked>> {
        let widest = rules.checks.values().max_by_key(|rule| rule.sample_per_mille);
        let Some(widest) = widest else { return Ok(Vec::new()) };
        let completes = |item: &SettleItem| matches!(item.outcome, Outcome::Complete { .. });
        let sampled = |item: &SettleItem| completes(item) && widest.samples(item.id);
        let items = request.items.iter().enumerate().filter(|(_, item)| sampled(item));
        let places: Vec<usize> = items.map(|(index, _)| index).collect();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let ids = Get::new(places.iter().map(|index| request.items[*index].id));
        let found = self.engine.get(ids.parts(PartSet::NONE.with(PartName::Payload))).await?;
        let total: usize = request.items.iter().map(|item| item.follow_ups.len()).sum();
        let mut room = SETTLE_FOLLOW_UPS_MAX.saturating_sub(total);
        let mut checked = Vec::new();
        for (index, job) in places.into_iter().zip(found.value) {
            // A job that has ended is settled again: its check was enqueued the first time.
            let Some(job) = job.filter(|job| !job.state.is_terminal()) else { continue };
            let item = &mut request.items[index];
            let Some(check) = rules.check_of(&job, item) else { continue };
            let kind = job.header.kind;
            if room == 0 {
                warn!(kind = &*kind, job = %item.id, "too many follow-ups in one report to add a check");
                skip(&kind);
                continue;
            }
            room -= 1;
            item.follow_ups.push(check);
            checked.push(Checked { index, kind });
        }
        Ok(checked)
    }
}

/// A report with a check.
struct Checked {
    /// Its place in the request.
    index: usize,
    kind: Name,
}

impl Rules {
    /// The check of a job that this report completes, if it is in the sample of its kind.
    fn check_of(&self, job: &Job, item: &SettleItem) -> Option<NewJob> {
        let rule = self.checks.get(&job.header.kind).filter(|rule| rule.samples(item.id))?;
        if is_check(job) {
            return None;
        }
        let payload: Option<Part> = match &item.parts.payload {
            PartEdit::Keep => job.parts.payload.clone(),
            PartEdit::Set(part) => Some(part.clone()),
            PartEdit::Unset => None,
        };
        let mut check = rule.job(&job.header, payload);
        if let Some(defaults) = self.defaults.get(&rule.kind) {
            defaults.apply(&mut check);
        }
        Some(check)
    }
}

fn without_check(mut item: SettleItem) -> SettleItem {
    item.follow_ups.pop();
    item
}

fn skip(kind: &Name) {
    counter!("windlass_checks_skipped_total", "kind" => kind.to_string()).increment(1);
}

/// Whether a report may have been refused because of its check. It is sent again without it.
const fn may_be_due_to_check(error: &Error) -> bool {
    matches!(
        error,
        Error::Invalid { .. }
            | Error::TooLarge { .. }
            | Error::Unsupported { .. }
            | Error::Duplicate { .. }
            | Error::QueueFull { .. }
    )
}

impl Jobs for Checks {
    windlass_core::pass_on!(
        engine: capabilities, enqueue, open_session, heartbeat, close_session, take, claim, wait, update
    );

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(self.settle_checked(request))
    }
}

impl Admin for Checks {
    windlass_core::pass_on!(engine: get, list, stats, limits, why, sessions, change, configure, settings, removed, events, records, import, health);
}

impl Maintain for Checks {
    windlass_core::pass_on!(engine: maintain, check);
}
