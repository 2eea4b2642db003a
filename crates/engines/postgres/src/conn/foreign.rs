//! Connections of the application's, by drivers other than ours: statements and rows as bytes in PostgreSQL's binary
//! format.

use crate::conn::error::{Failure, Try};
use crate::conn::row::{RawRow, Row};
use crate::conn::unnamed::Typed;
use bytes::BytesMut;
use futures_util::lock::Mutex;
use std::pin::Pin;
use tokio_postgres::types::{IsNull, Type};
use windlass_core::Error;

/// A parameter of a statement.
#[derive(Debug)]
#[cfg_attr(
    not(any(feature = "sqlx", feature = "diesel", feature = "diesel-async")),
    expect(dead_code, reason = "only other drivers read it")
)]
pub(crate) struct Param {
    pub(crate) kind: Type,
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Param {
    /// Encodes the parameters of a statement.
    pub(crate) fn all(params: Typed<'_>) -> Try<Vec<Self>> {
        let encode = |(value, kind): (&(dyn tokio_postgres::types::ToSql + Sync), Type)| {
            let mut bytes = BytesMut::new();
            match value.to_sql_checked(&kind, &mut bytes) {
                Ok(IsNull::Yes) => Ok(Self { kind, bytes: None }),
                Ok(IsNull::No) => Ok(Self { kind, bytes: Some(bytes.to_vec()) }),
                Err(error) => {
                    let expected = "a value of the statement's type";
                    Err(Error::invalid("parameter", error.to_string(), expected).into())
                }
            }
        };
        params.into_iter().map(encode).collect()
    }
}

/// The answer of a driver.
pub(crate) type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// A connection with an open transaction, by another driver.
pub(crate) trait Foreign: Send {
    /// Runs a statement; its rows as bytes.
    fn query<'a>(&'a mut self, sql: &'a str, params: &'a [Param]) -> Reply<'a, Vec<RawRow>>;

    /// Runs commands without parameters.
    fn command<'a>(&'a mut self, sql: &'a str) -> Reply<'a, ()>;
}

/// A foreign connection, used by one statement at a time, in the order in which they are polled first.
pub(crate) struct Shared<'t> {
    link: Mutex<&'t mut dyn Foreign>,
}

impl<'t> Shared<'t> {
    pub(crate) fn new(link: &'t mut dyn Foreign) -> Self {
        Self { link: Mutex::new(link) }
    }

    pub(crate) async fn query(&self, sql: &str, params: Typed<'_>) -> Try<Vec<Row>> {
        let params = Param::all(params)?;
        let rows = self.link.lock().await.query(sql, &params).await?;
        Ok(rows.into_iter().map(Row::Theirs).collect())
    }

    pub(crate) async fn command(&self, sql: &str) -> Try<()> {
        Ok(self.link.lock().await.command(sql).await?)
    }
}
