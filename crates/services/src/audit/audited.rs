//! An engine around an engine that tells the audit log what somebody does to the store from outside. It
//! must not change a request or an answer, except for the records that belong to servers
//! ([`reserved`](crate::reserved)).

use super::action::Action;
use super::describe::{self, Settled};
use super::log::Audit;
use crate::keys::Principal;
use crate::reserved;
use std::sync::Arc;
use windlass_core::Result;
use windlass_core::engine::*;

/// One principal at work on a store. Made for a request and dropped after it.
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
    /// What `who` does with this engine is told to `audit`.
    pub fn new(engine: Arc<dyn Engine>, audit: Audit, who: Arc<Principal>) -> Self {
        Self { engine, audit, who }
    }

    /// Tells something that the engine cannot see.
    pub async fn tell(&self, action: &str, target: &str) {
        let mut told = Action::new(&self.who, action);
        told.target(target, true);
        self.keep(self.audit.append(vec![told]).await);
    }

    /// What was done is done: that it could not be told is said where operators look.
    fn keep(&self, kept: Result<()>) {
        if let Err(error) = kept {
            metrics::counter!("windlass_audit_lost_total").increment(1);
            tracing::error!(%error, who = self.who.name(), "an action is missing in the audit log");
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
        let told: Vec<_> =
            batch.iter().map(|item| (item.id, describe::change(&item.change))).collect();
        let reply = self.engine.change(batch).await?;
        let actions = describe::changes(&self.who, &told, &reply.value, before);
        self.keep(self.audit.append(actions).await);
        Ok(reply)
    }

    async fn configured(&self, batch: Vec<Configure>) -> Result<Stamped<Vec<Item<()>>>> {
        let before = self.engine.settings().await?.value;
        let told = batch.clone();
        let reply = self.engine.configure(batch).await?;
        let after = self.engine.settings().await.map(|it| it.value).unwrap_or_default();
        let settled = Settled { before, after };
        let actions = describe::settings(&self.who, &told, &reply.value, &settled);
        self.keep(self.audit.append(actions).await);
        Ok(reply)
    }

    async fn recorded(&self, batch: Vec<RecordOp>) -> Result<Stamped<Vec<Item<RecordReply>>>> {
        batch.iter().try_for_each(reserved::check)?;
        let told = describe::written(&batch);
        let mut before = Vec::new();
        if !told.is_empty() {
            let look = told.iter().map(|write| RecordOp::Get { key: write.key.clone() });
            before = self.engine.records(look.collect()).await?.value;
        }
        let lists_audit: Vec<bool> = batch.iter().map(reserved::lists_audit).collect();
        let mut reply = self.engine.records(batch).await?;
        for (answer, lists_audit) in reply.value.iter_mut().zip(lists_audit) {
            reserved::hide(answer, lists_audit);
        }
        let actions = describe::writes(&self.who, told, before, &reply.value);
        self.keep(self.audit.append(actions).await);
        Ok(reply)
    }
}

impl Hot for Audited {
    windlass_core::pass_on!(engine: capabilities, enqueue, open_session, heartbeat, close_session, claim, wait, settle, update);
}

impl Admin for Audited {
    windlass_core::pass_on!(engine: get, list, stats, sessions, settings, health);

    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        Box::pin(self.changed(batch))
    }

    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>> {
        Box::pin(self.configured(batch))
    }

    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        Box::pin(self.recorded(batch))
    }
}

impl Maintain for Audited {
    /// Services of workers elsewhere do this many times a second: told once an hour.
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

    /// Looking is not told; mending is.
    fn check(&self, repair: bool) -> Answer<'_, CheckReport> {
        Box::pin(async move {
            let reply = self.engine.check(repair).await?;
            if repair {
                self.tell("store.repair", "store").await;
            }
            Ok(reply)
        })
    }
}
