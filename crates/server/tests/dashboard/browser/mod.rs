//! The dashboard in a real browser: headless Chromium, driven through chromedriver, over a real server.

mod following;
mod small_screen;
mod webdriver;
