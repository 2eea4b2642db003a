//! The start of a job id, to search by.

use crate::error::{Error, Result};
use crate::id::JobId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Hex digits of a whole id.
const DIGITS: usize = 32;

/// The first hex digits of a job id. Dashes and case do not matter: `0199b2c8-00` and `0199B2C800` are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdPrefix {
    digits: u8,
    lowest: JobId,
    highest: JobId,
}

impl IdPrefix {
    /// The lowest and the highest id with this start.
    pub const fn range(self) -> (JobId, JobId) {
        (self.lowest, self.highest)
    }

    /// Whether an id starts with it.
    pub fn includes(self, id: JobId) -> bool {
        self.lowest <= id && id <= self.highest
    }

    /// Number of hex digits.
    pub const fn digits(self) -> usize {
        self.digits as usize
    }
}

impl FromStr for IdPrefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = "use the first hex digits of a job id, e.g. 0199b2c8-00";
        let invalid = || Error::invalid("id", text, expected);
        // Dashes separate digits; there are never more of them than digits.
        let digits: String = text.chars().take(2 * DIGITS).filter(|c| *c != '-').collect();
        let is_id = (1..=DIGITS).contains(&digits.len())
            && text.len() < 2 * DIGITS
            && digits.chars().all(|c| c.is_ascii_hexdigit());
        let fill = |with: char| {
            let filled: String =
                digits.chars().chain(std::iter::repeat(with)).take(DIGITS).collect();
            let id = u128::from_str_radix(&filled, 16).map_err(|_| invalid())?;
            Ok(JobId::from_bytes(id.to_be_bytes()))
        };
        match is_id {
            true => {
                Ok(Self { digits: digits.len() as u8, lowest: fill('0')?, highest: fill('f')? })
            }
            false => Err(invalid()),
        }
    }
}

impl TryFrom<String> for IdPrefix {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<IdPrefix> for String {
    fn from(prefix: IdPrefix) -> Self {
        prefix.to_string()
    }
}

impl fmt::Display for IdPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.lowest.as_uuid().simple().to_string();
        f.write_str(id.get(..self.digits()).unwrap_or(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_an_id_is_a_range_of_ids() {
        let prefix: IdPrefix = "0199B2c8-00".parse().unwrap();
        let (lowest, highest) = prefix.range();
        assert_eq!(lowest.to_string(), "0199b2c8-0000-0000-0000-000000000000");
        assert_eq!(highest.to_string(), "0199b2c8-00ff-ffff-ffff-ffffffffffff");
        assert_eq!(prefix.to_string(), "0199b2c800");
        assert!(prefix.includes(lowest) && prefix.includes(highest));
        let whole: IdPrefix = lowest.to_string().parse().unwrap();
        assert_eq!(whole.range(), (lowest, lowest));
        assert_eq!(whole.to_string().parse::<IdPrefix>().unwrap(), whole);
        for text in ["", "mail", "0199x", "----", &"0".repeat(33), &"-".repeat(1_000_000)] {
            assert_eq!(text.parse::<IdPrefix>().unwrap_err().field(), Some("id"), "{text:.40}");
        }
    }
}
