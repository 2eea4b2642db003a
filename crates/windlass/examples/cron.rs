//! A job that comes again and again. However many processes schedule it, each fire happens once.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::policy::Schedule;
use windlass::{Ctx, Data, Job, Stop, Timestamp};

#[derive(Job, Serialize, Deserialize)]
struct Report {
    title: String,
}

async fn report(
    job: Report,
    Data(done): Data<mpsc::Sender<Timestamp>>,
    ctx: Ctx,
) -> Result<(), Stop> {
    // The id of a fire says for when it is, even if it runs late or again.
    let due = ctx.id().time();
    println!("{} of second {}", job.title, due.as_millis() / 1_000 % 60);
    Ok(done.send(due).await?)
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::connect("memory:").await?;
    let (done, mut fires) = mpsc::channel::<Timestamp>(10);
    let worker = client.worker().data(done).handle(report).build()?.start();

    // Six fields: seconds first. Mostly it would be "0 6 * * *", every day at six in Berlin.
    let schedule = Schedule::cron("* * * * * *", "Europe/Berlin").limit(2);
    client.schedule("report", schedule, Report { title: "report".into() }).await?;

    let (first, second) = (fires.recv().await, fires.recv().await);
    assert!(first < second);
    let over = client.schedules().get("report").await?.is_some_and(|seen| seen.next.is_none());
    println!("over: {over}");

    worker.drain().await;
    Ok(())
}
