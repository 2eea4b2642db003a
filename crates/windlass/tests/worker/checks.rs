//! Checks of completed jobs, by workers on a store of their own.

use crate::support::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use windlass::model::{CheckRule, KindRules};
use windlass::services::Kinds;
use windlass::{Ctx, Data, Job, JobId, State, Stop};

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "invoice", output = u32)]
struct Invoice {
    number: u32,
}

/// Stores the wrong invoice now and then.
async fn invoice(job: Invoice) -> Result<u32, Stop> {
    Ok(if job.number.is_multiple_of(10) { 0 } else { job.number })
}

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "verify_invoice", queue = "checks")]
struct VerifyInvoice {
    number: u32,
}

type Seen = Arc<Mutex<Vec<JobId>>>;

async fn verify(job: VerifyInvoice, Data(seen): Data<Seen>, ctx: Ctx) -> Result<(), Stop> {
    let inputs = ctx.inputs().await?;
    let checked = inputs.first().ok_or_else(|| Stop::fatal("not a check"))?;
    let result = checked.result.as_ref().ok_or_else(|| Stop::fatal("no result"))?;
    seen.lock().unwrap().push(checked.job);
    let stored: u32 = serde_json::from_slice(&result.bytes)?;
    match stored == job.number {
        true => Ok(()),
        false => Err(Stop::fatal(format!("job {} stored invoice {stored}", checked.job))),
    }
}

#[tokio::test]
async fn a_worker_checks_a_sample_of_the_jobs_that_it_completes() {
    for (client, _dir) in stores().await {
        let rule = CheckRule::new("verify_invoice").queue("checks").per_mille(300);
        let mut rules = KindRules::default();
        rules.check = Some(rule.clone());
        Kinds::new(client.engine().clone()).put("invoice", &rules).await.unwrap();
        let mut wrong = BTreeSet::new();
        let mut sample = BTreeSet::new();
        for number in 1..=200 {
            let id = client.enqueue(Invoice { number }).await.unwrap().id();
            if rule.samples(id) {
                sample.insert(id);
                wrong.extend(number.is_multiple_of(10).then_some(id));
            }
        }
        let seen = Seen::default();
        let worker = client.worker().data(seen.clone()).handle(invoice).handle(verify);
        let worker = worker.build().unwrap().start();
        let over = async || (seen.lock().unwrap().len() >= sample.len()).then_some(());
        eventually("all checks", over).await;
        worker.drain().await;
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.len(), sample.len(), "once each");
        assert_eq!(BTreeSet::from_iter(seen), sample);
        let dead =
            client.jobs().of_kind("verify_invoice").in_state(State::Dead).page().await.unwrap();
        let dead = dead.rows.iter().filter_map(|job| job.header.parent);
        assert_eq!(dead.collect::<BTreeSet<_>>(), wrong, "failures are dead jobs");
    }
}
