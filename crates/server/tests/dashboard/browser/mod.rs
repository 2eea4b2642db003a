//! The dashboard in a real browser: headless Chromium, driven through chromedriver, over a real server.

mod accessibility;
mod appearance;
mod dead_letters;
mod finding;
mod following;
mod roles;
mod samples;
mod small_screen;
mod webdriver;
