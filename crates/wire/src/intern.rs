//! Texts that core keeps as `&'static str` (hints, names of engines), read from a peer.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// So many different texts are kept: a peer of ours has a few dozen.
const TEXTS_MAX: usize = 1_024;
/// Texts longer than this are not kept.
const TEXT_BYTES_MAX: usize = 1_024;

/// The same text for the rest of the process. Bounded: what a strange peer sends beyond the bounds is
/// replaced by `otherwise`.
pub(crate) fn intern(text: &str, otherwise: &'static str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    if texts.len() >= TEXTS_MAX || text.len() > TEXT_BYTES_MAX {
        return otherwise;
    }
    let kept: &'static str = Box::leak(text.into());
    texts.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_strange_ones_not_at_all() {
        let (one, two) = (intern("split the batch", "-"), intern("split the batch", "-"));
        assert!(std::ptr::eq(one, two));
        assert_eq!(intern(&"x".repeat(TEXT_BYTES_MAX + 1), "otherwise"), "otherwise");
    }
}
