//! The audit log: who did what to a store, and when. It keeps what it is told; it must not know which
//! actions there are. Payloads and secrets have no place in it.

mod action;
mod audited;
mod describe;
mod entry;
mod log;
mod sweep;

pub use action::Action;
pub use audited::Audited;
pub(crate) use entry::is_entry;
pub use log::{Audit, AuditPage, AuditQuery, AuditRow};
