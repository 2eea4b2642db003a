//! The words of an explanation, the same in the API, the command line and the dashboard.
//!
//! Sentences contain no times: each surface shows `since` and `until` in its own format.

use super::{Cause, CauseCode, Explanation};
use crate::model::{Finish, State};

/// The signals that a job waits for.
fn signal(cause: &Cause) -> String {
    match &*cause.signals {
        [] => "The job waits for a signal.".to_owned(),
        [name] => format!("The job waits for signal {name}."),
        names => format!("The job waits for one of the signals {}.", names.join(", ")),
    }
}

impl Explanation {
    /// Describes a cause in one or two sentences.
    pub fn message(&self, cause: &Cause) -> String {
        let Self { id: _, queue, kind, state: _, causes: _ } = self;
        match cause.code {
            CauseCode::JobPaused => "The job is paused.".to_owned(),
            CauseCode::NotDue if cause.error.is_some() => {
                "The job failed, and its next attempt is not due yet.".to_owned()
            }
            CauseCode::NotDue => "The job is not due yet.".to_owned(),
            CauseCode::NotPromoted => {
                "The job is due, and no service has promoted it yet.".to_owned()
            }
            CauseCode::Signal => signal(cause),
            CauseCode::Dependency => dependency(cause),
            CauseCode::Key => key(cause),
            CauseCode::Limit => limit(cause),
            CauseCode::LimitHeld => format!("A report of a worker holds {}.", limit_name(cause)),
            CauseCode::QueuePaused => format!("Queue {queue} is paused."),
            CauseCode::QueueHeld => format!("A report of a worker holds queue {queue}."),
            CauseCode::KindPaused => format!("Kind {kind} is paused."),
            CauseCode::Permits => match cause.permits.unwrap_or(0) {
                0 => format!("Kind {kind} has no permits left: none of its jobs may start."),
                permits => format!(
                    "Kind {kind} has {} left, and {}.",
                    counted(permits.into(), "permit"),
                    ahead(cause)
                ),
            },
            CauseCode::BreakerOpen => format!(
                "The circuit breaker of kind {kind} is open, because too many of its attempts failed."
            ),
            CauseCode::NoWorker => match cause.workers.unwrap_or(0) {
                0 => format!("No worker with an open session serves queue {queue}."),
                1 => {
                    format!("1 worker serves queue {queue}, and it has no handler for kind {kind}.")
                }
                workers => format!(
                    "{workers} workers serve queue {queue}, and none of them has a handler for kind {kind}."
                ),
            },
            CauseCode::InLine => in_line(cause),
            CauseCode::Running => running(cause),
            CauseCode::Ended => ended(cause).to_owned(),
        }
    }

    /// What to do about a cause.
    pub fn way_out(&self, cause: &Cause) -> String {
        let Self { id, queue, kind, state, causes: _ } = self;
        match cause.code {
            CauseCode::JobPaused => format!("Resume it: windlass jobs resume {id}"),
            CauseCode::NotDue => {
                format!("Wait, or make it due now: windlass jobs promote {id}")
            }
            CauseCode::NotPromoted => {
                "Every worker and server runs the services that promote jobs: start one if none runs."
                    .to_owned()
            }
            CauseCode::Signal => {
                let name = cause.signals.first().map_or("NAME", |name| &**name);
                format!("Send the signal: windlass jobs signal {id} {name}")
            }
            CauseCode::Dependency => match cause.holder {
                Some(job) => format!("Find out why that job has not ended: windlass jobs why {job}"),
                None => "Wait: the job is released by the next maintenance step.".to_owned(),
            },
            CauseCode::Key => match cause.holder {
                Some(holder) => format!(
                    "Jobs with the same key run one at a time, in the order in which they were enqueued. Find out why that job has not ended: windlass jobs why {holder}"
                ),
                None => "Wait: the key is passed on by the next step.".to_owned(),
            },
            CauseCode::Limit => match &cause.limit {
                Some(limit) => {
                    format!("Wait, or raise the limit: windlass limits show {limit}")
                }
                None => "Wait, or raise the limit.".to_owned(),
            },
            CauseCode::LimitHeld | CauseCode::QueueHeld => {
                "Wait until the hold ends. Handlers set it, for example when a service asks them to retry later."
                    .to_owned()
            }
            CauseCode::QueuePaused => format!("Resume it: windlass queues resume {queue}"),
            CauseCode::KindPaused => format!("Resume it: windlass kinds resume {kind}"),
            CauseCode::Permits => {
                format!("Remove the limit: windlass kinds set {kind} --permits none")
            }
            CauseCode::BreakerOpen => format!(
                "Fix the errors of this kind. The next probe that succeeds closes the breaker: windlass kinds show {kind}"
            ),
            CauseCode::NoWorker => {
                "Start a worker for this queue and kind. Workers that claim without a session are not known to the store."
                    .to_owned()
            }
            CauseCode::InLine => {
                "Wait for a worker. More workers, or a higher concurrency, shorten the wait."
                    .to_owned()
            }
            CauseCode::Running => {
                format!("Wait for its end, or ask its worker to stop it: windlass jobs cancel {id}")
            }
            CauseCode::Ended => match state {
                State::Dead | State::Cancelled | State::Expired => {
                    format!("Run it again: windlass jobs replay {id}")
                }
                _ => "Enqueue a new job to do the work again.".to_owned(),
            },
        }
    }
}

