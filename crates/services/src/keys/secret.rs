//! The secret of a key: how it is made, written, hashed and compared. It must not know what it opens.

use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq as _;
use windlass_core::random::Random;

/// How every key begins, so that people and scanners of leaked secrets recognise one.
const MARK: &str = "wl_";
/// Digits of the public part, by which a key is found.
pub(super) const ID_DIGITS: usize = 16;
/// Digits of the secret part: 256 random bits.
const SECRET_DIGITS: usize = 64;

/// A key as it is shown once: `wl_ID_SECRET`. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A fresh secret for the key with this id.
    pub(super) fn random(id: &str, random: &dyn Random) -> Self {
        let (high, low) = (random.next_u128(), random.next_u128());
        Self(format!("{MARK}{id}_{high:032x}{low:032x}"))
    }

    /// All of it, for whoever is to keep it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The public and the secret part of what may be a key.
pub(super) fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.strip_prefix(MARK)?.split_once('_')?;
    let digits = |text: &str, count| {
        text.len() == count
            && text.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
    };
    (digits(id, ID_DIGITS) && digits(secret, SECRET_DIGITS)).then_some((id, secret))
}

/// What is kept of a token. One round of SHA-256 is right here: slow hashes make guessing a *password*
/// dear, and nobody guesses 256 random bits; a slow one would only make every request dear.
pub(super) fn hash(token: &str) -> String {
    // The NUL keeps the hashes that stores already have.
    let digest = Sha256::new().chain_update("\0").chain_update(token).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether two digests are the same, in a time that does not tell how far they are.
pub(super) fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::random::SystemRandom;

    #[test]
    fn a_secret_is_found_by_its_id_and_never_shown_by_accident() {
        let id = "0123456789abcdef";
        let secret = Secret::random(id, &SystemRandom);
        let (found, rest) = parts(secret.expose()).unwrap();
        assert_eq!((found, rest.len()), (id, SECRET_DIGITS));
        assert!(!format!("{secret:?}").contains(rest));
        assert_ne!(secret, Secret::random(id, &SystemRandom));
        assert!(same(&hash(secret.expose()), &hash(secret.expose())));
        assert!(!same(&hash(secret.expose()), &hash("wl_")));
    }

    #[test]
    fn what_is_no_key_is_not_looked_up() {
        let long = format!("wl_{}_{}", "a".repeat(ID_DIGITS), "B".repeat(SECRET_DIGITS));
        for text in ["", "wl_", "wl__", "Bearer", "wl_0123456789abcdef_", &long, "wl_é_ü"] {
            assert_eq!(parts(text), None, "{text:?}");
        }
    }
}
