//! The history checker on the local engine, with clients that lose replies, stall and die.

mod common;

windlass_kit::histories!(0..5, common::fresh);
