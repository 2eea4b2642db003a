//! Removing ended jobs by the retention of their queue: one statement, as nothing else is concerned.

use crate::conn::Lent;
use crate::engine::PostgresEngine;
use crate::error::{Trouble, Try};
use crate::load::Loaded;
use crate::look::QUEUES;
use crate::perform::CLOCK;
use futures_util::future::try_join3;
use windlass_core::Result;
use windlass_core::engine::{MaintainReply, Tally};
use windlass_core::model::{Name, State};

const LANES: &str = "SELECT id, queue FROM {s}.lane";
const RETAIN: &str = include_str!("../../sql/retain.sql");

impl PostgresEngine {
    /// One step of it; jobs with a retention of their own are left to the executor.
    pub(crate) async fn retain_hot(&self, budget: u32) -> Result<MaintainReply> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::told)?;
        match self.retain_on(&conn, budget).await {
            Ok(reply) => {
                conn.give_back();
                Ok(reply)
            }
            Err(trouble) => {
                let nothing = self.after_trouble(conn, trouble).await?;
                Ok(nothing.unwrap_or_default())
            }
        }
    }

    async fn retain_on(&self, conn: &Lent, budget: u32) -> Try<MaintainReply> {
        conn.prepare(&[CLOCK, LANES, QUEUES]).await?;
        let (clock, lanes, queues) =
            try_join3(conn.query(CLOCK, &[]), conn.query(LANES, &[]), conn.query(QUEUES, &[]))
                .await?;
        let now = self.inner.shared.now_in(&clock);
        let mut loaded = Loaded::default();
        loaded.add_settings((queues, Vec::new(), Vec::new()))?;
        let (mut numbers, mut states, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for row in &lanes {
            let retention = loaded.settings_of(&row.get::<_, &str>(1).into()).retention;
            for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
                numbers.push(row.get::<_, i32>(0));
                states.push(state as i16);
                ended.push(now.minus(retention.of(state)).as_millis());
            }
        }
        let limit = i64::from(budget);
        let gone = conn.query(RETAIN, &[&numbers, &states, &ended, &limit]).await?;
        let mut reply = MaintainReply::default();
        for row in &gone {
            let queue: Name = row.get::<_, &str>(0).into();
            let from = crate::codec::state(row.get(1))?;
            let count = row.get::<_, i64>(2).max(0).cast_unsigned();
            reply.done += u32::try_from(count).unwrap_or(u32::MAX);
            reply.tallies.push(Tally { queue, from, to: None, count });
        }
        Ok(reply)
    }
}
