//! An audited action, bounded in size. Independent of how it is stored.

use crate::keys::Principal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of targets listed by name; further ones are only counted.
const TARGETS_MAX: usize = 20;
/// Maximum bytes of a target's name.
const TARGET_BYTES_MAX: usize = 256;
/// Maximum bytes of each of the values `before` and `after`.
const DETAIL_BYTES_MAX: usize = 4 * 1024;

/// An action of a principal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Action {
    /// The name of the key that the principal used.
    pub who: String,
    /// The id of the key; `None` if the server does not require keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The name of the action, e.g. `job.cancel` or `queue.configure`.
    pub action: String,
    /// The names of the first targets.
    pub targets: Vec<String>,
    /// Number of targets in total.
    pub count: u64,
    /// Number of targets for which the action was refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// The previous value, if there is a single target and its value was cheap to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The new value, or the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Action {
    /// An action without targets.
    pub fn new(who: &Principal, action: impl Into<String>) -> Self {
        Self {
            who: who.name().to_owned(),
            key: who.id().map(str::to_owned),
            action: action.into(),
            targets: Vec::new(),
            count: 0,
            refused: 0,
            before: None,
            after: None,
        }
    }

    /// A note about earlier actions of a principal.
    pub(super) fn note(who: String, key: Option<String>, action: &str, count: u64) -> Self {
        let (action, targets) = (action.to_owned(), Vec::new());
        let (refused, before, after) = (0, None, None);
        Self { who, key, action, targets, count, refused, before, after }
    }

    /// The identity of the principal: the id of its key, or its name if it has no key.
    pub(super) fn identity(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.who)
    }

    /// Adds a target; `done` is false if the action was refused for it.
    pub fn target(&mut self, name: impl Into<String>, done: bool) {
        self.count += 1;
        self.refused += u64::from(!done);
        if self.targets.len() < TARGETS_MAX {
            let mut name: String = name.into();
            if name.len() > TARGET_BYTES_MAX {
                let end = (0..=TARGET_BYTES_MAX).rev().find(|end| name.is_char_boundary(*end));
                name.truncate(end.unwrap_or(0));
            }
            self.targets.push(name);
        }
    }

    /// Sets the previous value.
    #[must_use]
    pub fn before(mut self, value: Option<Value>) -> Self {
        self.before = value.map(bounded);
        self
    }

    /// Sets the new value.
    #[must_use]
    pub fn after(mut self, value: Option<Value>) -> Self {
        self.after = value.map(bounded);
        self
    }
}

fn bounded(value: Value) -> Value {
    let bytes = value.to_string().len();
    if bytes <= DETAIL_BYTES_MAX {
        value
    } else {
        Value::String(format!("{bytes} bytes, too many to keep"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_on_many_things_stays_small() {
        let mut action = Action::new(&Principal::anonymous(), "job.cancel");
        for _ in 0..10_000 {
            action.target("é".repeat(1_000), true);
        }
        action.target("x", false);
        let action = action.before(Some("y".repeat(1 << 20).into()));
        assert_eq!((action.count, action.refused, action.targets.len()), (10_001, 1, TARGETS_MAX));
        let bytes = serde_json::to_vec(&action).unwrap().len();
        assert!(bytes < windlass_core::limits::RECORD_BYTES_MAX, "{bytes}");
    }
}
