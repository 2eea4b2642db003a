//! Jobs that lead to others: created in one step with the completion of the first, so that a chain never
//! breaks in between, and no link is made twice.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::{Ctx, Data, Job, JobId, Stop};

#[derive(Job, Serialize, Deserialize)]
struct Order {
    number: u32,
}

#[derive(Job, Serialize, Deserialize)]
struct Invoice {
    order: u32,
}

#[derive(Job, Serialize, Deserialize)]
struct Mail {
    text: String,
}

async fn order(job: Order, ctx: Ctx) -> Result<(), Stop> {
    println!("order {}", job.number);
    ctx.follow_up_with(&Invoice { order: job.number })?;
    // Both or neither: an attempt that fails from here on creates nothing.
    Ok(())
}

async fn invoice(job: Invoice, ctx: Ctx) -> Result<(), Stop> {
    println!("invoice for order {}", job.order);
    ctx.follow_up_with(&Mail { text: format!("please pay for order {}", job.order) })?;
    Ok(())
}

async fn mail(job: Mail, Data(sent): Data<mpsc::Sender<JobId>>, ctx: Ctx) -> Result<(), Stop> {
    println!("mail: {}", job.text);
    Ok(sent.send(ctx.id()).await?)
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::connect("memory:").await?;
    let (sent, mut mails) = mpsc::channel::<JobId>(1);
    let worker = client.worker().data(sent).handle(order).handle(invoice).handle(mail);
    let worker = worker.build()?.start();

    let first = client.enqueue(Order { number: 7 }).await?;
    let mut id = mails.recv().await;

    // Every link knows its parent.
    let mut chain = Vec::new();
    while let Some(job) = id {
        let Some(job) = client.get(job).await? else { break };
        chain.push(job.header.kind.to_string());
        id = job.header.parent;
    }
    println!("{}", chain.join(" <- "));
    first.wait().await?;

    worker.drain().await;
    Ok(())
}
