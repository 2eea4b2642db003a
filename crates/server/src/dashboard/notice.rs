//! The message after an action: what it did. The action passes its name and a count in the URL of
//! the page that it redirects to, so that the server keeps no state, and a link to the dashboard
//! cannot show a text of its own.

use super::links;
use super::visit::Visit;
use axum::response::{IntoResponse as _, Redirect, Response};

/// Parameters of the URL; the script removes them from the address bar.
const PARAMS: [&str; 2] = ["notice", "count"];

/// An action that was done, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    QueuePaused,
    QueueResumed,
    KindPaused,
    KindResumed,
    Cancelled,
    /// The worker of a running job was asked to stop it.
    StopRequested,
    Killed,
    Promoted,
    Paused,
    Resumed,
    Signalled,
    Replayed,
    Discarded,
    /// A change of all jobs that match a filter has begun.
    BulkStarted,
    BulkCancelled,
    /// A button for selected jobs was pressed, and none was selected.
    NothingSelected,
    /// A form was sent by the keyboard, without any of its buttons.
    NothingPressed,
}

impl Notice {
    const ALL: [Self; 17] = [
        Self::QueuePaused,
        Self::QueueResumed,
        Self::KindPaused,
        Self::KindResumed,
        Self::Cancelled,
        Self::StopRequested,
        Self::Killed,
        Self::Promoted,
        Self::Paused,
        Self::Resumed,
        Self::Signalled,
        Self::Replayed,
        Self::Discarded,
        Self::BulkStarted,
        Self::BulkCancelled,
        Self::NothingSelected,
        Self::NothingPressed,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::QueuePaused => "queue-paused",
            Self::QueueResumed => "queue-resumed",
            Self::KindPaused => "kind-paused",
            Self::KindResumed => "kind-resumed",
            Self::Cancelled => "cancelled",
            Self::StopRequested => "stop-requested",
            Self::Killed => "killed",
            Self::Promoted => "promoted",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Signalled => "signalled",
            Self::Replayed => "replayed",
            Self::Discarded => "discarded",
            Self::BulkStarted => "bulk-started",
            Self::BulkCancelled => "bulk-cancelled",
            Self::NothingSelected => "nothing-selected",
            Self::NothingPressed => "nothing-pressed",
        }
    }

    fn text(self, count: u64) -> String {
        let verb = match self {
            Self::QueuePaused => {
                return "Paused the queue: its jobs wait until it is resumed.".into();
            }
            Self::QueueResumed => return "Resumed the queue.".into(),
            Self::KindPaused => {
                return "Paused the kind in all queues: its jobs wait until it is resumed.".into();
            }
            Self::KindResumed => return "Resumed the kind.".into(),
            Self::BulkStarted => return "Started: this page shows the progress.".into(),
            Self::BulkCancelled => return "Stopped the operation.".into(),
            Self::NothingSelected => return "No job was selected: tick the jobs first.".into(),
            Self::NothingPressed => return "Nothing was changed: press one of the buttons.".into(),
            Self::StopRequested => "Asked the worker to stop",
            Self::Cancelled => "Cancelled",
            Self::Killed => "Ended as dead:",
            Self::Promoted => "Made due now:",
            Self::Paused => "Paused",
            Self::Resumed => "Resumed",
            Self::Signalled => "Sent a signal to",
            Self::Replayed => "Replayed",
            Self::Discarded => "Discarded",
        };
        match count {
            1 => format!("{verb} 1 job."),
            count => format!("{verb} {count} jobs."),
        }
    }

    /// Redirects to a page that shows the notice, if it is about jobs: about `count` of them.
    pub(super) fn redirect(self, to: &str, count: usize) -> Response {
        let counted = count.to_string();
        let counted = (count > 0).then_some(&*counted);
        let params = PARAMS.into_iter().zip([Some(self.name()), counted]);
        Redirect::to(&links::with(to, &params.collect::<Vec<_>>())).into_response()
    }

    /// The text to show on a page, if its URL names a notice.
    pub(super) fn of(visit: &Visit) -> Option<String> {
        let [name, count] = PARAMS.map(|param| visit.param(param));
        let known = Self::ALL.into_iter().find(|notice| Some(notice.name()) == name)?;
        Some(known.text(count.and_then(|count| count.parse().ok()).unwrap_or(1)))
    }
}

/// A URL without the parameters of a notice.
pub(super) fn without(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let is_other = |pair: &&str| !PARAMS.contains(&pair.split('=').next().unwrap_or_default());
    let kept: Vec<_> = query.split('&').filter(is_other).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_to_return_to_has_no_notice_of_an_earlier_action() {
        assert_eq!(without("/dead?notice=replayed&count=3"), "/dead");
        assert_eq!(
            without("/dead?queue=a&notice=replayed&count=3&after=x"),
            "/dead?queue=a&after=x"
        );
        assert_eq!(without("/jobs?noticed=1"), "/jobs?noticed=1");
        assert_eq!(without("/"), "/");
    }

    #[test]
    fn every_notice_has_its_own_name_and_counts_jobs() {
        let names: std::collections::BTreeSet<_> = Notice::ALL.map(Notice::name).into();
        assert_eq!(names.len(), Notice::ALL.len());
        assert_eq!(Notice::Replayed.text(1), "Replayed 1 job.");
        assert_eq!(Notice::Discarded.text(1_234), "Discarded 1234 jobs.");
    }
}
