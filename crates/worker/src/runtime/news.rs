//! Progress and log lines: collected from running handlers and sent in batches, always before the outcome of
//! their job, because the store refuses them afterwards.

use super::Runtime;
use super::calls::Reply;
use super::settles::{Report, holds};
use crate::options::NEWS_EVERY;
use crate::outage::is_transient;
use crate::running::Running;
use crate::signal::Cause;
use std::sync::Arc;
use tokio::time::Instant;
use windlass_core::engine::{Item, Update, UpdateItem, Updated};
use windlass_core::{Error, Result};

/// Maximum number of jobs per update, because each may carry 100 log lines.
const NEWS_BATCH_MAX: usize = 500;

/// One job's progress and log lines in flight.
pub(super) type Sent = (Arc<Running>, UpdateItem);

#[derive(Default)]
pub(super) struct News {
    /// Jobs with unsent progress or log lines.
    from: Vec<Arc<Running>>,
    /// Outcomes held back until their progress and log lines have been stored.
    deferred: Vec<Report>,
    send_at: Option<Instant>,
    under_way: bool,
}

impl News {
    pub(super) const fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Whether a report that stops starts is held back.
    pub(super) fn any_hold(&self) -> bool {
        holds(&self.deferred) > 0
    }

    pub(super) fn alarm_at(&self) -> Option<Instant> {
        self.send_at.filter(|_| !self.under_way)
    }

    /// Holds an outcome back until its progress and log lines have been stored, and makes those due now.
    pub(super) fn defer(&mut self, report: Report) {
        self.from.push(report.running.clone());
        self.deferred.push(report);
        self.send_at = Some(Instant::now());
    }
}

impl Runtime {
    /// Sends progress and log lines when they are due.
    pub(super) fn send_news(&mut self) {
        let fresh = self.shared.inbox.take_news();
        if !fresh.is_empty() {
            self.news.from.extend(fresh);
            self.news.send_at.get_or_insert_with(|| Instant::now() + NEWS_EVERY);
        }
        let due = self.news.send_at.is_some_and(|at| at <= Instant::now());
        if !due || self.news.under_way {
            return;
        }
        let count = self.news.from.len().min(NEWS_BATCH_MAX);
        let sent: Vec<Sent> = self
            .news
            .from
            .drain(..count)
            .filter_map(|running| {
                let item = UpdateItem::new(running.header.id, running.lease.clone());
                let item = running.drafted(|draft| draft.take_news(item))??;
                Some((running, item))
            })
            .collect();
        if self.news.from.is_empty() {
            self.news.send_at = None;
        }
        if sent.is_empty() {
            return self.settle_deferred();
        }
        self.news.under_way = true;
        let update = Update::new(sent.iter().map(|(_, item)| item.clone()));
        let reply = move |answer| Reply::Updated { sent, answer };
        self.call("update", move |engine| engine.update(update), reply);
    }

    pub(super) fn update_answered(&mut self, sent: Vec<Sent>, answer: Result<Vec<Item<Updated>>>) {
        self.news.under_way = false;
        match answer {
            Ok(items) => {
                self.answered();
                let mut items = items.into_iter();
                for (running, item) in sent {
                    let none = || Err(crate::outage::unanswered("an update without an answer"));
                    self.judge_news(running, item, items.next().unwrap_or_else(none));
                }
            }
            Err(error) => {
                for (running, item) in sent {
                    self.judge_news(running, item, Err(error.clone()));
                }
                self.unanswered(&error);
            }
        }
        self.settle_deferred();
    }

    fn judge_news(&mut self, running: Arc<Running>, item: UpdateItem, answer: Item<Updated>) {
        let returned = match answer {
            Ok(updated) => {
                if updated.cancel_requested {
                    running.signal.send(Cause::Operator);
                }
                None
            }
            Err(error) if is_transient(&error) => Some(item),
            Err(error) => {
                if matches!(error, Error::LeaseLost { .. }) {
                    running.signal.send(Cause::LeaseLost);
                }
                // Refused progress must not fail the job; if something is wrong, settling its outcome reports
                // it.
                tracing::debug!(parent: &running.span, %error, "progress was refused");
                None
            }
        };
        let again = returned.is_some();
        running.draft(|draft| draft.news_answered(returned));
        if again {
            self.news.from.push(running);
            self.news.send_at = Some(Instant::now());
        }
    }

    /// Queues outcomes whose progress and log lines have been stored.
    fn settle_deferred(&mut self) {
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.news.deferred)
            .into_iter()
            .partition(|report| report.running.drafted(|draft| draft.is_clean()).unwrap_or(true));
        self.news.deferred = waiting;
        for report in ready {
            self.report_at_last(report);
        }
    }
}
