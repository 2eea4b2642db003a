//! Keys: who may do what with a store that is served. They live in records, so that all servers of one
//! store know the same. It must not know HTTP, nor which request needs which permission.
//!
//! A key is a name with permissions ([`Grants`]) and a proof: a secret that was shown once, of which only
//! a hash is kept, or the name in a client's certificate.

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

/// Whether a change of the record with this name changes who is let in.
pub fn is_key_record(name: &str) -> bool {
    name == CHANGES_KEY || name.starts_with(PREFIX)
}
