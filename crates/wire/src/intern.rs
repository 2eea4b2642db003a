//! Interns strings received from a peer that core stores as `&'static str` (hints, names of
//! engines).

use std::collections::BTreeSet;
use std::sync::Mutex;
use windlass_core::sync::lock;

/// Maximum number of interned strings. A Windlass peer uses a few dozen.
const TEXTS_MAX: usize = 1_024;
/// Maximum bytes of an interned string.
const TEXT_BYTES_MAX: usize = 1_024;

/// Interns a string for the rest of the process. Beyond the limits, returns `otherwise`, so that a
/// foreign peer cannot exhaust memory.
pub(crate) fn intern(text: &str, otherwise: &'static str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = lock(&TEXTS);
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
