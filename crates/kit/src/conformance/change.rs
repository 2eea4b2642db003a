//! Operators changing jobs from outside.
