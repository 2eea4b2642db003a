//! Catches panics of handlers with message, location and backtrace. Other panics of the process are
//! unaffected.
//!
//! Only the panic hook sees the location and the backtrace. This module's hook is installed once and always
//! calls the previous hook (crash reporters rely on it); it records something only on a thread that is inside
//! [`catch`]. If the program replaces the hook later, the message is still available.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;
use windlass_core::model::JobError;

use crate::stop::code;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<Caught>> = const { RefCell::new(None) };
}

struct Caught {
    place: String,
    backtrace: Backtrace,
}

/// Prefixes of frames that belong to panicking, catching and calling, not to the handler.
const MACHINERY: &[&str] = &[
    "core::ops::function::",
    "core::panic::",
    "core::panicking::",
    "std::backtrace",
    "std::panicking::",
    "std::sys::",
    "catch_unwind<",
    "do_call<",
    "rust_begin_unwind",
    "__rust_try",
    "windlass_worker::panics::install_hook",
    "windlass_worker::panics::remember",
];
/// The frame from which on the backtrace belongs to the worker, not to the handler.
const LAST: &str = "windlass_worker::panics::catch";

/// Installs the hook in front of the current one. Repeated calls have no effect.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if INSIDE.get() {
                remember(info);
            }
            previous(info);
        }));
    });
}

fn remember(info: &PanicHookInfo<'_>) {
    let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
    CAUGHT.set(Some(Caught { place, backtrace: Backtrace::force_capture() }));
}

/// Runs part of a handler; returns a panic as the error to report.
pub(crate) fn catch<T>(piece: impl FnOnce() -> T) -> Result<T, JobError> {
    let outer = INSIDE.replace(true);
    let caught = catch_unwind(AssertUnwindSafe(piece));
    INSIDE.set(outer);
    caught.map_err(|panic| {
        let error = describe(&*panic, CAUGHT.take());
        // A panic payload can be any value, and dropping it may panic again.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(panic)));
        error
    })
}

fn describe(panic: &(dyn Any + Send), caught: Option<Caught>) -> JobError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    let message = match caught {
        Some(Caught { place, backtrace }) => {
            format!("{text}{place}\n{}", own_frames(&backtrace.to_string()))
        }
        None => text.to_owned(),
    };
    JobError::new(code::PANIC, message).bounded()
}

/// The backtrace frames of the handler itself, each with its source location.
fn own_frames(backtrace: &str) -> String {
    let mut own = String::new();
    let mut keep = false;
    for line in backtrace.lines() {
        let is_place = line.trim_start().starts_with("at ");
        if !is_place {
            if line.contains(LAST) {
                break;
            }
            keep = !MACHINERY.iter().any(|mark| line.contains(mark));
        }
        if keep {
            own.push_str(line);
            own.push('\n');
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_with_message_place_and_backtrace() {
        install_hook();
        let error = catch(|| panic!("out of {}", "ink")).unwrap_err();
        assert_eq!(error.code, code::PANIC);
        assert!(error.message.starts_with("out of ink at "), "{error}");
        assert!(error.message.contains("panics.rs:"), "{error}");
        assert!(error.message.contains("a_panic_is_caught"), "{error}");
        assert!(!error.message.contains("panicking"), "{error}");
        assert!(!error.message.contains("catch_unwind"), "{error}");
    }

    #[test]
    fn a_panic_that_panics_again_when_dropped_is_caught_too() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        let error = catch(|| std::panic::panic_any(Bomb)).unwrap_err();
        assert!(error.message.starts_with("a panic without a message"), "{error}");
    }

    #[test]
    fn a_panic_elsewhere_is_not_remembered() {
        install_hook();
        assert!(catch_unwind(|| panic!("not ours")).is_err());
        assert!(CAUGHT.take().is_none());
    }
}
