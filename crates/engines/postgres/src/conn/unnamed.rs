//! Unnamed statements, parsed each time: for connections that keep no prepared statements, and for single statements.

use crate::conn::Params;
use crate::conn::error::Try;
use bytes::BytesMut;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use windlass_core::sync::lock;

/// All types of parameters in our statements.
const TYPES: [Type; 14] = [
    Type::INT8,
    Type::INT4,
    Type::INT2,
    Type::BOOL,
    Type::TEXT,
    Type::UUID,
    Type::BYTEA,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::INT2_ARRAY,
    Type::BOOL_ARRAY,
    Type::TEXT_ARRAY,
    Type::UUID_ARRAY,
    Type::BYTEA_ARRAY,
];

/// Cache of the parameter types of each statement.
#[derive(Default)]
pub(crate) struct Types {
    known: Mutex<HashMap<&'static str, Arc<[Type]>>>,
}

/// Parameters with their types.
pub(crate) type Typed<'a> = Vec<(&'a (dyn ToSql + Sync), Type)>;

impl Types {
    pub(crate) fn of<'a>(&self, sql: &'static str, params: Params<'a>) -> Typed<'a> {
        let mut known = lock(&self.known);
        let types = known.entry(sql).or_insert_with(|| params.iter().map(type_of).collect());
        params.iter().copied().zip(types.iter().cloned()).collect()
    }
}

/// The type as which a value can be sent. An unsupported value fails when it is sent.
fn type_of(value: &&(dyn ToSql + Sync)) -> Type {
    let fits = |kind: &&Type| value.to_sql_checked(kind, &mut BytesMut::new()).is_ok();
    TYPES.iter().find(fits).cloned().unwrap_or(Type::UNKNOWN)
}

/// Runs a single statement on a plain connection.
pub(crate) async fn ask(client: &Client, sql: &str, params: Params<'_>) -> Try<Vec<Row>> {
    let params: Typed<'_> = params.iter().map(|value| (*value, type_of(value))).collect();
    Ok(client.query_typed(sql, &params).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn values_of_every_kind_we_use_have_their_type() {
        let values: [(&(dyn ToSql + Sync), Type); 9] = [
            (&1_i64, Type::INT8),
            (&None::<i16>, Type::INT2),
            (&"text", Type::TEXT),
            (&String::new(), Type::TEXT),
            (&Some(Uuid::nil()), Type::UUID),
            (&None::<Vec<&str>>, Type::TEXT_ARRAY),
            (&vec![None::<&[u8]>], Type::BYTEA_ARRAY),
            (&Vec::<Uuid>::new(), Type::UUID_ARRAY),
            (&vec![true], Type::BOOL_ARRAY),
        ];
        for (value, expected) in values {
            assert_eq!(type_of(&value), expected, "{value:?}");
        }
    }
}
