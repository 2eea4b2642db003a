//! A handler with steps: an order that is charged once, waits for an approval without a slot, and is packed by two children.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{Ctx, Job, NewJob, Raw, Signal, Stop};

#[derive(Job, Serialize, Deserialize)]
#[job(output = String)]
struct Order {
    cents: u64,
}

async fn order(job: Order, ctx: Ctx) -> Result<String, Stop> {
    // Whatever happens to this process, the card is charged once.
    let charge: String = ctx
        .step("charge", async || {
            println!("charging {} cents", job.cents);
            Ok(format!("ch-{}", job.cents))
        })
        .await?;
    let approved = ctx.signal("approved", Duration::from_secs(3 * 86_400)).await?;
    let Some(approved) = approved else {
        return Err(Stop::cancel("no approval within three days"));
    };
    println!("approved: {}", approved.payload.unwrap_or_default());
    let parcels = ctx.children("pack", [NewJob::new("pack"), NewJob::new("pack")]).await?;
    Ok(format!("{charge}, {} parcels", parcels.len()))
}

async fn pack(_: Raw) {
    println!("packing a parcel");
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::connect("memory:").await?;
    let worker = client.worker().handle(order).handle_kind("pack", pack).build()?.start();
    let order = client.enqueue(Order { cents: 990 }).await?;
    let approval = Signal::new("approved").json(r#"{"by":"eve"}"#).id("form-17");
    client.signal(order.id(), approval).await?;
    println!("{}", order.wait().await?);
    worker.drain().await;
    Ok(())
}
