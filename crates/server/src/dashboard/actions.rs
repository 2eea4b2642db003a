//! Handlers of buttons: each makes one change and redirects to the page. The guard has verified
//! that the request is from a dashboard page.

use super::failure::{Confirm, Failure};
use super::form::Form;
use super::notice::Notice;
use super::{job_row, links};
use crate::access::Who;
use crate::app::App;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use windlass_core::engine::{Admin as _, Change, ChangeItem, Changed, Configure, Get};
use windlass_core::model::{KindPatch, Name, QueuePatch, State as JobState};
use windlass_core::{Error, JobId, Result as CoreResult};

/// The change of a form that was sent without a button of its page.
const NOTHING: &str = "nothing";
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
    let paused = paused(&change)?;
    configure(&app, &who, Configure::queue(queue, QueuePatch::paused(paused))).await?;
    let notice = if paused { Notice::QueuePaused } else { Notice::QueueResumed };
    Ok(notice.redirect(&back, 0))
}

/// `POST /kinds/{kind}/{change}`
pub(super) async fn kind(
    State(app): State<App>,
    who: Who,
    Path((kind, change)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let back = form.back().unwrap_or("/queues").to_owned();
    let paused = paused(&change)?;
    configure(&app, &who, Configure::kind(kind, KindPatch::paused(paused))).await?;
    let notice = if paused { Notice::KindPaused } else { Notice::KindResumed };
    Ok(notice.redirect(&back, 0))
}

fn paused(change: &str) -> Result<bool, Failure> {
    match change {
        "pause" => Ok(true),
        "resume" => Ok(false),
        _ => Err(unknown(change)),
    }
}

async fn configure(app: &App, who: &Who, change: Configure) -> Result<(), Failure> {
    let reply = app.call(app.acting(who).configure(vec![change])).await?;
    Ok(reply.value.into_iter().collect::<CoreResult<()>>()?)
}

/// `POST /jobs/{id}/{change}`
pub(super) async fn job(
    State(app): State<App>,
    who: Who,
    Path((id, change)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let id: JobId = id.parse().map_err(Failure::from)?;
    let page = links::job(id);
    // The page of a discarded job no longer exists.
    let gone = change == "discard";
    let back = form.back().filter(|back| !(gone && back.starts_with(&page)));
    let back = back.unwrap_or(if gone { "/jobs" } else { &page });
    let (notice, replies) = apply(&app, &who, &change, &[id], &form).await?;
    match replies.into_iter().next() {
        Some(Err(error)) if is_unconfirmed(&error) => {
            Err(confirmation(&app, vec![id], &form, Failure::from(error)).await?.back(back))
        }
        // If a discard is refused, the page is still there.
        Some(Err(error)) => Err(Failure::from(error).back(form.back().unwrap_or(&page))),
        Some(Ok(changed)) if is_still_running(&change, &changed) => {
            Ok(Notice::StopRequested.redirect(back, 1))
        }
        _ => Ok(notice.redirect(back, 1)),
    }
}

/// `POST /jobs/change`: one change of all selected jobs.
pub(super) async fn jobs(
    State(app): State<App>,
    who: Who,
    form: Form,
) -> Result<Response, Failure> {
    let back = form.back().unwrap_or("/jobs").to_owned();
    let ids: Vec<JobId> = form.all("id").map(str::parse).collect::<Result<_, _>>()?;
    let change = form.all("change").next().unwrap_or_default();
    if change == NOTHING {
        return Ok(Notice::NothingPressed.redirect(&back, 0));
    }
    if ids.is_empty() {
        return Ok(Notice::NothingSelected.redirect(&back, 0));
    }
    let (notice, replies) = apply(&app, &who, change, &ids, &form).await?;
    let (mut unconfirmed, mut refused) = (Vec::new(), Vec::new());
    for (id, reply) in ids.iter().zip(replies) {
        match reply {
            Ok(_) => {}
            Err(error) if is_unconfirmed(&error) => unconfirmed.push(*id),
            Err(error) => refused.push(error.to_string()),
        }
    }
    let total = ids.len();
    let done = total - unconfirmed.len() - refused.len();
    if done == total {
        return Ok(notice.redirect(&back, total));
    }
    let count = unconfirmed.len();
    let mut detail = format!("{done} of {total} jobs were changed.");
    if count > 0 {
        let _ = write!(detail, " {count} are of a sensitive kind and need a confirmation.");
    }
    if !refused.is_empty() {
        let _ = write!(detail, " {} were refused:", refused.len());
    }
    let failure = Failure::new(StatusCode::CONFLICT, "Some jobs were not changed", detail)
        .lines(refused.into_iter().take(REFUSALS_MAX).collect());
    let failure = match count {
        0 => failure,
        _ => confirmation(&app, unconfirmed, &form, failure).await?,
    };
    Err(failure.back(back))
}

/// Makes one change of several jobs: the notice if all succeed, and the result for each job.
async fn apply(
    app: &App,
    who: &Who,
    change: &str,
    ids: &[JobId],
    form: &Form,
) -> Result<(Notice, Vec<CoreResult<Changed>>), Failure> {
    let (mut change, notice) = of_job(change)?;
    if let (Change::Signal(signal), Some(name)) = (&mut change, form.all("signal").next()) {
        signal.name = name.into();
    }
    // Irreversible changes require the state that the page displayed.
    let if_state = match change {
        Change::Replay(_) | Change::Discard => job_row::state(form.all("if_state").next())?,
        _ => None,
    };
    let mut items: Vec<_> = ids.iter().map(|id| ChangeItem::new(*id, change.clone())).collect();
    items.iter_mut().for_each(|item| item.if_state = if_state);
    let confirmed: Vec<Name> = form.all("confirm").map(|kind| kind.trim().into()).collect();
    if !confirmed.is_empty() {
        confirm(app, &mut items, &confirmed).await?;
    }
    let reply = app.call(app.acting(who).change(items)).await?;
    Ok((notice, reply.value))
}

/// Gives each replay the confirmation of its own kind, if there is one.
async fn confirm(app: &App, items: &mut [ChangeItem], confirmed: &[Name]) -> Result<(), Failure> {
    let found = app.call(app.engine.get(Get::new(items.iter().map(|item| item.id)))).await?;
    for (item, job) in items.iter_mut().zip(found.value) {
        if let (Change::Replay(edits), Some(job)) = (&mut item.change, job) {
            edits.confirm = confirmed.iter().find(|kind| **kind == job.header.kind).cloned();
        }
    }
    Ok(())
}

/// Adds a form to an error page that asks for the names of the sensitive kinds of these jobs.
async fn confirmation(
    app: &App,
    ids: Vec<JobId>,
    form: &Form,
    failure: Failure,
) -> Result<Failure, Failure> {
    let found = app.call(app.engine.get(Get::new(ids.clone()))).await?;
    let kinds: BTreeSet<Name> =
        found.value.into_iter().flatten().map(|job| job.header.kind).collect();
    let if_state = job_row::state(form.all("if_state").next())?;
    Ok(failure.confirm(Confirm { ids, kinds: kinds.into_iter().collect(), if_state }))
}

fn is_unconfirmed(error: &Error) -> bool {
    error.field() == Some("confirm")
}

/// Whether a cancelled job runs until its worker stops it.
fn is_still_running(change: &str, changed: &Changed) -> bool {
    change == "cancel" && changed.state == Some(JobState::Running)
}

fn of_job(change: &str) -> Result<(Change, Notice), Failure> {
    Ok(match change {
        "cancel" => (Change::Cancel, Notice::Cancelled),
        "kill" => (Change::Kill, Notice::Killed),
        "promote" => (Change::Promote, Notice::Promoted),
        "pause" => (Change::Pause, Notice::Paused),
        "resume" => (Change::Resume, Notice::Resumed),
        "signal" => (Change::signal("continue"), Notice::Signalled),
        "replay" => (Change::Replay(Box::default()), Notice::Replayed),
        "discard" => (Change::Discard, Notice::Discarded),
        _ => return Err(unknown(change)),
    })
}

fn unknown(change: &str) -> Failure {
    Failure::not_here(format!("Nothing was changed: {change:?} is not a known action."))
}
