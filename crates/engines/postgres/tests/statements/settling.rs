//! Reports with a claim behind them: one round trip, two transactions.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::{OwnSchema, application, open};
use std::time::Duration;
use tokio::time::timeout;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, State};
use windlass_postgres::PostgresEngine;

/// Longer than anything here should take, and shorter than we wait for a lock.
const LONG: Duration = Duration::from_secs(8);

/// A session that holds one of three jobs.
struct Worker {
    engine: PostgresEngine,
    session: SessionId,
    held: ClaimedJob,
}

impl Worker {
    async fn new(schema: &OwnSchema) -> Self {
        let engine = open(schema).await;
        let jobs = (0..3).map(|_| NewJob::new("mail"));
        engine.enqueue(Enqueue::each(jobs)).await.unwrap();
        let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
        let by = Claimant::Session { session: session.clone(), claim_no: 1 };
        let held = engine.claim(Claim::new(by, "default", 1)).await.unwrap().value.jobs.remove(0);
        Self { engine, session, held }
    }

    /// Completes it and claims the others.
    async fn next(&self) -> windlass_core::Result<SettleReply> {
        let item = SettleItem::new(self.held.header.id, self.held.lease.clone(), Outcome::DONE);
        let by = Claimant::Session { session: self.session.clone(), claim_no: 2 };
        let request = Settle::new([item]).then(Claim::new(by, "default", 10));
        Ok(self.engine.settle(request).await?.value)
    }

    async fn state(&self, id: JobId) -> State {
        self.engine.get(Get::new([id])).await.unwrap().value[0].as_ref().unwrap().state
    }

    async fn until_completed(&self) {
        while self.state(self.held.header.id).await != State::Completed {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn assert_settled_and_claimed(reply: SettleReply) {
    assert_eq!(reply.items[0].as_ref().unwrap().state, State::Completed);
    assert_eq!(reply.claimed.unwrap().unwrap().jobs.len(), 2);
}

#[tokio::test]
async fn reports_stand_before_the_claim_behind_them_is_through() {
    let schema = OwnSchema::new();
    let (worker, mut client) = (Worker::new(&schema).await, application().await);
    let transaction = client.transaction().await.unwrap();
    let lock = format!("SELECT FROM {}.session FOR UPDATE", schema.name);
    transaction.batch_execute(&lock).await.unwrap();

    let next = worker.next();
    tokio::pin!(next);
    let completed = async {
        tokio::select! {
            reply = &mut next => panic!("the claim did not wait for its session: {reply:?}"),
            () = worker.until_completed() => {}
        }
    };
    timeout(LONG, completed).await.expect("completed, while the claim waits");

    transaction.rollback().await.unwrap();
    assert_settled_and_claimed(timeout(LONG, next).await.expect("in time").unwrap());
}

#[tokio::test]
async fn behind_reports_that_fail_nothing_is_claimed() {
    let schema = OwnSchema::new();
    let (worker, client) = (Worker::new(&schema).await, application().await);
    let name = &schema.name;
    let refuse = format!(
        "CREATE FUNCTION {name}.refuse() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON {name}.finished
            FOR EACH ROW EXECUTE FUNCTION {name}.refuse()"
    );
    client.batch_execute(&refuse).await.unwrap();

    worker.next().await.expect_err("the report cannot be stored");
    let lanes = worker.engine.stats(StatsRequest::default()).await.unwrap().value;
    assert_eq!((lanes[0].available, lanes[0].running), (2, 1), "as if nothing had been asked");

    let allow = format!("DROP TRIGGER refuse ON {name}.finished; DROP FUNCTION {name}.refuse()");
    client.batch_execute(&allow).await.unwrap();
    assert_settled_and_claimed(worker.next().await.expect("the same once more"));
}
