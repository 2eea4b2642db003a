//! Writes sessions, settings and counts.

use super::Saver;
use crate::rows::codec;
use windlass_core::model::{KindSettings, Name, Order, QueueSettings};
use windlass_core::policy::allowance;
use windlass_core::{Result, Timestamp};

impl Saver<'_> {
    pub(super) fn settings(&mut self) -> Result<()> {
        self.sessions()?;
        for (queue, settings) in self.set.changed_queues() {
            self.queue(queue, settings)?;
        }
        for (kind, settings) in self.set.changed_kinds() {
            self.kind(kind, settings)?;
        }
        self.limits()
    }

    pub(super) fn kind(&mut self, kind: &Name, settings: Option<&KindSettings>) -> Result<()> {
        let name = kind.to_string();
        let Some(settings) = settings else {
            self.rows.no_kind.push(name);
            return Ok(());
        };
        let allowed = allowance(None, Some(settings), Timestamp::MAX);
        let (closed, limited) = (!allowed.is_open(), allowed.starts.is_some());
        let special = !settings.is_plain(|name| self.is_by_group(name));
        if special {
            self.rows.grouped.push(None, Some(name.clone()));
        }
        let metered = !settings.limits.is_empty();
        self.rows.kind.push(name, codec::json(settings)?, closed, limited, special, metered);
        Ok(())
    }

    fn is_by_group(&self, name: &Name) -> bool {
        self.set.all_limits().get(name).is_some_and(|limit| limit.by_group)
    }

    fn sessions(&mut self) -> Result<()> {
        for (id, session) in self.set.changed_sessions() {
            match session {
                None => self.rows.no_session.push(id.to_string()),
                Some(session) => self.rows.session.push(
                    id.to_string(),
                    session.worker.clone(),
                    session.opened_at.as_millis(),
                    session.ttl_ms.cast_signed(),
                    session.expires_at.as_millis(),
                    session.alone,
                    session.remote,
                    codec::to_text(&session.info)?,
                ),
            }
        }
        Ok(())
    }

    pub(super) fn queue(&mut self, queue: &Name, settings: Option<&QueueSettings>) -> Result<()> {
        let ages =
            |settings: Option<&QueueSettings>| settings.is_some_and(|s| s.max_wait_ms.is_some());
        let before = self.set.base().settings_of(queue);
        match (ages(Some(&before)), ages(settings)) {
            (false, true) => self.rows.ages_begin.push(queue.to_string()),
            (true, false) => self.rows.ages_end.push(queue.to_string()),
            _ => {}
        }
        match settings {
            None => self.rows.no_queue.push(queue.to_string()),
            Some(settings) => {
                let limited = settings.max_depth.is_some();
                let special = !settings.is_plain(|name| self.is_by_group(name));
                let fair = settings.order == Order::Fair;
                let (name, text) = (queue.to_string(), codec::json(settings)?);
                let closed = !allowance(Some(settings), None, Timestamp::MAX).is_open();
                let grouped = settings.limits.iter().any(|name| self.is_by_group(name));
                if grouped {
                    self.rows.grouped.push(Some(name.clone()), None);
                }
                let held = settings.held_until.is_some();
                let metered = !settings.limits.is_empty() || held;
                let recorded = settings.events.is_some();
                let gated = metered && !grouped && !held && !recorded;
                self.rows
                    .queue
                    .push(name, text, closed, limited, special, metered, gated, fair, recorded);
            }
        }
        Ok(())
    }
}
