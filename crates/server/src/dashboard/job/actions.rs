//! The actions that are available for a job, by its state.

use windlass_core::model::{Job, Name, State as JobState};

/// An action on a job.
pub(super) struct Action {
    pub(super) change: &'static str,
    /// The name of the signal to send.
    pub(super) signal: Option<Name>,
    pub(super) label: &'static str,
    /// Whether it is the primary action.
    pub(super) main: bool,
    /// Confirmation prompt, for irreversible actions.
    pub(super) confirm: &'static str,
}

/// The actions that the state of a job allows.
pub(super) fn actions(job: &Job) -> Vec<Action> {
    use JobState as S;
    let action = |change, label| Action { change, signal: None, label, main: false, confirm: "" };
    let main = |change, label| Action { main: true, ..action(change, label) };
    let asks = |change, label, confirm| Action { confirm, ..action(change, label) };
    let pause = action("pause", "Pause");
    let cancel = asks("cancel", "Cancel", "Cancel this job? It will not run.");
    let stop = asks("cancel", "Cancel", "Ask the worker to stop this job?");
    let kill = asks("kill", "Kill", "End this job as dead? It can be replayed.");
    let discard = asks("discard", "Discard", "Discard this job permanently?");
    let wait = job.continuation.as_ref().and_then(|kept| kept.wait.as_ref());
    let signal = wait.map(|wait| {
        // A wait for any signal has no name to send.
        let signal = wait.signals.first().cloned().or_else(|| Some("continue".into()));
        Action { signal, ..main("signal", "Signal") }
    });
    match job.state {
        S::Scheduled => {
            let first = [main("promote", "Run now")];
            signal.into_iter().chain(first).chain([pause, cancel, kill]).collect()
        }
        S::Blocked => signal.into_iter().chain([pause, cancel, kill]).collect(),
        S::Available => vec![pause, cancel, kill],
        S::Paused => vec![main("resume", "Resume"), cancel, kill],
        S::Running if job.cancel_requested => vec![],
        S::Running => vec![stop],
        S::Completed => vec![discard],
        S::Dead | S::Cancelled | S::Expired => vec![main("replay", "Replay"), discard],
        _ => vec![],
    }
}
