//! Claims of any kind, on the slow path.

use crate::engine::PostgresEngine;
use crate::slow::perform::{Needs, Run};
use std::time::Duration;
use windlass_core::Result;
use windlass_core::engine::{Claim, Claimed, Stamped};
use windlass_workset::{Wants, pause_ms};

/// How often a claim is repeated that took no job because all that it read went back to their lines, or because their
/// groups were locked; then after a pause each time, together a few tenths of a second.
const CLAIM_TRIES_MAX: u32 = 16;

impl PostgresEngine {
    /// Executes a claim of any kind, on the slow path. It never waits for the lock of a group: its worker may stop while
    /// the server still waits, and would then hold up the group.
    pub(crate) async fn claim_slow(&self, request: &Claim) -> Result<Stamped<Claimed>> {
        let mut tries = 0;
        let queue = request.plain().map(|plain| plain.queue);
        loop {
            let claim = |run: &mut Run<'_>, now| {
                let claimed = run.claim(request, now)?;
                let loaded = run.rows().base();
                if let Some(queue) = queue {
                    let is_slow = loaded.is_grouped(&(queue.clone(), "".into()))
                        || loaded.settings_of(queue).events.is_some();
                    self.inner.gates.note_slow(queue, is_slow);
                }
                Ok((claimed, run.rows().deferred(), loaded.skipped_groups))
            };
            let wants = Wants::of_claim(request);
            let claimed = self.perform(Needs::Written, wants, Vec::new(), claim).await;
            // It locked more jobs than it took, and other claims may have skipped them.
            self.inner.scan_cursor.forget();
            let claimed = claimed?;
            let (Claimed { jobs, .. }, deferred, skipped) = &claimed.value;
            // All jobs that it read went back to their lines, and there may be others behind them; or other
            // transactions had locked their groups.
            if !jobs.is_empty() || !(*deferred || *skipped) || tries == CLAIM_TRIES_MAX {
                return Ok(claimed.map(|(claimed, ..)| claimed));
            }
            if *skipped {
                let pause = pause_ms(tries, &*self.inner.shared.random);
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            tries += 1;
        }
    }
}
