//! Authentication and authorization: keys, permissions, the dashboard's login, the audit log.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod audit;
mod late;
mod login;
mod matrix;
mod pace;
mod refresh;
mod scopes;
mod support;
mod tls;
