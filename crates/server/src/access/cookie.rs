//! The cookie of somebody who signed in to the dashboard: the id of a key, until when, and a signature that
//! only servers of the store can make. Nothing is kept, so nothing can pile up; it ends with its key.

use http::HeaderMap;
use http::header::COOKIE;
use windlass_core::Timestamp;
use windlass_services::Principal;

const NAME: &str = "windlass-session";
/// How long somebody stays signed in.
pub(crate) const SESSION_SECONDS: u64 = 12 * 60 * 60;

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

    /// Whether it was made for this principal, and its time is not over.
    pub(crate) fn is_of(&self, who: &Principal, now: Timestamp) -> bool {
        let until = self.until.parse().map(Timestamp::from_millis);
        until.is_ok_and(|until| now < until) && who.signed(&text(self.until), self.signature)
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
