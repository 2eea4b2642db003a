//! Redis under clients that lose replies, stall and die.

windlass_kit::histories!(0..3, crate::common::fresh);
