//! Coalesce over the memory engine under clients that lose replies, stall and die.

mod common;

windlass_kit::histories!(0..10, common::fresh);
