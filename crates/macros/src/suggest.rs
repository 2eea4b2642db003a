//! Suggestions for misspelled words.

/// The known word closest to `word`, if it is close enough.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let (distance, nearest) = known.iter().map(|known| (distance(word, known), *known)).min()?;
    (distance <= word.len().div_ceil(3)).then_some(nearest)
}

/// Levenshtein distance: the number of letters to add, remove or change.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, c) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for column in 1..row.len() {
            let changed = diagonal + usize::from(c != to[column - 1]);
            diagonal = row[column];
            row[column] = changed.min(diagonal + 1).min(row[column - 1] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_recognised_and_a_far_one_is_not() {
        let known = ["kind", "queue", "max_attempts"];
        assert_eq!(nearest("que", &known), None);
        assert_eq!(nearest("queu", &known), Some("queue"));
        assert_eq!(nearest("max_attempt", &known), Some("max_attempts"));
        assert_eq!(nearest("colour", &known), None);
    }
}
