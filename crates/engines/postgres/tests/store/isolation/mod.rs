//! Databases and roles with settings of their own: another default isolation level, timeouts. Jobs are not lost, and
//! calls are not cancelled.

mod dumps;
mod functions;
mod levels;
mod rig;
mod timeouts;
