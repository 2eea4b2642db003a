//! Rows of statements, by our driver or by one of the application's.

use tokio_postgres::types::{FromSql, Type};

/// A row that a statement returned.
#[derive(Debug)]
pub(crate) enum Row {
    /// By our driver.
    Ours(tokio_postgres::Row),
    /// By a driver of the application.
    Theirs(RawRow),
}

/// A row as bytes in PostgreSQL's binary format.
#[derive(Debug, Default)]
pub(crate) struct RawRow {
    columns: Vec<RawColumn>,
}

#[derive(Debug)]
struct RawColumn {
    kind: Type,
    bytes: Option<Vec<u8>>,
}

impl RawRow {
    /// Adds a column with the number of its type.
    #[cfg(any(feature = "sqlx", feature = "diesel", feature = "diesel-async"))]
    pub(crate) fn push(&mut self, oid: u32, bytes: Option<&[u8]>) {
        // Our statements return built-in types only.
        let kind = Type::from_oid(oid).unwrap_or(Type::UNKNOWN);
        self.columns.push(RawColumn { kind, bytes: bytes.map(<[u8]>::to_vec) });
    }
}

/// The index of a column. A trait, so that calls look like those of `tokio_postgres::Row`.
pub(crate) trait Column {
    fn index(self) -> usize;
}

impl Column for usize {
    fn index(self) -> usize {
        self
    }
}

impl Row {
    /// The value of a column. Panics if the statement returns another type, which is a mistake in this crate.
    pub(crate) fn get<'a, I: Column, T: FromSql<'a>>(&'a self, column: I) -> T {
        let index = column.index();
        match self {
            Self::Ours(row) => row.get(index),
            Self::Theirs(row) => {
                let RawColumn { kind, bytes } = &row.columns[index];
                let fits = bytes.is_none() || T::accepts(kind);
                assert!(fits, "column {index} has the type {kind}");
                match T::from_sql_nullable(kind, bytes.as_deref()) {
                    Ok(value) => value,
                    Err(error) => panic!("column {index} of type {kind}: {error}"),
                }
            }
        }
    }
}
