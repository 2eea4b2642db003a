//! Key secrets: generation, text form, hashing, comparison. Independent of permissions.

use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq as _;
use windlass_core::random::Random;

/// Prefix of every key, so that people and secret scanners recognize one.
const MARK: &str = "wl_";
/// Hexadecimal digits of the id, the public part by which a key is looked up.
pub(super) const ID_DIGITS: usize = 16;
/// Hexadecimal digits of the secret part: 256 random bits.
const SECRET_DIGITS: usize = 64;

/// A complete key, shown once: `wl_ID_SECRET`. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Generates a secret for the key with this id.
    pub(super) fn random(id: &str, random: &dyn Random) -> Self {
        let (high, low) = (random.next_u128(), random.next_u128());
        Self(format!("{MARK}{id}_{high:032x}{low:032x}"))
    }

    /// The complete key in plain text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The id and the secret part of a possible key.
pub(super) fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.strip_prefix(MARK)?.split_once('_')?;
    let digits = |text: &str, count| {
        text.len() == count
            && text.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
    };
    (digits(id, ID_DIGITS) && digits(secret, SECRET_DIGITS)).then_some((id, secret))
}

/// The stored hash of a token. One round of SHA-256 suffices: slow hashes protect guessable *passwords*, but
/// 256 random bits cannot be guessed; a slow hash would only slow down every request.
pub(super) fn hash(token: &str) -> String {
    // The NUL prefix keeps the hash compatible with existing stores.
    let digest = Sha256::new().chain_update("\0").chain_update(token).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares two digests in constant time.
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
    fn malformed_keys_are_not_looked_up() {
        let long = format!("wl_{}_{}", "a".repeat(ID_DIGITS), "B".repeat(SECRET_DIGITS));
        for text in ["", "wl_", "wl__", "Bearer", "wl_0123456789abcdef_", &long, "wl_é_ü"] {
            assert_eq!(parts(text), None, "{text:?}");
        }
    }
}
