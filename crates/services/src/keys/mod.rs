//! API keys: who may do what with a served store. They are stored in records, so that all servers of a store
//! share them. Independent of HTTP and of which request needs which permission.
//!
//! A key is a name with permissions ([`Grants`]) and a credential: a secret that is shown once and stored as
//! a hash, or the name in a client certificate.

mod grant;
mod ring;
mod secret;
mod sign;
mod store;
mod stored;

pub use grant::{Grant, Grants};
pub use ring::{Denied, KeyRing, Principal};
pub use secret::Secret;
pub use store::{Keys, NewKey};
pub use stored::Key;

pub(crate) use sign::SECRET_KEY;
pub(crate) use stored::{CHANGES_KEY, PREFIX, shown};

/// Whether a change of the record with this key changes which keys are accepted.
pub fn is_key_record(name: &str) -> bool {
    name == CHANGES_KEY || name.starts_with(PREFIX)
}
