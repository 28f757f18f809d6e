//! One heap for all threads.
//!
//! What one thread reads (a state file, a dump of a map) another one keeps or frees. With a heap
//! for each thread, as glibc gives them, what is freed is not to be had where memory is desired
//! next: a restart of 1,000 endpoints took a sixth more.

/// Has every thread allocate from one heap. Call before there are threads.
pub fn share() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two numbers; there is no other thread yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives free pages back to the kernel, also those between what is used.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes a number; other threads allocate meanwhile as ever.
    unsafe {
        libc::malloc_trim(0);
    }
}
