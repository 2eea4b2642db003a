//! The name of a schema, and statements with that name put in. Knows nothing of connections.

use windlass_core::{Error, Result};

/// Bytes in the name of a schema: what PostgreSQL keeps of an identifier.
const NAME_BYTES_MAX: usize = 63;

/// A schema by its quoted name.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    name: String,
    quoted: String,
}

impl Schema {
    /// The schema of this name, if it can be one.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let fits = |c: char| !c.is_control() && !"{}'\"\\$".contains(c);
        let reserved = name.starts_with("pg_") || name == "information_schema";
        if name.is_empty() || name.len() > NAME_BYTES_MAX || reserved || !name.chars().all(fits) {
            let expected = "use 1 to 63 bytes, no control characters, quotes, backslashes, braces or \
                dollar signs, and no name that belongs to PostgreSQL";
            return Err(Error::invalid("schema", name, expected));
        }
        Ok(Self { name: name.to_owned(), quoted: format!("\"{name}\"") })
    }

    /// Its name, as people write it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its name, as it may stand in a statement.
    pub(crate) fn quoted(&self) -> &str {
        &self.quoted
    }

    /// A statement of ours with the schema's name in place of `{s}`.
    pub(crate) fn put_into(&self, sql: &str) -> String {
        sql.replace("{s}", &self.quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_whatever_is_in_it() {
        let schema = Schema::new("My jobs; DROP TABLE x").unwrap();
        assert_eq!(schema.put_into("{s}.job"), "\"My jobs; DROP TABLE x\".job");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in [
            "",
            "pg_catalog",
            "information_schema",
            "a\0b",
            "{s}",
            "a'b",
            "a\"b",
            "a\\b",
            "a$$b",
            &"x".repeat(64),
        ] {
            assert_eq!(Schema::new(name).unwrap_err().field(), Some("schema"), "{name:?}");
        }
    }
}
