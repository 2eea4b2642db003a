//! Signatures of a store's servers: HMAC-SHA256 with a secret that all servers of the store share. The secret
//! is in a record that only servers can read ([`reserved`](crate::reserved)); no route returns it.

use crate::records::{encode, get, put};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use windlass_core::engine::{Engine, Expect, Record};
use windlass_core::random::{Random as _, SystemRandom};
use windlass_core::{Error, Result};

/// Key of the record that contains the secret.
pub(crate) const SECRET_KEY: &str = "secret/signing";
/// Hexadecimal digits of the secret: 256 random bits.
const SECRET_DIGITS: usize = 64;

/// The record's content.
#[derive(Serialize, Deserialize)]
struct Stored {
    secret: String,
}

/// Signs for the keys of one store. Its `Debug` hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Signer(String);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(***)")
    }
}

impl Signer {
    /// The signer of a store; generates the secret if there is none yet.
    pub(super) async fn of(engine: &dyn Engine) -> Result<Self> {
        if let Some(record) = get(engine, SECRET_KEY).await?.value {
            return Self::read(&record);
        }
        let (high, low) = (SystemRandom.next_u128(), SystemRandom.next_u128());
        let secret = format!("{high:032x}{low:032x}");
        let value = encode(&Stored { secret: secret.clone() })?;
        match put(engine, SECRET_KEY, value, Expect::Absent).await {
            Ok(_) => Ok(Self(secret)),
            // Another server was faster: use its secret.
            Err(Error::VersionConflict { .. }) => match get(engine, SECRET_KEY).await?.value {
                Some(record) => Self::read(&record),
                None => Err(unreadable("it is gone again")),
            },
            Err(error) => Err(error),
        }
    }

    fn read(record: &Record) -> Result<Self> {
        let stored = serde_json::from_slice::<Stored>(&record.value);
        let Stored { secret } = stored.map_err(|_| unreadable("it is not a secret"))?;
        match secret.len() {
            SECRET_DIGITS => Ok(Self(secret)),
            _ => Err(unreadable("it is too short or too long")),
        }
    }

    /// The signature of `text` for the key with this id.
    pub(super) fn sign(&self, id: &str, text: &str) -> String {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("any length");
        // Ids contain no NUL, so no two pairs of id and text have the same input.
        for part in [id.as_bytes(), b"\0", text.as_bytes()] {
            mac.update(part);
        }
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// An error that does not show the content, because it may be a secret.
fn unreadable(why: &str) -> Error {
    let reason = format!("{why}; delete the record at the store itself, and servers make another");
    Error::Corrupt { store: format!("record {SECRET_KEY:?}"), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::engine::Admin as _;
    use windlass_core::engine::RecordOp;
    use windlass_memory::MemoryEngine;

    #[tokio::test]
    async fn servers_of_one_store_sign_alike_and_those_of_others_do_not() {
        let engine = MemoryEngine::new();
        let (one, two) = (Signer::of(&engine).await.unwrap(), Signer::of(&engine).await.unwrap());
        let other = Signer::of(&MemoryEngine::new()).await.unwrap();
        assert_eq!(one.sign("id", "text"), two.sign("id", "text"));
        for different in [other.sign("id", "text"), one.sign("i", "dtext"), one.sign("id", "x")] {
            assert_ne!(different, one.sign("id", "text"));
        }
        assert!(!format!("{one:?}").contains(&one.0));
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_read_signs_nothing_and_is_not_shown() {
        let engine = MemoryEngine::new();
        let (key, value) = (SECRET_KEY.to_owned(), r#"{"secret":"s3cr3t"}"#.into());
        let put = RecordOp::Put { key, value, expect: Expect::Any };
        engine.records(vec![put]).await.unwrap();
        let error = Signer::of(&engine).await.unwrap_err().to_string();
        assert!(error.contains(SECRET_KEY) && !error.contains("s3cr3t"), "{error}");
    }
}
