//! The history checker: what it must catch, what it must let pass, and whether it finds broken engines.

mod broken;
mod dependents;
mod driven;
mod faulty;
mod limits;
mod overlaps;
mod script;
mod verdicts;
