//! Opaque tokens: leases, sessions, claims, cursors, epochs.
//!
//! Only the issuer interprets the text. A layer may wrap an inner token into one of its own.

use crate::error::Result;
use crate::limits::{CLAIM_ID_BYTES_MAX, TOKEN_BYTES_MAX};
use crate::name::check_text;
use crate::random::Random;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Formats as 32 lower-case hexadecimal digits. Hand-written for speed, because every claimed job needs one.
fn hex(bits: u128) -> Arc<str> {
    let digit = |index: u32| b"0123456789abcdef"[(bits >> (4 * (31 - index))) as usize & 0xF];
    let digits: [u8; 32] = std::array::from_fn(|index| digit(index as u32));
    std::str::from_utf8(&digits).unwrap_or_default().into()
}

macro_rules! token {
    ($(#[$doc:meta])* $name:ident, $field:literal, $limit:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(into = "String", from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// A token with this text.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Generates a token of 128 random bits.
            pub fn random(random: &dyn Random) -> Self {
                Self(hex(random.next_u128()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Validates the text.
            pub fn check(&self) -> Result<()> {
                check_text($field, &self.0, $limit)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<$name> for String {
            fn from(token: $name) -> Self {
                token.0.as_ref().to_owned()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

token! {
    /// Authorizes reports on one attempt at a job. Unguessable; void once the attempt has ended.
    Lease, "lease", TOKEN_BYTES_MAX
}
token! {
    /// A worker's session, issued by the engine.
    SessionId, "session", TOKEN_BYTES_MAX
}
token! {
    /// A claim, named by the worker in advance, so that a repeated claim can be recognized.
    ClaimId, "claim_id", CLAIM_ID_BYTES_MAX
}
token! {
    /// The position at which a page of a listing or log ended.
    Cursor, "cursor", TOKEN_BYTES_MAX
}
token! {
    /// Identity and timeline of a store.
    Epoch, "epoch", TOKEN_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_are_their_bits_in_lower_case_digits() {
        for bits in [0, 1, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef, u128::MAX] {
            assert_eq!(&*hex(bits), format!("{bits:032x}"));
        }
    }
}
