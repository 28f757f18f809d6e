//! A line on its way to a file that may be full, hung or gone. Whoever logs is never kept: a line that
//! cannot be written is lost and counted, and the next one that can be says how many were.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, write},
};

use crate::config::LogFormat;

/// What a pipe that says it can be written takes without waiting: `PIPE_BUF` of pipe(7).
const AT_ONCE: usize = 4096;
/// How long a reader that is busy may take, in nanoseconds; one that has missed a line is not waited for.
const PATIENCE: i64 = 20_000_000;

/// A file of lines, as lines are written to it.
pub(super) struct Lines<F> {
    file: F,
    format: LogFormat,
    /// Lines lost since the last one that was written; who holds it writes.
    missed: Mutex<u64>,
    lost: AtomicU64,
}

impl<F: AsFd> Lines<F> {
    pub(super) fn new(file: F, format: LogFormat) -> Self {
        Self { file, format, missed: Mutex::default(), lost: AtomicU64::new(0) }
    }

    /// Lines that were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn put(&self, line: &[u8]) {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = if *missed == 0 { PATIENCE } else { 0 };
        let reported = match *missed {
            0 => Ok(()),
            lost => write_whole(self.file.as_fd(), self.gap(lost).as_bytes(), 0),
        };
        match reported.and_then(|()| write_whole(self.file.as_fd(), line, patience)) {
            Ok(()) => *missed = 0,
            Err(_) => {
                *missed += 1;
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn gap(&self, lost: u64) -> String {
        let what = format!("{lost} lines before this one could not be written, and are lost");
        match self.format {
            LogFormat::Text => format!("WARN {what}\n"),
            LogFormat::Json => format!("{{\"level\":\"WARN\",\"message\":\"{what}\"}}\n"),
        }
    }
}

/// One event is one call: never an error, as nobody could do anything about it.
impl<F: AsFd> io::Write for &Lines<F> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_whole(file: BorrowedFd<'_>, line: &[u8], patience: i64) -> Result<(), Errno> {
    let mut rest = line;
    while !rest.is_empty() {
        match ready(file, patience).and_then(|()| write(file, &rest[..rest.len().min(AT_ONCE)])) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until something can be written without waiting.
fn ready(file: BorrowedFd<'_>, patience: i64) -> Result<(), Errno> {
    let mut asked = [PollFd::from_borrowed_fd(file, PollFlags::OUT)];
    let limit = Timespec { tv_sec: 0, tv_nsec: patience };
    poll(&mut asked, Some(&limit))?;
    match asked[0].revents().contains(PollFlags::OUT) {
        true => Ok(()),
        false => Err(Errno::AGAIN),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::OpenOptions,
        io::{Read, Write},
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn a_full_disk_costs_lines_and_no_error() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let lines = Lines::new(full, LogFormat::Text);
        for _ in 0..3 {
            (&lines).write_all(b"something\n").unwrap();
        }
        assert_eq!(lines.lost(), 3);
    }

    #[test]
    fn a_reader_that_hangs_keeps_nobody_and_hears_later_what_it_missed() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Lines::new(writer, LogFormat::Json);
        let line = [b'x'; 999];
        let begun = Instant::now();
        while lines.lost() < 50 {
            (&lines).write_all(&line).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
        // There is room again, and the next line says what is missing.
        reader.read_exact(&mut [0; 30_000]).unwrap();
        (&lines).write_all(b"\"well\"\n").unwrap();
        drop(lines);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let mut last = text.lines().map(|line| line.trim_start_matches('x')).rev();
        assert_eq!(last.next(), Some("\"well\""));
        let gap: serde_json::Value = serde_json::from_str(last.next().unwrap()).unwrap();
        assert!(gap["message"].as_str().unwrap().starts_with("50 lines"), "{gap}");
    }

    #[test]
    fn a_reader_that_went_is_no_error_either() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let lines = Lines::new(writer, LogFormat::Text);
        (&lines).write_all(b"something\n").unwrap();
        assert_eq!(lines.lost(), 1);
    }
}
