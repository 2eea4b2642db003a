//! Transactions of `diesel-async` and of the synchronous `diesel`.

#[cfg(feature = "diesel")]
use super::{Transactional, completion};
use crate::conn::error::Failure;
use crate::conn::foreign::{Foreign, Param, Reply};
use crate::conn::row::RawRow;
use diesel::deserialize::QueryableByName;
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::row::{Field as _, NamedRow, Row};
use diesel::serialize::{IsNull, Output, ToSql};
use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, SmallInt, Text, Uuid};
use std::io::Write as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

/// A statement with its parameters.
type Statement<'a> = BoxedSqlQuery<'a, Pg, SqlQuery>;

fn statement<'a>(sql: &str, params: &'a [Param]) -> Result<Statement<'a>, Failure> {
    params.iter().try_fold(diesel::sql_query(sql).into_boxed(), bind)
}

/// Adds a parameter; all types of our statements.
fn bind<'a>(statement: Statement<'a>, param: &'a Param) -> Result<Statement<'a>, Failure> {
    let value = Bound(param);
    Ok(match param.kind {
        Type::INT8 => statement.bind::<BigInt, _>(value),
        Type::INT4 => statement.bind::<Integer, _>(value),
        Type::INT2 => statement.bind::<SmallInt, _>(value),
        Type::BOOL => statement.bind::<Bool, _>(value),
        Type::TEXT => statement.bind::<Text, _>(value),
        Type::UUID => statement.bind::<Uuid, _>(value),
        Type::BYTEA => statement.bind::<Binary, _>(value),
        Type::INT8_ARRAY => statement.bind::<Array<BigInt>, _>(value),
        Type::INT4_ARRAY => statement.bind::<Array<Integer>, _>(value),
        Type::INT2_ARRAY => statement.bind::<Array<SmallInt>, _>(value),
        Type::BOOL_ARRAY => statement.bind::<Array<Bool>, _>(value),
        Type::TEXT_ARRAY => statement.bind::<Array<Text>, _>(value),
        Type::UUID_ARRAY => statement.bind::<Array<Uuid>, _>(value),
        Type::BYTEA_ARRAY => statement.bind::<Array<Binary>, _>(value),
        ref other => {
            let message = format!("a parameter has the type {other}");
            return Err(Failure { code: None, message, place: String::new() });
        }
    })
}

/// The bytes of a parameter, whatever its type.
#[derive(Debug)]
struct Bound<'a>(&'a Param);

impl<K> ToSql<K, Pg> for Bound<'_> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> diesel::serialize::Result {
        match &self.0.bytes {
            Some(bytes) => {
                out.write_all(bytes)?;
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }
}

/// A row with all its columns as bytes.
struct Loaded(RawRow);

impl QueryableByName<Pg> for Loaded {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> diesel::deserialize::Result<Self> {
        let mut raw = RawRow::default();
        for at in 0..row.field_count() {
            let field = Row::get(row, at).ok_or("a column is missing")?;
            match field.value() {
                Some(value) => raw.push(value.get_oid().get(), Some(value.as_bytes())),
                None => raw.push(0, None),
            }
        }
        Ok(Self(raw))
    }
}

/// Diesel does not return the SQLSTATE: the kinds that matter here, and the messages of the others.
#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of another project")]
fn failure(error: DieselError) -> Failure {
    let DieselError::DatabaseError(kind, said) = &error else {
        return Failure { code: None, message: error.to_string(), place: String::new() };
    };
    let message = said.message().to_owned();
    let code = match kind {
        DatabaseErrorKind::UniqueViolation => Some(SqlState::UNIQUE_VIOLATION),
        DatabaseErrorKind::CheckViolation => Some(SqlState::CHECK_VIOLATION),
        DatabaseErrorKind::SerializationFailure => Some(SqlState::T_R_SERIALIZATION_FAILURE),
        DatabaseErrorKind::ReadOnlyTransaction => Some(SqlState::READ_ONLY_SQL_TRANSACTION),
        _ if message.contains("lock timeout") => Some(SqlState::LOCK_NOT_AVAILABLE),
        _ if message.contains("deadlock detected") => Some(SqlState::T_R_DEADLOCK_DETECTED),
        _ => None,
    };
    Failure { code, message, place: String::new() }
}

