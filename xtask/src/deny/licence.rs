//! Evaluates SPDX licence expressions, as far as crates use them: names, `WITH`, `AND`, `OR`, parentheses, and
//! the `/` of old manifests, which means `OR`.

/// Whether an expression can be satisfied by allowed licences alone. An expression that cannot be parsed is not
/// allowed.
pub(super) fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    reader.any() == Some(true) && reader.words.is_empty()
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl<'a> Reader<'a> {
    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.takes("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let met = self.any()?;
            return self.takes(")").then_some(met);
        }
        let mut name = self.next()?.to_owned();
        if self.takes("WITH") {
            name = format!("{name} WITH {}", self.next()?);
        }
        Some(self.allowed.contains(&name))
    }

    fn takes(&mut self, word: &str) -> bool {
        let there = self.words.first() == Some(&word);
        if there {
            self.words = &self.words[1..];
        }
        there
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        let is_name = !["(", ")", "AND", "OR", "WITH"].contains(first);
        is_name.then_some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_allowed_if_allowed_licences_can_meet_it() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "GPL-3.0 / MIT",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "GPL-3.0 OR MIT AND ISC",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0",
            "Apache-2.0 WITH other",
            "(MIT",
            "MIT)",
            "MIT MIT",
            "OR MIT",
            "MIT OR",
            "MIT AND (GPL-3.0 OR ISC AND GPL-2.0)",
        ] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }
}
