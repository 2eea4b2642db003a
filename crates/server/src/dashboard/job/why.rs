//! Explains the state of a job in one sentence.

use windlass_core::engine::{Gate, LaneStats, SessionInfo};
use windlass_core::model::{Finish, Job, State as JobState};

/// Explains the state of a job; `None` if the state needs no explanation.
pub(super) fn why(job: &Job, lane: Option<&LaneStats>, sessions: &[SessionInfo]) -> Option<String> {
    let gate = lane.and_then(|lane| lane.gate);
    let text = match job.state {
        JobState::Scheduled if job.header.counters.failures > 0 => {
            "It failed, and waits for its next attempt.".to_owned()
        }
        JobState::Scheduled => "It waits for its due time.".to_owned(),
        JobState::Blocked if !job.limits.is_empty() => {
            format!("It is due, and waits for the limit {}.", job.limits.join(", "))
        }
        JobState::Blocked => match &job.header.key {
            Some(key) => {
                format!(
                    "It is due, and waits for earlier jobs with the key {key:?}, or for a signal."
                )
            }
            None => "It is due, and waits for a signal.".to_owned(),
        },
        JobState::Available => match gate {
            Some(Gate::QueuePaused) => "It is ready, but its queue is paused.".to_owned(),
            Some(Gate::KindPaused) => "It is ready, but its kind is paused.".to_owned(),
            Some(Gate::NoPermits) => {
                "It is ready, but its kind has no permits left: its circuit breaker is open."
                    .to_owned()
            }
            Some(Gate::QueueHeld) => "It is ready, but its queue is held for a time.".to_owned(),
            Some(Gate::Limited) => "It is ready, but a limit has no room.".to_owned(),
            Some(_) => "It is ready, but its lane is closed.".to_owned(),
            None if sessions.is_empty() => "It is ready, and no worker is online.".to_owned(),
            None => {
                "It is ready: the next worker that asks for its queue and kind takes it.".to_owned()
            }
        },
        JobState::Running if job.cancel_requested => {
            "Its cancellation was requested; its worker learns of it at its next heartbeat."
                .to_owned()
        }
        JobState::Paused => "It is paused, and runs only after it is resumed.".to_owned(),
        JobState::Running => return None,
        _ => return job.finish.as_ref().map(finish),
    };
    Some(text)
}

fn finish(finish: &Finish) -> String {
    match finish {
        Finish::Completed => "Its handler completed it.".to_owned(),
        Finish::Failed => "Its handler reported a permanent failure.".to_owned(),
        Finish::AttemptsSpent => "Its attempts are used up.".to_owned(),
        Finish::CrashesSpent => "Its workers were lost too often.".to_owned(),
        Finish::Cancelled => "It was cancelled.".to_owned(),
        Finish::ReplacedBy(id) => format!("Job {id} with the same unique key replaced it."),
        Finish::Expired => "It exceeded its maximum waiting time.".to_owned(),
        Finish::Killed => "An operator ended it as dead.".to_owned(),
        _ => "It ended.".to_owned(),
    }
}
