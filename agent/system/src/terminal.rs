//! What a program says to whoever started it. Nobody may listen any more: a closed pipe or a full
//! disk costs the line, never the work, where `println!` would panic half-way.

use std::{
    fmt,
    io::{self, Write},
};

/// Writes a line to standard output, as `println!` does.
#[macro_export]
macro_rules! say {
    ($($line:tt)*) => { $crate::terminal::say(format_args!($($line)*)) };
}

/// Writes a line to standard error, as `eprintln!` does.
#[macro_export]
macro_rules! complain {
    ($($line:tt)*) => { $crate::terminal::complain(format_args!($($line)*)) };
}

/// Writes a line to standard output if somebody reads it.
pub fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Writes a line to standard error if somebody reads it.
pub fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
