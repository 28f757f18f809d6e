//! How many CPUs this machine may ever have: per-CPU maps and event rings have one place for each.

use std::{fs, io};

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// Number of possible CPUs.
pub fn possible() -> io::Result<usize> {
    let list = fs::read_to_string(POSSIBLE)?;
    parse(list.trim()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{POSSIBLE}: {list:?} is no CPU list"))
    })
}

/// The number behind the last CPU of a list such as `0-3,8`.
pub fn parse(list: &str) -> Option<usize> {
    let last = list.rsplit([',', '-']).next()?;
    last.parse::<usize>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_holes_too() {
        assert_eq!(parse("0"), Some(1));
        assert_eq!(parse("0-1"), Some(2));
        assert_eq!(parse("0-3,8-11"), Some(12));
        assert_eq!(parse(""), None);
    }
}
