//! A store shared by processes, applications and roles: migrations, privileges, isolation levels, transactions, TLS.

#[path = "../common/bouncer.rs"]
mod bouncer;
#[path = "../common/mod.rs"]
mod common;

mod breaker;
mod busy;
mod by_sql;
mod dead_bytes;
#[cfg(all(feature = "sqlx", feature = "diesel", feature = "diesel-async"))]
mod drivers;
mod events;
mod fans;
mod fields;
mod isolation;
mod joined;
mod lock_order;
mod migrations;
mod parity;
mod payloads;
mod roles;
mod sharing;
mod tls;
mod topics;
mod transactional;
mod wakeups;
