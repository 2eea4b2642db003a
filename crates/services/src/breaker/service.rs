//! Opens and closes breakers by the outcomes of jobs. Safe beside other instances: breakers are written by
//! compare-and-set before permits are changed, and every step completes what a leader that died in between
//! left unfinished.

use super::{LOG, Report, Stored, key, records};
use crate::board::ServiceName;
use crate::kinds;
use crate::logs;
use crate::records::{encode, one, put};
use crate::service::{NextRun, Service, Step, StepContext};
use metrics::gauge;
use std::collections::BTreeMap;
use tracing::{info, warn};
use windlass_core::engine::{Configure, Engine, Expect, LogEntry, RecordOp, Stamped};
use windlass_core::limits::PAGE_MAX;
use windlass_core::model::{KindPatch, Name};
use windlass_core::policy::{Breaker, BreakerChange, BreakerPolicy, Permit};
use windlass_core::{Error, Result, Timestamp};

/// The service that runs breakers.
#[derive(Debug, Default)]
pub(crate) struct BreakerService {
    /// State cached while this process leads; reloaded after any conflict or error.
    known: Option<Known>,
    /// Kinds whose gauge is not zero.
    shown: Vec<Name>,
}

#[derive(Debug)]
struct Known {
    /// The revision of the rules that the policies were read from.
    revision: u64,
    policies: BTreeMap<Name, BreakerPolicy>,
    breakers: BTreeMap<Name, Held>,
    /// Number of the last log entry that has been read.
    read: u64,
}

/// A breaker and the version of its record; version 0 means that there is no record yet.
#[derive(Clone, Debug, Default)]
struct Held {
    stored: Stored,
    version: u64,
}

impl Service for BreakerService {
    fn name(&self) -> ServiceName {
        ServiceName::Breaker
    }

    async fn step(&mut self, context: StepContext<'_>) -> Result<Step> {
        let stepped = self.run(context.engine).await;
        if stepped.is_err() {
            // After any error the stored state is authoritative.
            self.known = None;
        }
        stepped
    }

    fn halt(&mut self) {
        self.known = None;
        for kind in std::mem::take(&mut self.shown) {
            show(&kind, false);
        }
    }
}

impl BreakerService {
    async fn run(&mut self, engine: &dyn Engine) -> Result<Step> {
        let Stamped { now, value: revision, .. } = kinds::revision(engine).await?;
        if self.known.as_ref().is_none_or(|known| known.revision != revision) {
            self.known = Some(Known::load(engine, revision).await?);
        }
        let Some(known) = self.known.as_mut().filter(|known| known.is_needed()) else {
            return Ok(Step { now, items: 0, again: NextRun::Idle });
        };
        let entries = logs::read(engine, LOG, known.read, PAGE_MAX).await?;
        let more = entries.len() == PAGE_MAX as usize;
        known.lift_unwanted(engine).await?;
        let mut next = None;
        for (kind, policy) in known.policies.clone() {
            let at = known.decide(engine, &kind, &policy, &entries, now).await?;
            next = [next, at].into_iter().flatten().min();
        }
        known.read = entries.last().map_or(known.read, |entry| entry.number);
        self.show_open();
        let again = match next {
            _ if more => NextRun::Now,
            Some(at) => NextRun::After(at.since(now).max(1)),
            None => NextRun::Idle,
        };
        Ok(Step { now, items: entries.len() as u64, again })
    }

    /// Publishes the open breakers as metrics.
    fn show_open(&mut self) {
        let Some(known) = &self.known else { return };
        let is_open = |held: &Held| held.stored.breaker.open_since().is_some();
        let now: Vec<Name> = known.breakers.keys().cloned().collect();
        for gone in self.shown.iter().filter(|kind| !known.breakers.contains_key(*kind)) {
            show(gone, false);
        }
        known.breakers.iter().for_each(|(kind, held)| show(kind, is_open(held)));
        self.shown = now;
    }
}

fn show(kind: &Name, open: bool) {
    gauge!("windlass_breaker_open", "kind" => kind.to_string()).set(f64::from(u8::from(open)));
}

impl Known {
    async fn load(engine: &dyn Engine, revision: u64) -> Result<Self> {
        let policy = |it: kinds::Registered| Some((it.kind, it.rules.ok()?.breaker?));
        let policies: BTreeMap<Name, BreakerPolicy> =
            kinds::all(engine).await?.into_iter().filter_map(policy).collect();
        let mut breakers = BTreeMap::new();
        for (kind, record) in records(engine).await? {
            let stored = Stored::read(&record).unwrap_or_else(|error| {
                warn!(%kind, %error, "unreadable breaker record; the breaker restarts closed");
                // It may have been open.
                Stored { gated: true, ..Stored::default() }
            });
            breakers.insert(kind, Held { stored, version: record.version });
        }
        // A new breaker ignores earlier outcomes; otherwise reading resumes at the breaker that is furthest
        // behind.
        let behind = breakers.values().map(|held: &Held| held.stored.upto).min();
        let read = behind.unwrap_or(0);
        Ok(Self { revision, policies, breakers, read })
    }

