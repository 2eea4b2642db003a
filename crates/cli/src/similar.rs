//! Notes about names that do not exist, with the existing names that are similar.

/// Maximum number of edits between two similar names.
const EDITS_MAX: usize = 2;
/// Maximum number of similar names in a note.
const NAMES_MAX: usize = 3;

/// The note that `name` does not exist yet, with similar names among `known`.
pub(crate) fn note<'a>(noun: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let mut similar: Vec<(usize, &str)> =
        known.into_iter().map(|known| (distance(known), known)).collect();
    similar.retain(|(edits, _)| (1..=EDITS_MAX).contains(edits));
    similar.sort_unstable();
    similar.dedup();
    let similar: Vec<&str> = similar.into_iter().take(NAMES_MAX).map(|(_, name)| name).collect();
    let meant = match similar.is_empty() {
        true => String::new(),
        false => format!(" (similar: {})", similar.join(", ")),
    };
    format!("{noun} {name} does not exist yet{meant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_listed_nearest_first() {
        let known = ["mail", "mails", "reports", "mail"];
        assert_eq!(
            note("queue", "mial", known),
            "queue mial does not exist yet (similar: mail, mails)"
        );
        assert_eq!(note("kind", "resize", known), "kind resize does not exist yet");
    }
}
