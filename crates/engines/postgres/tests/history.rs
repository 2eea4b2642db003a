//! PostgreSQL under clients that lose replies, stall and die.

mod common;

windlass_kit::histories!(0..3, common::fresh);