    fn is_needed(&self) -> bool {
        !self.policies.is_empty() || !self.breakers.is_empty()
    }

    /// Removes breakers of kinds that no longer have a policy, and lifts their permits.
    async fn lift_unwanted(&mut self, engine: &dyn Engine) -> Result<()> {
        let unwanted = self.breakers.keys().filter(|kind| !self.policies.contains_key(*kind));
        for kind in unwanted.cloned().collect::<Vec<_>>() {
            let Some(held) = self.breakers.get(&kind) else { continue };
            if held.stored.gated {
                set_permits(engine, &kind, None).await?;
            }
            let delete =
                RecordOp::Delete { key: key(&kind), expect: Expect::Version(held.version) };
            one(engine, delete).await?;
            info!(%kind, "breaker removed");
            self.breakers.remove(&kind);
        }
        Ok(())
    }

    /// Applies new outcomes to the breaker of a kind and sets its permits. Returns when to check again.
    async fn decide(
        &mut self,
        engine: &dyn Engine,
        kind: &Name,
        policy: &BreakerPolicy,
        entries: &[LogEntry],
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let held = self.breakers.get(kind).cloned().unwrap_or_default();
        let (mut stored, mut change) = (held.stored.clone(), None);
        let is_news = |entry: &&LogEntry| entry.number > held.stored.upto;
        for entry in entries.iter().filter(is_news) {
            stored.upto = entry.number;
            let report: Option<Report> = serde_json::from_slice(&entry.value).ok();
            let report = report.filter(|report| report.kind == *kind);
            // Outcomes from a time without a leader are ignored if they are older than the window.
            let is_recent = now.since(entry.at) < policy.window_ms;
            if let Some(Report { count, .. }) = report.filter(|_| is_recent) {
                let changed = stored.breaker.record(policy, entry.at, count.ok, count.errors);
                change = changed.or(change);
            }
        }
        let permit = stored.breaker.permit(policy, now);
        let flows = permit == Permit::Flow;
        stored.gated |= !flows;
        // Entries of other kinds alone are no reason to write.
        let changed = (&stored.breaker, stored.gated) != (&held.stored.breaker, held.stored.gated);
        let mut version = held.version;
        if changed || version == 0 {
            version = write(engine, kind, &stored, version).await?;
        }
        log_change(kind, change);
        move_gate(engine, kind, permit, &stored).await?;
        if flows && stored.gated {
            stored.gated = false;
            version = write(engine, kind, &stored, version).await?;
        }
        self.breakers.insert(kind.clone(), Held { stored, version });
        Ok(match permit {
            Permit::Hold { until } => Some(until),
            Permit::Probe => Some(now.plus(policy.probe_every_ms)),
            Permit::Flow | _ => None,
        })
    }
}

/// Writes a breaker by compare-and-set.
async fn write(engine: &dyn Engine, kind: &str, stored: &Stored, version: u64) -> Result<u64> {
    let expect = if version == 0 { Expect::Absent } else { Expect::Version(version) };
    Ok(put(engine, &key(kind), encode(stored)?, expect).await?.value)
}

/// Sets the kind's permits according to the breaker.
async fn move_gate(
    engine: &dyn Engine,
    kind: &Name,
    permit: Permit,
    stored: &Stored,
) -> Result<()> {
    let wanted = match permit {
        Permit::Flow if stored.gated => None,
        Permit::Flow => return Ok(()),
        // A permit that a probe has consumed is not renewed before its time.
        Permit::Probe => Some(1),
        Permit::Hold { .. } | _ => {
            let settings = engine.settings().await?.value.kinds;
            let permits =
                settings.iter().find(|(name, _)| name == kind).and_then(|(_, set)| set.permits);
            match (&stored.breaker, permits) {
                (Breaker::Probing { .. }, Some(0 | 1)) | (Breaker::Open { .. }, Some(0)) => {
                    return Ok(());
                }
                _ => Some(0),
            }
        }
    };
    set_permits(engine, kind, wanted).await
}

async fn set_permits(engine: &dyn Engine, kind: &Name, permits: Option<u32>) -> Result<()> {
    let change = Configure::kind(kind.clone(), KindPatch::permits(permits));
    let answers = engine.configure(vec![change]).await?.value;
    answers.into_iter().collect::<Result<(), Error>>()
}

fn log_change(kind: &str, change: Option<BreakerChange>) {
    match change {
        Some(BreakerChange::Opened { count }) => {
            let (ok, errors) = (count.ok, count.errors);
            warn!(
                kind,
                ok,
                errors,
                "breaker opened: jobs of this kind are held back, with one probe at a time"
            );
            metrics::counter!("windlass_breaker_opened_total", "kind" => kind.to_owned())
                .increment(1);
        }
        Some(BreakerChange::Closed { open_ms }) => {
            info!(kind, open_ms, "breaker closed: a probe succeeded");
        }
        _ => {}
    }
}
