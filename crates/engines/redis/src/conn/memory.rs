//! Backpressure: new jobs are refused before the memory of the server is full, so that claims, reports and heartbeats have
//! what they need.

use super::Link;
use super::error::STORE;
use redis::{Value, cmd};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::sync::lock;
use windlass_core::{Error, Result};

/// How long a sample is used.
const SAMPLED_FOR: Duration = Duration::from_secs(1);

/// The memory of the server as it was sampled last.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The share of `maxmemory`, in percent, from which on new jobs are refused.
    watermark: u8,
    sample: Mutex<Option<(Instant, Usage)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    used: u64,
    /// 0: no limit.
    most: u64,
}

impl Memory {
    pub(crate) const fn new(watermark: u8) -> Self {
        Self { watermark, sample: Mutex::new(None) }
    }

    /// Refuses new jobs from the watermark on. One caller samples; the others use what is known meanwhile.
    pub(crate) async fn admit(&self, link: &Link) -> Result<()> {
        let known = *lock(&self.sample);
        let usage = match known.filter(|(at, _)| at.elapsed() < SAMPLED_FOR) {
            Some((_, usage)) => usage,
            None => {
                if let Some((_, usage)) = known {
                    *lock(&self.sample) = Some((Instant::now(), usage));
                }
                let usage = sample(link).await?;
                *lock(&self.sample) = Some((Instant::now(), usage));
                usage
            }
        };
        match usage.percent() {
            Some(percent) if percent >= u64::from(self.watermark) => Err(Error::StoreFull {
                store: STORE.to_owned(),
                reason: format!(
                    "the server uses {percent} % of its maxmemory, and new jobs are refused from {} % on \
                     (memory_watermark); drain the queues or raise maxmemory",
                    self.watermark
                ),
            }),
            _ => Ok(()),
        }
    }
}

impl Usage {
    /// The used share; `None` without a limit.
    const fn percent(self) -> Option<u64> {
        match self.most {
            0 => None,
            most => Some(self.used.saturating_mul(100) / most),
        }
    }
}

async fn sample(link: &Link) -> Result<Usage> {
    let mut info = cmd("INFO");
    info.arg("memory");
    let text = match link.send(&info).await?.0 {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } => text,
        _ => String::new(),
    };
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(field, _)| *field == name).and_then(|(_, value)| value.trim().parse().ok())
    };
    // A service that does not tell has no watermark; its own limit still refuses.
    Ok(Usage {
        used: field("used_memory").unwrap_or_default(),
        most: field("maxmemory").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_limit_is_never_full() {
        assert_eq!(Usage { used: 7, most: 0 }.percent(), None);
        assert_eq!(Usage { used: 90, most: 100 }.percent(), Some(90));
        assert_eq!(Usage { used: u64::MAX, most: 100 }.percent(), Some(u64::MAX / 100));
    }
}
