//! Enqueue rate limit per principal. It must not know what a job is, or how a principal is
//! authenticated.

use crate::app::App;
use axum::extract::FromRequestParts;
use http::request::Parts;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::sync::lock;
use windlass_core::{Error, Result};

/// Maximum number of tracked principals. Beyond it, all limits are reset.
const PRINCIPALS_MAX: usize = 10_000;

/// The principal of a request: the name of its key, otherwise its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Principal(pub(crate) Arc<str>);

/// The source address of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl FromRequestParts<App> for Principal {
    type Rejection = Infallible;

    /// Authentication stores the principal in the request; without one, the source address is used.
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let found = parts.extensions.get::<Self>().cloned();
        let peer = || parts.extensions.get::<Peer>().map(|peer| peer.0.to_string());
        Ok(found.unwrap_or_else(|| Self(peer().unwrap_or_else(|| "unknown".to_owned()).into())))
    }
}

/// The rate limits of all principals: one bucket for each, as in GCRA.
pub(crate) struct RateLimits {
    per_second: Option<NonZeroU32>,
    /// When the bucket of each principal is full again.
    full_at: Mutex<HashMap<Principal, Instant>>,
}

impl RateLimits {
    /// `per_second` jobs per principal, which is also the burst size; `None` is unlimited.
    pub(crate) fn new(per_second: Option<NonZeroU32>) -> Self {
        Self { per_second, full_at: Mutex::default() }
    }

    /// Checks that a principal may enqueue this number of jobs now; the error contains the retry
    /// time.
    pub(crate) fn check(&self, who: &Principal, jobs: usize) -> Result<()> {
        let Some(per_second) = self.per_second.filter(|_| jobs > 0) else { return Ok(()) };
        let limit = u64::from(per_second.get());
        if jobs as u64 > limit {
            let hint = "the limit of jobs per second; split the batch";
            return Err(Error::TooLarge { field: "jobs".into(), size: jobs as u64, limit, hint });
        }
        // The time in which the bucket regains these tokens; at most a second.
        let cost = Duration::from_nanos(jobs as u64 * 1_000_000_000 / limit);
        let wait = self.take(who, cost, Instant::now());
        if wait.is_zero() {
            return Ok(());
        }
        let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        metrics::counter!("windlass_server_refused_total", "why" => "rate").increment(1);
        Err(Error::TooFast { who: who.0.to_string(), limit, retry_after_ms })
    }

    /// Takes tokens that the bucket regains in the time `cost`; if they are not there, takes none and returns how long to
    /// wait for them. An empty bucket is full after a second.
    fn take(&self, who: &Principal, cost: Duration, now: Instant) -> Duration {
        let mut known = lock(&self.full_at);
        let full_at = known.get(who).copied().unwrap_or(now).max(now) + cost;
        let wait = full_at.duration_since(now).saturating_sub(Duration::from_secs(1));
        if wait.is_zero() {
            if known.len() >= PRINCIPALS_MAX && !known.contains_key(who) {
                known.clear();
            }
            known.insert(who.clone(), full_at);
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_has_an_allowance_of_its_own() {
        let rate_limits = RateLimits::new(NonZeroU32::new(5));
        let (a, b) = (Principal("a".into()), Principal("b".into()));
        rate_limits.check(&a, 5).unwrap();
        let error = rate_limits.check(&a, 2).unwrap_err();
        assert_eq!(error.code(), "too_fast");
        assert!((1..=400).contains(&error.retry_after_ms().unwrap()), "{error}");
        rate_limits.check(&b, 5).unwrap();
        assert_eq!(rate_limits.check(&b, 6).unwrap_err().code(), "too_large");
        RateLimits::new(None).check(&a, 1_000_000).unwrap();
    }

    #[test]
    fn tokens_come_back_evenly_up_to_a_second() {
        let rate_limits = RateLimits::new(NonZeroU32::new(10));
        let (a, begin) = (Principal("a".into()), Instant::now());
        let take = |jobs: u32, at_ms| {
            let at = begin + Duration::from_millis(at_ms);
            rate_limits.take(&a, Duration::from_millis(100) * jobs, at).as_millis()
        };
        assert_eq!((take(10, 0), take(1, 0), take(3, 100)), (0, 100, 200));
        assert_eq!((take(1, 100), take(1, 199), take(1, 200)), (0, 1, 0));
        assert_eq!((take(10, 9_000), take(1, 9_000)), (0, 100), "no more than a second's tokens");
    }
}