#[cfg(feature = "diesel-async")]
mod asynchronous {
    use super::*;
    use crate::api::joining::{OpenTransaction, sealed};
    use crate::conn::Open;
    use diesel_async::{AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};

    impl OpenTransaction for AsyncPgConnection {}
    impl sealed::Sealed for AsyncPgConnection {
        fn link(&mut self) -> sealed::Link<'_> {
            sealed::Link(Open::Foreign(self))
        }
    }

    impl Foreign for AsyncPgConnection {
        fn query<'a>(&'a mut self, sql: &'a str, params: &'a [Param]) -> Reply<'a, Vec<RawRow>> {
            Box::pin(async move {
                let rows: Vec<Loaded> =
                    statement(sql, params)?.load(self).await.map_err(failure)?;
                Ok(rows.into_iter().map(|row| row.0).collect())
            })
        }

        fn command<'a>(&'a mut self, sql: &'a str) -> Reply<'a, ()> {
            Box::pin(async move { self.batch_execute(sql).await.map_err(failure) })
        }
    }
}

#[cfg(feature = "diesel")]
mod synchronous {
    use super::*;
    use crate::conn::Open;
    use crate::conn::error::unavailable;
    use diesel::RunQueryDsl as _;
    use diesel::connection::LoadConnection;
    use futures_util::FutureExt as _;
    use windlass_core::engine::{Enqueue, Enqueued, Item, Lease, SettleItem, Settled};
    use windlass_core::model::Part;
    use windlass_core::{JobId, Result};

    /// A connection whose calls block.
    struct Blocking<'c, C>(&'c mut C);

    impl<C: LoadConnection<Backend = Pg> + Send> Foreign for Blocking<'_, C> {
        fn query<'a>(&'a mut self, sql: &'a str, params: &'a [Param]) -> Reply<'a, Vec<RawRow>> {
            let rows = statement(sql, params)
                .and_then(|statement| statement.load::<Loaded>(self.0).map_err(failure));
            let rows = rows.map(|rows| rows.into_iter().map(|row| row.0).collect());
            Box::pin(std::future::ready(rows))
        }

        fn command<'a>(&'a mut self, sql: &'a str) -> Reply<'a, ()> {
            Box::pin(std::future::ready(self.0.batch_execute(sql).map_err(failure)))
        }
    }

    /// The result of a future that never waits, because the calls of its connection block.
    fn at_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
        let late = || Err(unavailable("a blocking connection did not answer at once"));
        future.now_or_never().unwrap_or_else(late)
    }

    impl Transactional {
        /// [`enqueue`](Self::enqueue) with the synchronous `diesel`; blocks the thread and needs no runtime.
        pub fn enqueue_diesel<C: LoadConnection<Backend = Pg> + Send>(
            &self,
            on: &mut C,
            request: Enqueue,
        ) -> Result<Vec<Item<Enqueued>>> {
            at_once(self.enqueue_on(Open::Foreign(&mut Blocking(on)), request))
        }

        /// [`settle`](Self::settle) with the synchronous `diesel`; blocks the thread and needs no runtime.
        pub fn settle_diesel<C: LoadConnection<Backend = Pg> + Send>(
            &self,
            on: &mut C,
            item: SettleItem,
        ) -> Result<Settled> {
            at_once(self.settle_on(Open::Foreign(&mut Blocking(on)), item))
        }

        /// [`complete`](Self::complete) with the synchronous `diesel`; blocks the thread and needs no runtime.
        pub fn complete_diesel<C: LoadConnection<Backend = Pg> + Send>(
            &self,
            on: &mut C,
            id: JobId,
            lease: &Lease,
            result: Option<Part>,
        ) -> Result<Settled> {
            self.settle_diesel(on, completion(id, lease, result))
        }
    }
}
