//! The contract through a server in another process, over the local engine: what the kit sees has been
//! through two processes, a socket and a disk.

mod child;

windlass_kit::conformance!(child::fresh);
windlass_kit::histories!(0..2, child::fresh);
windlass_kit::model!(5, child::fresh);
