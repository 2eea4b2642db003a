//! Enqueue rate limit per principal. It must not know what a job is, or how a principal is
//! authenticated.

use crate::app::App;
use axum::extract::FromRequestParts;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::request::Parts;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
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

/// The rate limiters of all principals.
pub(crate) struct RateLimits {
    per_second: Option<NonZeroU32>,
    known: Mutex<HashMap<Principal, Arc<DefaultDirectRateLimiter>>>,
    clock: DefaultClock,
}

impl RateLimits {
    /// `per_second` jobs per principal, which is also the burst size; `None` is unlimited.
    pub(crate) fn new(per_second: Option<NonZeroU32>) -> Self {
        Self { per_second, known: Mutex::default(), clock: DefaultClock::default() }
    }

    /// Checks that a principal may enqueue this number of jobs now; the error contains the retry
    /// time.
    pub(crate) fn check(&self, who: &Principal, jobs: usize) -> Result<()> {
        let Some(per_second) = self.per_second else { return Ok(()) };
        let Some(count) = u32::try_from(jobs).ok().and_then(NonZeroU32::new) else { return Ok(()) };
        let limit = u64::from(per_second.get());
        match self.limiter(who, per_second).check_n(count) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(not_until)) => {
                let wait = not_until.wait_time_from(self.clock.now());
                let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
                metrics::counter!("windlass_server_refused_total", "why" => "rate").increment(1);
                Err(Error::TooFast { who: who.0.to_string(), limit, retry_after_ms })
            }
            Err(_) => {
                let hint = "the limit of jobs per second; split the batch";
                Err(Error::TooLarge { field: "jobs".into(), size: jobs as u64, limit, hint })
            }
        }
    }

    fn limiter(&self, who: &Principal, per_second: NonZeroU32) -> Arc<DefaultDirectRateLimiter> {
        let mut known = lock(&self.known);
        if let Some(limiter) = known.get(who) {
            return limiter.clone();
        }
        if known.len() >= PRINCIPALS_MAX {
            known.clear();
        }
        let limiter = Arc::new(RateLimiter::direct(Quota::per_second(per_second)));
        known.insert(who.clone(), limiter.clone());
        limiter
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
}
