//! The dashboard through its public interface: pages over TCP and in a browser, with a real engine.

mod actions;
mod bounds;
mod browser;
mod bulk;
mod guarded;
mod live;
mod pages;
mod support;
