//! The dashboard as people get it: pages over TCP and in a browser, with a real engine behind them.

mod actions;
mod bounds;
mod browser;
mod guarded;
mod live;
mod pages;
mod support;
