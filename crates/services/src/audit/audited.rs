//! A layer that writes the actions of a principal to the audit log. It must not change requests or replies,
//! except for records reserved for servers ([`reserved`](crate::reserved)).

use super::action::Action;
use super::describe::{self, Settled};
use super::log::Audit;
use crate::keys::Principal;
use crate::reserved;
use std::sync::Arc;
use windlass_core::engine::*;
use windlass_core::{JobId, Result};

/// An engine on behalf of one principal. Created for one request.
#[derive(Clone)]
pub struct Audited {
    engine: Arc<dyn Engine>,
    audit: Audit,
    who: Arc<Principal>,
}

impl std::fmt::Debug for Audited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Audited({})", self.who.name())
    }
}

impl Audited {
    /// Wraps an engine and logs the actions of `who` to `audit`.
    pub fn new(engine: Arc<dyn Engine>, audit: Audit, who: Arc<Principal>) -> Self {
        Self { engine, audit, who }
    }

    /// Logs an action that the engine cannot observe.
    pub async fn record(&self, action: &str, target: &str) {
        let mut reported = Action::new(&self.who, action);
        reported.target(target, true);
        self.keep(self.audit.append(vec![reported]).await);
    }

    /// The action has already been executed, so a failure to log it is reported to operators, not to the
    /// caller.
    fn keep(&self, kept: Result<()>) {
        if let Err(error) = kept {
            metrics::counter!("windlass_audit_lost_total").increment(1);
            tracing::error!(%error, who = self.who.name(), "action missing from the audit log");
        }
    }

    async fn changed(&self, batch: Vec<ChangeItem>) -> Result<Stamped<Vec<Item<Changed>>>> {
        let before = match batch.as_slice() {
            [one] => {
                let seen = self.engine.get(Get::new([one.id])).await.ok();
                seen.and_then(|seen| seen.value.into_iter().next().flatten()).map(|job| job.state)
            }
            _ => None,
        };
        let reported: Vec<_> =
            batch.iter().map(|item| (item.id, describe::change(&item.change))).collect();
        let reply = self.engine.change(batch).await?;
        let actions = describe::changes(&self.who, &reported, &reply.value, before);
        self.keep(self.audit.append(actions).await);
        Ok(reply)
    }

    async fn configured(&self, batch: Vec<Configure>) -> Result<Stamped<Vec<Item<()>>>> {
        let before = self.engine.settings().await?.value;
        let reported = batch.clone();
        let reply = self.engine.configure(batch).await?;
        let after = self.engine.settings().await.map(|it| it.value).unwrap_or_default();
        let settled = Settled { before, after };
        let actions = describe::settings(&self.who, &reported, &reply.value, &settled);
        self.keep(self.audit.append(actions).await);
        Ok(reply)
    }

    async fn recorded(&self, batch: Vec<RecordOp>) -> Result<Stamped<Vec<Item<RecordReply>>>> {
        batch.iter().try_for_each(reserved::check)?;
        let reported = describe::written(&batch);
        let mut before = Vec::new();
        if !reported.is_empty() {
            let reads = reported.iter().map(|write| RecordOp::Get { key: write.key.clone() });
            before = self.engine.records(reads.collect()).await?.value;
        }
        let lists_audit: Vec<bool> = batch.iter().map(reserved::lists_audit).collect();
        let mut reply = self.engine.records(batch).await?;
        for (answer, lists_audit) in reply.value.iter_mut().zip(lists_audit) {
            reserved::hide(answer, lists_audit);
        }
        let actions = describe::writes(&self.who, reported, before, &reply.value);
        self.keep(self.audit.append(actions).await);
        Ok(reply)
    }
}

impl Jobs for Audited {
    windlass_core::pass_on!(engine: capabilities, enqueue, open_session, heartbeat, close_session, take, claim, wait, settle, update);
}

impl Admin for Audited {
    windlass_core::pass_on!(engine: get, list, stats, limits, why, sessions, settings, removed, events, health);

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        Box::pin(self.changed(batch))
    }

    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(async move {
            let ids: Vec<JobId> = request.jobs.iter().map(|job| job.header.id).collect();
            let reply = self.engine.import(request).await?;
            let mut action = Action::new(&self.who, "job.import");
            for (id, answer) in ids.iter().zip(&reply.value) {
                action.target(id.to_string(), answer.is_ok());
            }
            self.keep(self.audit.append(vec![action]).await);
            Ok(reply)
        })
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        Box::pin(self.configured(batch))
    }

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        Box::pin(self.recorded(batch))
    }
}

impl Maintain for Audited {
    /// Services of remote workers call this many times per second: logged once per hour.
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        Box::pin(async move {
            let name = format!("store.{}", request.work).to_lowercase();
            let reply = self.engine.maintain(request).await?;
            let mut action = Action::new(&self.who, name);
            action.target("store", true);
            self.keep(self.audit.append_rarely(action).await);
            Ok(reply)
        })
    }

    /// A check without repair is not logged.
    fn check(&self, repair: bool) -> Answer<'_, CheckReport> {
        Box::pin(async move {
            let reply = self.engine.check(repair).await?;
            if repair {
                self.record("store.repair", "store").await;
            }
            Ok(reply)
        })
    }
}
