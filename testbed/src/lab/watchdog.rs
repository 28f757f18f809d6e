//! A test that hangs ends, and says what each process of its lab was waiting for.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process, thread,
    time::Duration,
};

/// Longer than any test takes, and longer than a test waits for one thing (`PATIENCE`).
const LIMIT: Duration = Duration::from_secs(900);

/// Ends this process with an error, and with it the lab, if the test still runs after the limit.
pub(super) fn start(test: &str) {
    let test = test.to_owned();
    thread::spawn(move || {
        thread::sleep(LIMIT);
        let reported = format!(
            "{test} still runs after {LIMIT:?}. Its processes, and what each thread waits for:\n{}",
            threads(Path::new("/proc"))
        );
        let _ = io::stderr().write_all(reported.as_bytes());
        process::exit(1);
    });
}

/// One line a thread: process, thread, name, state, tracer, and the kernel's function it sleeps in.
fn threads(proc: &Path) -> String {
    let mut lines = String::new();
    for process in numbers(proc) {
        for thread in numbers(&proc.join(format!("{process}/task"))) {
            let read = |file: &str| {
                let file = proc.join(format!("{process}/task/{thread}/{file}"));
                fs::read_to_string(file).unwrap_or_default()
            };
            let status = read("status");
            let field = |name: &str| {
                let value = status.lines().find_map(|line| line.strip_prefix(name));
                value.unwrap_or("?").trim().to_owned()
            };
            let (name, state) = (field("Name:"), field("State:"));
            let (tracer, sleeps_in) = (field("TracerPid:"), read("wchan"));
            lines += &format!("{process} {thread} {name}: {state}, tracer {tracer}, {sleeps_in}\n");
        }
    }
    lines
}

fn numbers(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<_> = names.collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_thread_and_what_it_sleeps_in() {
        let own = process::id();
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let sleeper =
            thread::Builder::new().name("sleeper".into()).spawn(move || wait.recv()).unwrap();
        let all = loop {
            let all = threads(Path::new("/proc"));
            let asleep = |line: &&str| line.contains("sleeper: S");
            if let Some(line) = all.lines().find(asleep) {
                break line.to_owned();
            }
        };
        assert!(all.starts_with(&format!("{own} ")), "{all}");
        drop(stop);
        assert!(sleeper.join().unwrap().is_err());
    }
}
