//! Handlers of buttons: each makes one change and redirects to the page. The guard has verified
//! that the request is from a dashboard page.

use super::failure::Failure;
use super::form::Form;
use super::{job_row, links};
use crate::access::Who;
use crate::app::App;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use windlass_core::engine::{Admin as _, Change, ChangeItem, Configure, Edits};
use windlass_core::model::{KindPatch, QueuePatch};
use windlass_core::{JobId, Result as CoreResult};

/// Maximum number of refused jobs to list; the rest are only counted.
const REFUSALS_MAX: usize = 20;

/// `POST /queues/{queue}/{change}`
pub(super) async fn queue(
    State(app): State<App>,
    who: Who,
    Path((queue, change)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let back = form.back().map_or_else(|| links::queue(&queue), str::to_owned);
    let patch = QueuePatch::paused(paused(&change)?);
    configure(&app, &who, Configure::queue(queue, patch), &back).await
}

/// `POST /kinds/{kind}/{change}`
pub(super) async fn kind(
    State(app): State<App>,
    who: Who,
    Path((kind, change)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let back = form.back().unwrap_or("/queues").to_owned();
    let patch = KindPatch::paused(paused(&change)?);
    configure(&app, &who, Configure::kind(kind, patch), &back).await
}

fn paused(change: &str) -> Result<bool, Failure> {
    match change {
        "pause" => Ok(true),
        "resume" => Ok(false),
        _ => Err(unknown(change)),
    }
}

async fn configure(
    app: &App,
    who: &Who,
    change: Configure,
    back: &str,
) -> Result<Response, Failure> {
    let reply = app.call(app.acting(who).configure(vec![change])).await?;
    reply.value.into_iter().collect::<CoreResult<()>>()?;
    Ok(Redirect::to(back).into_response())
}

/// `POST /jobs/{id}/{change}`
pub(super) async fn job(
    State(app): State<App>,
    who: Who,
    Path((id, change)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let id: JobId = id.parse().map_err(Failure::from)?;
    let discards = change == "discard";
    let item = item(id, of_job(&change, &form)?, &form)?;
    let reply = app.call(app.acting(&who).change(vec![item])).await?;
    let page = links::job(id);
    if let Some(error) = reply.value.into_iter().find_map(Result::err) {
        let unconfirmed = error.field() == Some("confirm");
        let failure = Failure::from(error).back(form.back().unwrap_or(&page));
        return Err(match unconfirmed {
            true => failure.confirm_at(format!("{page}/replay")),
            false => failure,
        });
    }
    // The page of a discarded job no longer exists.
    let back = form.back().filter(|back| !(discards && back.starts_with(&page)));
    let otherwise = if discards { "/jobs" } else { &page };
    Ok(Redirect::to(back.unwrap_or(otherwise)).into_response())
}

/// `POST /jobs/change`: one change of all selected jobs.
pub(super) async fn jobs(
    State(app): State<App>,
    who: Who,
    form: Form,
) -> Result<Response, Failure> {
    let back = form.back().unwrap_or("/jobs").to_owned();
    let change = of_job(form.all("change").next().unwrap_or_default(), &form)?;
    let ids: Vec<JobId> = form.all("id").map(str::parse).collect::<Result<_, _>>()?;
    if ids.is_empty() {
        let detail = "Nothing was changed: no job was selected. Tick the jobs first.";
        let failure = Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Nothing selected", detail);
        return Err(failure.back(back));
    }
    let items = ids.iter().map(|id| item(*id, change.clone(), &form)).collect::<Result<_, _>>()?;
    let reply = app.call(app.acting(&who).change(items)).await?;
    let refused: Vec<String> =
        reply.value.into_iter().filter_map(|answer| Some(answer.err()?.to_string())).collect();
    if refused.is_empty() {
        return Ok(Redirect::to(&back).into_response());
    }
    let (total, count) = (ids.len(), refused.len());
    let detail = format!("{} of {total} jobs were changed; {count} were not:", total - count);
    let failure = Failure::new(StatusCode::CONFLICT, "Some jobs were not changed", detail);
    Err(failure.lines(refused.into_iter().take(REFUSALS_MAX).collect()).back(back))
}

/// The change requested by a page. Irreversible changes require the state that the page displayed.
fn item(id: JobId, change: Change, form: &Form) -> Result<ChangeItem, Failure> {
    let mut item = ChangeItem::new(id, change);
    if let Change::Replay(_) | Change::Discard = item.change {
        item.if_state = job_row::state(form.all("if_state").next())?;
    }
    Ok(item)
}

fn of_job(change: &str, form: &Form) -> Result<Change, Failure> {
    Ok(match change {
        "cancel" => Change::Cancel,
        "kill" => Change::Kill,
        "promote" => Change::Promote,
        "pause" => Change::Pause,
        "resume" => Change::Resume,
        "signal" => Change::Signal,
        "replay" => {
            let mut edits = Edits::default();
            edits.confirm = form.all("confirm").next().map(Into::into);
            Change::Replay(Box::new(edits))
        }
        "discard" => Change::Discard,
        _ => return Err(unknown(change)),
    })
}

fn unknown(change: &str) -> Failure {
    Failure::not_here(format!("Nothing was changed: {change:?} is not a known action."))
}
