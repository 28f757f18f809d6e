//! Threads, started with patience: where the limit of threads or of memory is met for a moment, as beside
//! a hundred starting pods, the start is tried again before it fails.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Pauses between two attempts, in milliseconds: half a second in all.
const PAUSES_MS: [u64; 5] = [10, 30, 60, 150, 250];

/// Starts a thread of that name.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // What a failed attempt takes with it is gone, so none takes the work itself.
    let work = Arc::new(Mutex::new(Some(work)));
    let attempt = || {
        let work = Arc::clone(&work);
        let run = move || {
            let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            work.expect("one attempt succeeds")()
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)
    };
    for pause in PAUSES_MS {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(pause))
            }
            done => return done,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_name_and_does_its_work_once() {
        let name = || thread::current().name().map(ToOwned::to_owned);
        assert_eq!(spawn("worker-7", name).unwrap().join().unwrap().as_deref(), Some("worker-7"));
    }
}
