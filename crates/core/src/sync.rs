//! Locks without poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, whether or not a thread panicked while it held the lock.
///
/// Critical sections in this project leave their data valid at every point at which they can panic. One panic must not
/// make every later call fail.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_the_lock_does_not_block_later_callers() {
        let mutex = Mutex::new(1);
        std::thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let mut value = lock(&mutex);
                *value = 2;
                panic!("while the lock is held");
            });
            assert!(panics.join().is_err());
        });
        assert!(mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
    }
}
