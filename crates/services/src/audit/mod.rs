//! The audit log: who did what to a store, and when. Independent of the set of actions. Never contains
//! payloads or secrets.

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
