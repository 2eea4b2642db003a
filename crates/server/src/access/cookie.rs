//! The cookie of somebody who signed in to the dashboard: the id of a key, until when, and a signature that
//! only servers of the store can make. Nothing is kept, so nothing can pile up; it ends with its key, and
//! after [`SESSION_MAX`] whatever it says.

use http::HeaderMap;
use http::header::COOKIE;
use std::time::Duration;
use windlass_core::Timestamp;
use windlass_services::Principal;

const NAME: &str = "windlass-session";
/// How far ahead a cookie may end.
const SESSION_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// How far apart two servers may be that read the store's clock at the same time.
const CLOCKS_APART: Duration = Duration::from_secs(60);
/// How long somebody stays signed in.
pub(crate) const SESSION_SECONDS: u64 = SESSION_MAX.as_secs() - CLOCKS_APART.as_secs();

/// A cookie as it came: nothing of it is proven yet.
#[derive(Debug)]
pub(crate) struct Cookie<'a> {
    pub(crate) id: &'a str,
    until: &'a str,
    signature: &'a str,
}

impl<'a> Cookie<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Option<Self> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == NAME)?;
        let mut parts = value.splitn(3, '.');
        Some(Self { id: parts.next()?, until: parts.next()?, signature: parts.next()? })
    }

    /// Whether it was made for this principal, its time is not over, and that is no longer than it may be.
    pub(crate) fn is_of(&self, who: &Principal, now: Timestamp) -> bool {
        let until = self.until.parse().map(Timestamp::from_millis);
        let in_time = |until: Timestamp| {
            now < until && u128::from(until.since(now)) <= SESSION_MAX.as_millis()
        };
        until.is_ok_and(in_time) && who.signed(&text(self.until), self.signature)
    }

    /// The header that signs somebody in.
    pub(crate) fn sign_in(who: &Principal, now: Timestamp, secure: bool) -> Option<String> {
        let until = now.plus(SESSION_SECONDS * 1_000).as_millis().to_string();
        let (id, signature) = (who.id()?, who.sign(&text(&until))?);
        Some(header(&format!("{id}.{until}.{signature}"), SESSION_SECONDS, secure))
    }

    /// The header that signs him out.
    pub(crate) fn sign_out(secure: bool) -> String {
        header("", 0, secure)
    }
}

/// No script can read it, and no other site can have it sent.
fn header(value: &str, seconds: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

fn text(until: &str) -> String {
    format!("dashboard {until}")
}
