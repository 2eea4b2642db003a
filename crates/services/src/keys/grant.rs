//! Permissions of a key in text form: `enqueue:KIND`, `work:QUEUE`, `view`, `admin`. Pure; independent of key
//! holders.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use windlass_core::{Error, Result, check_name};

/// Maximum number of permissions per key.
const GRANTS_MAX: usize = 100;
/// Wildcard for every kind or queue.
const ANY: &str = "*";

/// One permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Grant {
    /// Enqueue jobs of this kind; `*` means every kind.
    Enqueue(String),
    /// Work on this queue; `*` means every queue.
    Work(String),
    /// Read everything, including payloads.
    View,
    /// Do everything.
    Admin,
}

impl FromStr for Grant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = |field, name: &str| match name {
            ANY => Ok(ANY.to_owned()),
            name => check_name(field, name).map(|()| name.to_owned()),
        };
        match text.split_once(':') {
            Some(("enqueue", kind)) => Ok(Self::Enqueue(name("may.enqueue", kind)?)),
            Some(("work", queue)) => Ok(Self::Work(name("may.work", queue)?)),
            None if text == "view" => Ok(Self::View),
            None if text == "admin" => Ok(Self::Admin),
            _ => {
                let expected = "use enqueue:KIND, work:QUEUE (or * for all of them), view or admin";
                Err(Error::invalid("may", text, expected))
            }
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enqueue(kind) => write!(f, "enqueue:{kind}"),
            Self::Work(queue) => write!(f, "work:{queue}"),
            Self::View => f.write_str("view"),
            Self::Admin => f.write_str("admin"),
        }
    }
}

impl TryFrom<String> for Grant {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

/// The permissions of a key.
///
/// ```
/// use windlass_services::Grants;
///
/// let billing: Grants = "enqueue:generate_invoice,work:mail".parse()?;
/// assert!(billing.may_enqueue("generate_invoice") && !billing.may_enqueue("send_email"));
/// assert!(billing.may_work("mail") && !billing.may_view() && !billing.is_admin());
///
/// let error = "enqeue:x".parse::<Grants>().unwrap_err();
/// assert_eq!(error.field(), Some("may"));
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants(Vec<Grant>);

impl Grants {
    /// Creates a set of permissions without duplicates.
    pub fn new(grants: impl IntoIterator<Item = Grant>) -> Result<Self> {
        let mut grants: Vec<Grant> = grants.into_iter().collect();
        grants.sort();
        grants.dedup();
        if grants.is_empty() {
            let expected = "name at least one permission: enqueue:KIND, work:QUEUE, view or admin";
            return Err(Error::invalid("may", "", expected));
        }
        if grants.len() > GRANTS_MAX {
            let (size, limit) = (grants.len() as u64, GRANTS_MAX as u64);
            let hint = "use `*`, or several keys";
            return Err(Error::TooLarge { field: "may".into(), size, limit, hint });
        }
        Ok(Self(grants))
    }

    /// All permissions.
    pub fn admin() -> Self {
        Self(vec![Grant::Admin])
    }

    /// Iterates over the permissions.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// Whether jobs of this kind may be enqueued.
    pub fn may_enqueue(&self, kind: &str) -> bool {
        self.has(|grant| matches!(grant, Grant::Enqueue(own) if own == ANY || own == kind))
    }

    /// Whether workers may claim from this queue.
    pub fn may_work(&self, queue: &str) -> bool {
        self.has(|grant| matches!(grant, Grant::Work(own) if own == ANY || own == queue))
    }

    /// Whether jobs of at least one kind may be enqueued.
    pub fn is_producer(&self) -> bool {
        self.has(|grant| matches!(grant, Grant::Enqueue(_)))
    }

    /// Whether workers may claim from at least one queue.
    pub fn is_worker(&self) -> bool {
        self.has(|grant| matches!(grant, Grant::Work(_)))
    }

    /// Whether everything may be read.
    pub fn may_view(&self) -> bool {
        self.has(|grant| *grant == Grant::View)
    }

    /// Whether everything may be done.
    pub fn is_admin(&self) -> bool {
        self.0.contains(&Grant::Admin)
    }

    fn has(&self, fits: impl Fn(&Grant) -> bool) -> bool {
        self.is_admin() || self.0.iter().any(fits)
    }
}

impl FromStr for Grants {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let grants = text.split(',').map(str::trim).filter(|grant| !grant.is_empty());
        Self::new(grants.map(str::parse).collect::<Result<Vec<_>>>()?)
    }
}

impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grants: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&grants.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_as_they_are_written() {
        for text in ["admin", "view", "enqueue:*", "enqueue:a.b/c,work:mail,work:slow"] {
            assert_eq!(text.parse::<Grants>().unwrap().to_string(), text);
        }
        for text in ["", ",", "enqueue", "enqueue:", "enqueue:a b", "work:é", "view:x", "Admin"] {
            assert!(text.parse::<Grants>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_permission_covers_what_it_names_and_nothing_else() {
        let grants = |text: &str| text.parse::<Grants>().unwrap();
        assert!(grants("admin").may_enqueue("x") && grants("admin").may_work("x"));
        assert!(grants("admin").may_view() && grants("admin").is_admin());
        assert!(grants("enqueue:*").may_enqueue("x") && !grants("enqueue:*").may_work("x"));
        assert!(!grants("enqueue:mail").may_work("mail") && !grants("work:mail").may_view());
        assert!(!grants("view").is_producer() && !grants("view").is_worker());
        assert!(!grants("enqueue:mail").may_enqueue("mailer"));
    }
}
