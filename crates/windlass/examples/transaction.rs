//! An order, its job, and the job's own writes: each in one transaction with the rest.
//!
//! Needs PostgreSQL: `DATABASE_URL=postgres://… cargo run --example transaction --features postgres`.

use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, NoTls};
use windlass::postgres::Jobs;
use windlass::{Ctx, Job, Stop};

#[derive(Job, Serialize, Deserialize)]
struct SendInvoice {
    order: i64,
}

const SCHEMA: &str = "windlass_example_transaction";

async fn connect() -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    let url = std::env::var("DATABASE_URL")?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The row and the completion are committed together, so the row is written exactly once.
async fn send_invoice(job: SendInvoice, ctx: Ctx) -> Result<(), Stop> {
    let mut client = connect().await?;
    let mut transaction = client.transaction().await?;
    let insert = format!("INSERT INTO {SCHEMA}.invoices (order_id) VALUES ($1)");
    transaction.execute(&insert, &[&job.order]).await?;
    Jobs::in_schema(SCHEMA)?.complete(&mut transaction, &ctx, &"sent").await?;
    transaction.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let url = std::env::var("DATABASE_URL")?;
    let windlass = windlass::connect(&format!("{url}?schema={SCHEMA}")).await?;
    let mut client = connect().await?;
    let tables = format!(
        "CREATE TABLE {SCHEMA}.orders (id bigint PRIMARY KEY);
        CREATE TABLE {SCHEMA}.invoices (order_id bigint NOT NULL)"
    );
    client.batch_execute(&tables).await?;

    // An order that is rolled back leaves no job, and one that is committed has exactly one.
    let jobs = Jobs::in_schema(SCHEMA)?;
    let insert = format!("INSERT INTO {SCHEMA}.orders (id) VALUES ($1)");
    let mut last = None;
    for (order, commits) in [(41_i64, false), (42, true)] {
        let mut transaction = client.transaction().await?;
        transaction.execute(&insert, &[&order]).await?;
        let job = windlass::job(SendInvoice { order }).unique(format!("invoice:{order}"));
        let job = jobs.enqueue(&mut transaction, job).await?;
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        last = Some(job.id);
    }

    let worker = windlass.worker().handle(send_invoice).build()?.start();
    if let Some(id) = last {
        let sent: String = windlass.wait(id).await?.result()?;
        let invoices = format!("SELECT order_id FROM {SCHEMA}.invoices");
        let invoices: Vec<i64> =
            client.query(&invoices, &[]).await?.iter().map(|row| row.get(0)).collect();
        println!("{sent}: {invoices:?}");
    }
    worker.drain().await;
    client.batch_execute(&format!("DROP SCHEMA {SCHEMA} CASCADE")).await?;
    Ok(())
}
