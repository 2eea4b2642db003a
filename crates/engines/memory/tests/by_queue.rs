//! The memory engine with the queue as its largest atomic step, against the whole contract.

mod common;

windlass_kit::conformance!(common::by_queue);
windlass_kit::histories!(0..10, common::by_queue);
