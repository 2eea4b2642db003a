//! One thing that somebody did, within bounds. It must not know where it is kept.

use crate::keys::Principal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Targets told by name; more are counted.
const TARGETS_MAX: usize = 20;
/// Bytes of a target's name.
const TARGET_BYTES_MAX: usize = 256;
/// Bytes of what was before, and of what was after.
const DETAIL_BYTES_MAX: usize = 4 * 1024;

/// Something that somebody did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Action {
    /// Who, by the name of the key.
    pub who: String,
    /// Its id; none where nobody is asked for a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What, as in `job.cancel` or `queue.configure`.
    pub action: String,
    /// To what, the first of them by name.
    pub targets: Vec<String>,
    /// To how many in all.
    pub count: u64,
    /// How many of them were refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// What the target was like, where it is one and this was cheap to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What it is like now, or what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Action {
    /// Somebody did this to nothing yet.
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

    /// To this, too; `done` is false if it was refused.
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

    /// It was like this before.
    #[must_use]
    pub fn before(mut self, value: Option<Value>) -> Self {
        self.before = value.map(bounded);
        self
    }

    /// It is like this now.
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
        let mut action = Action::new(&Principal::anybody(), "job.cancel");
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
