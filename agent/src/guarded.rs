//! Work in a library that panics over what it was given, such as a damaged file: here that is an error
//! like any other.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread is an error that somebody handles, and so is not worth a line.
pub(crate) fn is_guarded() -> bool {
    GUARDED.get()
}

/// Does some work; if it panics, the error is what it said. What the work was about must not be used
/// again.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.map_err(|panic| message(&*panic).unwrap_or("a panic without a message").to_owned())
}

/// What a panic says.
pub(crate) fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        assert_eq!(guarded(|| 7), Ok(7));
        let failed: Result<(), _> = guarded(|| panic!("page {} is gone", 3));
        assert_eq!(failed, Err("page 3 is gone".to_owned()));
        assert!(!is_guarded());
    }
}