/// A number with a noun, in the plural unless it is 1.
fn counted(number: u64, noun: &str) -> String {
    counted_as(number, noun, &format!("{noun}s"))
}

fn counted_as(number: u64, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {several}"),
    }
}

fn ahead(cause: &Cause) -> String {
    let number = cause.ahead.unwrap_or(0);
    let bound = if cause.at_least { "at least " } else { "" };
    let verb = if number == 1 { "is" } else { "are" };
    format!("{bound}{} of its queue and kind {verb} ahead of it", counted(number, "ready job"))
}

fn key(cause: &Cause) -> String {
    let key = cause.key.as_deref().unwrap_or_default();
    match (cause.holder, cause.holder_state) {
        (Some(holder), Some(State::Blocked)) => {
            format!("Job {holder}, which is blocked, is ahead of it with ordering key {key:?}.")
        }
        (Some(holder), Some(state)) => {
            format!("Job {holder}, which is {state}, holds ordering key {key:?}.")
        }
        (Some(holder), None) => format!("Job {holder} holds ordering key {key:?}."),
        (None, _) => format!("The job is first in line for ordering key {key:?}."),
    }
}

fn limit_name(cause: &Cause) -> String {
    let limit = cause.limit.as_deref().unwrap_or_default();
    match cause.group.as_deref() {
        None => format!("limit {limit}"),
        Some("") => format!("limit {limit} for jobs without a group"),
        Some(group) => format!("limit {limit} for group {group:?}"),
    }
}

fn limit(cause: &Cause) -> String {
    let name = limit_name(cause);
    let (running, cost) = (cause.running.unwrap_or(0), u64::from(cause.cost.unwrap_or(1)));
    let reason = match (cause.max_running, cause.tokens) {
        (Some(max), _) if running >= u64::from(max) => {
            let verb = if max == 1 { "runs" } else { "run" };
            format!("{running} of {} {verb} under {name}.", counted(max.into(), "job"))
        }
        (_, Some(tokens)) if tokens < cost => {
            let left = counted(tokens, "token");
            format!("{name} has {left} left, and the job takes {cost}.")
        }
        _ => format!("{name} lets other jobs start first."),
    };
    let reason = capitalised(&reason);
    match cause.holder {
        Some(first) => format!("{reason} Job {first} is first in line."),
        None => reason,
    }
}

/// The text with an uppercase letter at its beginning.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

fn in_line(cause: &Cause) -> String {
    let workers = match cause.workers {
        Some(1) => " 1 worker serves it.".to_owned(),
        Some(workers) if workers > 1 => format!(" {workers} workers serve it."),
        _ => String::new(),
    };
    match cause.ahead.unwrap_or(0) {
        0 => format!(
            "The job is ready and the first of its queue and kind, and no worker has claimed it yet.{workers}"
        ),
        _ => format!("The job is ready, and {}.{workers}", ahead(cause)),
    }
}

