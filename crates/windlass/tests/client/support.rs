//! Jobs, and a hand-driven worker: what a test needs to see a job through its life.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use windlass::engine::{
    Claim, Claimant, ClaimedJob, OpenSession, Outcome, SessionId, Settle, SettleItem,
};
use windlass::model::Part;
use windlass::{Client, Job, JobId};

#[derive(Job, Serialize, Deserialize, Debug, PartialEq, Clone)]
#[job(queue = "mail", max_attempts = 3)]
pub(crate) struct SendEmail {
    pub(crate) to: String,
}

pub(crate) fn email(to: &str) -> SendEmail {
    SendEmail { to: to.to_owned() }
}

/// A value that JSON cannot hold: its keys are not text.
#[derive(Job, Deserialize)]
pub(crate) struct Unspeakable;

impl Serialize for Unspeakable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("there are no words"))
    }
}

/// A worker that executes one call at a time, on request.
pub(crate) struct Hand {
    client: Client,
    session: SessionId,
    claims: AtomicU64,
}

impl Hand {
    pub(crate) async fn of(client: &Client) -> Self {
        let session = client.engine().open_session(OpenSession::new("hand")).await.unwrap();
        Self { client: client.clone(), session: session.value.id, claims: AtomicU64::new(0) }
    }

    pub(crate) async fn claim(&self, queue: &str) -> Vec<ClaimedJob> {
        let claim_no = self.claims.fetch_add(1, Ordering::SeqCst) + 1;
        let by = Claimant::Session { session: self.session.clone(), claim_no };
        self.client.engine().claim(Claim::new(by, queue, 1_000)).await.unwrap().value.jobs
    }

    pub(crate) async fn settle(&self, job: &ClaimedJob, outcome: Outcome) {
        let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
        let reply = self.client.engine().settle(Settle::new([item])).await.unwrap();
        reply.value.items.into_iter().for_each(|item| drop(item.unwrap()));
    }

    /// Claims the only job there is and settles it.
    pub(crate) async fn finish(&self, queue: &str, outcome: Outcome) -> JobId {
        let claimed = self.claim(queue).await;
        assert_eq!(claimed.len(), 1);
        self.settle(&claimed[0], outcome).await;
        claimed[0].header.id
    }
}

/// Completed with this JSON as result.
pub(crate) fn done(result: &str) -> Outcome {
    Outcome::Complete { result: Some(Part::new(result.to_owned())) }
}
