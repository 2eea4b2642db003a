//! Validation of names: queues, kinds, keys and others. Checked once, where a request enters.

use crate::error::{Error, Result, within_limit};
use crate::limits::NAME_BYTES_MAX;

/// Checks a name that is suitable for display and metrics: 1 to 128 bytes of letters, digits and `_ - . : /
/// @`, starting with a letter, a digit or `_`.
pub fn check_name(field: &'static str, name: &str) -> Result<()> {
    check_text(field, name, NAME_BYTES_MAX)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/@".contains(c);
    let starts = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.chars().all(fits) || !name.starts_with(starts) {
        return Err(Error::invalid(
            field,
            name,
            "use letters, digits and _ - . : / @, starting with a letter, a digit or _",
        ));
    }
    Ok(())
}

/// Checks free text that Windlass does not interpret (a key, a tenant, a tag): not empty, no control
/// characters, at most `bytes_max` bytes.
pub fn check_text(field: &'static str, text: &str, bytes_max: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(field, text, "it must not be empty"));
    }
    within_limit(field, text.len(), bytes_max, "shorten it, or use a hash of it")?;
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(field, text, "it must not contain control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass() {
        for name in ["mail", "send_email", "a", "Billing.Invoice/v2", "x:y@z-1", "_internal", "9"] {
            check_name("kind", name).unwrap();
        }
        check_name("kind", &"x".repeat(NAME_BYTES_MAX)).unwrap();
    }

    #[test]
    fn bad_names_are_refused_by_field_and_value() {
        for name in ["", " ", "a b", "é", "-x", "a\n", "a\0b", "{q}"] {
            let error = check_name("queue", name).unwrap_err();
            assert_eq!((error.code(), error.field()), ("invalid", Some("queue")), "{name:?}");
        }
        let error = check_name("queue", &"x".repeat(NAME_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "queue has size 129, the limit is 128; shorten it, or use a hash of it"
        );
    }

    #[test]
    fn text_may_be_any_language_but_not_control_characters() {
        check_text("key", "Zürich/№ 5 ☂", 64).unwrap();
        assert!(check_text("key", "a\tb", 64).is_err());
    }
}