fn running(cause: &Cause) -> String {
    let worker = cause.worker.as_deref().unwrap_or_default();
    let host = cause.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    match cause.cancel_requested {
        false => format!("Worker {worker}{host} runs the job."),
        true => format!(
            "Worker {worker}{host} runs the job. Its cancellation was requested; the worker learns of it at its next heartbeat."
        ),
    }
}

fn dependency(cause: &Cause) -> String {
    let open = counted_as(cause.dependencies.unwrap_or(0).into(), "dependency", "dependencies");
    let verb = if cause.dependencies == Some(1) { "has" } else { "have" };
    let first = match (cause.holder, cause.holder_state) {
        (Some(job), Some(state)) => format!(" The first of them is job {job}, which is {state}."),
        (Some(job), None) => format!(" The first of them is job {job}."),
        (None, _) => String::new(),
    };
    format!("{open} of the job {verb} not ended.{first}")
}

const fn ended(cause: &Cause) -> &'static str {
    match cause.finish {
        Some(Finish::Completed) => "A handler completed the job.",
        Some(Finish::Failed) => "A handler reported a permanent failure.",
        Some(Finish::AttemptsSpent) => "The attempts of the job are used up.",
        Some(Finish::CrashesSpent) => "The job lost its worker more often than allowed.",
        Some(Finish::Cancelled) => "The job was cancelled.",
        Some(Finish::ReplacedBy(_)) => "A newer job with the same unique key replaced it.",
        Some(Finish::Expired) => "The job waited longer than allowed.",
        Some(Finish::Killed) => "An operator ended the job as dead.",
        Some(Finish::Dependency(_)) => "A job that it depends on was not completed.",
        None => "The job has ended.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::JobId;
    use crate::random::Seeded;
    use crate::time::Timestamp;

    fn said(cause: Cause) -> String {
        let id = JobId::new(Timestamp::EPOCH, &Seeded::new(1));
        let why = Explanation::new(id, "q".into(), "k".into(), State::Available, vec![cause]);
        why.message(&why.causes[0])
    }

    fn cause(code: CauseCode, set: impl FnOnce(&mut Cause)) -> Cause {
        let mut cause = Cause::new(code);
        set(&mut cause);
        cause
    }

    #[test]
    fn every_cause_has_a_message_and_a_way_out() {
        let id = JobId::new(Timestamp::EPOCH, &Seeded::new(1));
        let causes = CauseCode::ALL.map(Cause::new).to_vec();
        let why = Explanation::new(id, "q".into(), "k".into(), State::Blocked, causes);
        for cause in &why.causes {
            assert!(why.message(cause).ends_with('.'), "{}", why.message(cause));
            assert!(why.way_out(cause).len() > 10, "{cause:?}");
        }
    }

    #[test]
    fn numbers_are_part_of_the_message() {
        let in_line = |ahead, at_least| {
            said(cause(CauseCode::InLine, |cause| {
                (cause.ahead, cause.at_least) = (Some(ahead), at_least);
            }))
        };
        assert!(in_line(0, false).contains("the first"));
        assert!(in_line(1, false).contains("1 ready job of its queue and kind is ahead"));
        assert!(in_line(1_000, true).contains("at least 1000 ready jobs"));
        let limit = |running, tokens| {
            said(cause(CauseCode::Limit, |cause| {
                (cause.limit, cause.group) = (Some("l".into()), Some("acme".into()));
                (cause.running, cause.max_running) = (Some(running), Some(2));
                (cause.tokens, cause.cost) = (tokens, Some(3));
            }))
        };
        assert_eq!(limit(2, None), r#"2 of 2 jobs run under limit l for group "acme"."#);
        let tokens = r#"Limit l for group "acme" has 1 token left, and the job takes 3."#;
        assert_eq!(limit(1, Some(1)), tokens);
        let permits = said(cause(CauseCode::Permits, |cause| {
            (cause.permits, cause.ahead) = (Some(1), Some(4));
        }));
        assert_eq!(
            permits,
            "Kind k has 1 permit left, and 4 ready jobs of its queue and kind are ahead of it."
        );
    }
}
