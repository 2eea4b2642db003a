//! Partitions, and the retention that goes by them: they are there before anybody needs them, and many ended jobs go at
//! once; while whoever is in the way holds up nobody.

mod ahead;
#[path = "../common/mod.rs"]
mod common;
mod cursor;
mod ghosts;
mod going;
mod on_the_way;
mod patience;
mod replays;
mod rig;
mod said;
mod services;
mod stale_surveys;
