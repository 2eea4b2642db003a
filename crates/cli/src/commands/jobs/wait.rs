//! `windlass jobs wait`: waits until jobs have ended.

use super::list::colour;
use crate::ids::{self, IdArg};
use crate::output::{paint, print, print_json};
use crate::store::Common;
use crate::views::JobView;
use anyhow::{Result, bail};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;
use windlass::Finished;
use windlass_core::JobId;

/// Waits for all of these jobs and prints each when it has ended.
pub(in crate::commands) async fn wait(
    common: &Common,
    ids: Vec<IdArg>,
    timeout_ms: Option<u64>,
) -> Result<ExitCode> {
    let client = common.open().await?;
    let deadline = timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut all_completed = true;
    // A directory has one owner: while this command owns it, no worker can run the jobs.
    let alone = client.engine().capabilities().engine == "local";
    for id in ids::all(&client, &ids).await? {
        if alone && client.get(id).await?.is_some_and(|job| !job.state.is_terminal()) {
            bail!(
                "job {id} cannot end while this command has the store to itself: \
                 start a server for it (windlass serve), and wait again"
            );
        }
        let finished = match deadline {
            None => client.wait(id).await?,
            Some(deadline) => {
                client.wait_for(id, deadline.saturating_duration_since(Instant::now())).await?
            }
        };
        all_completed &= finished.is_completed();
        show(common, id, &finished)?;
    }
    Ok(if all_completed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(common: &Common, id: JobId, finished: &Finished) -> Result<()> {
    if common.json {
        return print_json(&JobView::from(finished.job.clone()));
    }
    let state = finished.state();
    let error = finished.error().filter(|_| !finished.is_completed());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    print(&format!("{id}  {}{error}\n", paint(state.as_str(), colour(state))))
}
