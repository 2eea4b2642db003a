//! Transactions of `sqlx`.

use super::{OpenTransaction, sealed};
use crate::conn::Open;
use crate::conn::error::Failure;
use crate::conn::foreign::{Foreign, Param, Reply};
use crate::conn::row::RawRow;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{
    PgArgumentBuffer, PgDatabaseError, PgRow, PgTypeInfo, PgValueFormat, types::Oid,
};
use sqlx::{Column as _, Encode, PgConnection, Postgres, Row as _, Type, ValueRef as _};
use tokio_postgres::error::SqlState;

impl OpenTransaction for PgConnection {}
impl sealed::Sealed for PgConnection {
    fn link(&mut self) -> sealed::Link<'_> {
        sealed::Link(Open::Foreign(self))
    }
}

impl OpenTransaction for sqlx::Transaction<'_, Postgres> {}
impl sealed::Sealed for sqlx::Transaction<'_, Postgres> {
    fn link(&mut self) -> sealed::Link<'_> {
        sealed::Link(Open::Foreign(&mut **self))
    }
}

impl Foreign for PgConnection {
    fn query<'a>(&'a mut self, sql: &'a str, params: &'a [Param]) -> Reply<'a, Vec<RawRow>> {
        Box::pin(async move {
            // Ours: the schema's name is checked and quoted, and everything else is a parameter.
            let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
            for param in params {
                query = query.bind(Bound(param));
            }
            // Unnamed, so that the application's cache of statements stays its own.
            let rows = query.persistent(false).fetch_all(self).await.map_err(failure)?;
            rows.iter().map(raw).collect::<Result<_, _>>().map_err(failure)
        })
    }

    fn command<'a>(&'a mut self, sql: &'a str) -> Reply<'a, ()> {
        Box::pin(async move {
            let sent = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(self).await;
            sent.map(|_| ()).map_err(failure)
        })
    }
}

/// A parameter with its type.
struct Bound<'a>(&'a Param);

impl Encode<'_, Postgres> for Bound<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match &self.0.bytes {
            Some(bytes) => {
                buffer.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.0.kind.oid())))
    }
}

impl Type<Postgres> for Bound<'_> {
    /// Not used: every value has its own type.
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}

fn raw(row: &PgRow) -> Result<RawRow, sqlx::Error> {
    let mut raw = RawRow::default();
    for (at, column) in row.columns().iter().enumerate() {
        let value = row.try_get_raw(at)?;
        if value.is_null() {
            raw.push(0, None);
            continue;
        }
        if value.format() != PgValueFormat::Binary {
            return Err(sqlx::Error::Protocol("a column is not in binary format".to_owned()));
        }
        let oid = column.type_info().oid().map_or(0, |oid| oid.0);
        raw.push(oid, Some(value.as_bytes().map_err(sqlx::Error::Decode)?));
    }
    Ok(raw)
}

fn failure(error: sqlx::Error) -> Failure {
    match error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>()) {
        Some(said) => Failure {
            code: Some(SqlState::from_code(said.code())),
            message: said.message().to_owned(),
            place: said.r#where().unwrap_or_default().to_owned(),
        },
        None => Failure { code: None, message: error.to_string(), place: String::new() },
    }
}
