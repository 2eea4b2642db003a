//! Names of kinds and queues: the rule of `windlass_core::check_name`, and the default name of a type.

use crate::limits::NAME_BYTES_MAX;

/// What is wrong with a name, if anything.
pub(crate) fn flaw(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/@".contains(c);
    let starts = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.len() > NAME_BYTES_MAX {
        return Some(format!("it has {} bytes, the limit is {NAME_BYTES_MAX}", name.len()));
    }
    (name.is_empty() || !name.chars().all(fits) || !name.starts_with(starts)).then(|| {
        "use letters, digits and _ - . : / @, starting with a letter, a digit or _".to_owned()
    })
}

/// Converts `SendEmail` to `send_email`, and `HTTPCall` to `http_call`.
pub(crate) fn snake_case(type_name: &str) -> String {
    let chars: Vec<char> = type_name.trim_start_matches("r#").chars().collect();
    let mut snake = String::new();
    for (index, c) in chars.iter().enumerate() {
        let previous = index.checked_sub(1).map(|before| chars[before]);
        let next_is_lower = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        let begins_word = c.is_uppercase()
            && previous.is_some_and(|previous| {
                previous != '_' && (!previous.is_uppercase() || next_is_lower)
            });
        if begins_word {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_become_kinds() {
        let kinds = [
            ("SendEmail", "send_email"),
            ("HTTPCall", "http_call"),
            ("Resize2x", "resize2x"),
            ("Already_Split", "already_split"),
            ("r#Move", "move"),
            ("A", "a"),
        ];
        for (type_name, kind) in kinds {
            assert_eq!(snake_case(type_name), kind);
        }
    }
}
