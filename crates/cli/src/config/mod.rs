//! The configuration of a process: tables of all settings (`sections`), merged from flags, environment
//! variables, a file and defaults (`load`), printed (`example`, `show`), applied to the store (`apply`) and
//! reloaded while the server runs (`reload`). It must not know how the configured parts work.

mod apply;
mod example;
mod field;
mod file;
mod held;
mod key_host;
mod load;
mod log;
mod mistake;
mod reload;
mod sections;
mod show;
mod tree;
mod value;

pub(crate) use apply::Setup;
pub(crate) use example::example;
pub(crate) use load::{Config, FILE_DEFAULT, Flag, Inputs};
pub(crate) use log::LogHandle;
pub(crate) use reload::Reloader;
pub(crate) use sections::Traces as TracesSection;
pub(crate) use show::{show, summary};
pub(crate) use value::time;
