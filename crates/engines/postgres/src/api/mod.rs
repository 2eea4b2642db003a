//! What applications and administrators use besides the engine: enqueueing inside a transaction, SQL functions, grants,
//! and the schema with its migrations.

pub(crate) mod by_sql;
pub(crate) mod field_index;
pub(crate) mod grants;
pub(crate) mod joining;
pub(crate) mod migrate;
pub(crate) mod schema;
mod transactional;
