//! The dashboard's session cookie: a key id, an expiry time and a signature that only servers of
//! the store can create. Servers store no sessions. A cookie is invalid once its key is, and if its
//! expiry is more than [`SESSION_MAX`] ahead.

use http::HeaderMap;
use http::header::COOKIE;
use std::time::Duration;
use windlass_core::Timestamp;
use windlass_services::Principal;

const NAME: &str = "windlass-session";
/// Maximum time until the expiry of a cookie.
const SESSION_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Allowance for clock differences between servers that estimate the store's time.
const CLOCKS_APART: Duration = Duration::from_secs(60);
/// How long a user stays signed in.
pub(crate) const SESSION_SECONDS: u64 = SESSION_MAX.as_secs() - CLOCKS_APART.as_secs();

/// An unverified cookie.
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

    /// Whether the cookie was signed for this principal, has not expired, and expires within
    /// [`SESSION_MAX`].
    pub(crate) fn is_of(&self, who: &Principal, now: Timestamp) -> bool {
        let until = self.until.parse().map(Timestamp::from_millis);
        let in_time = |until: Timestamp| {
            now < until && u128::from(until.since(now)) <= SESSION_MAX.as_millis()
        };
        until.is_ok_and(in_time) && who.signed(&text(self.until), self.signature)
    }

    /// The `Set-Cookie` header that signs a user in.
    pub(crate) fn sign_in(who: &Principal, now: Timestamp, secure: bool) -> Option<String> {
        let until = now.plus(SESSION_SECONDS * 1_000).as_millis().to_string();
        let (id, signature) = (who.id()?, who.sign(&text(&until))?);
        Some(header(&format!("{id}.{until}.{signature}"), SESSION_SECONDS, secure))
    }

    /// The `Set-Cookie` header that signs a user out.
    pub(crate) fn sign_out(secure: bool) -> String {
        header("", 0, secure)
    }
}

/// Scripts cannot read the cookie, and browsers do not send it with cross-site requests.
fn header(value: &str, seconds: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

fn text(until: &str) -> String {
    format!("dashboard {until}")
}
