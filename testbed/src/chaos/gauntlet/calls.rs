//! The system calls of an agent, as strace wrote them down.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::lab::wait_for;

/// Before the nth call of that name in any thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Moment {
    pub(super) call: String,
    pub(super) nth: u32,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "before {} call {}", self.call, self.nth)
    }
}

/// What strace writes last of a process that was killed.
const END: &str = "+++ killed by SIGKILL +++";
/// They return to nobody, or to who is gone, or go on with another call.
const NO_MOMENTS: [&str; 3] = ["exit", "exit_group", "restart_syscall"];

/// Every moment of a run that was killed in the end.
pub(super) fn moments(file: &Path) -> Result<Vec<Moment>> {
    let mut text = String::new();
    wait_for("strace writes down the last call", || {
        text = fs::read_to_string(file)
            .with_context(|| format!("cannot read {}: is strace installed?", file.display()))?;
        Ok(text.trim_end().ends_with(END))
    })?;
    let moments = parse(&text);
    ensure!(!moments.is_empty(), "strace saw no call");
    Ok(moments)
}

/// Every moment of a while in a life that goes on.
pub(super) fn moments_of_the_living(file: &Path) -> Result<Vec<Moment>> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read {}: is strace installed?", file.display()))?;
    let moments = parse(&text);
    ensure!(!moments.is_empty(), "strace saw no call");
    Ok(moments)
}

fn parse(text: &str) -> Vec<Moment> {
    let mut threads: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut most: BTreeMap<&str, u32> = BTreeMap::new();
    for line in text.lines() {
        // The ends of calls begin with <, signals with -, ends of threads with +.
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        let is_name =
            name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
        if name.is_empty() || !is_name || NO_MOMENTS.contains(&name) {
            continue;
        }
        let count = threads.entry((thread, name)).or_default();
        *count += 1;
        let most = most.entry(name).or_default();
        *most = (*most).max(*count);
    }
    let each = most
        .into_iter()
        .flat_map(|(call, most)| (1..=most).map(move |nth| Moment { call: call.to_owned(), nth }));
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_in_each_thread() {
        let text = "7 execve(\"a\", [\"b(\"]) = 0\n\
                    7 read(3, \"x\", 1) = 1\n\
                    8 read(3,  <unfinished ...>\n\
                    7 read(4, \"y\", 1) = 1\n\
                    8 <... read resumed>\"(\", 1) = 1\n\
                    8 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
                    7 exit_group(0) = ?\n\
                    8 +++ killed by SIGKILL +++\n";
        let all: Vec<_> = parse(text).iter().map(ToString::to_string).collect();
        assert_eq!(all, ["before execve call 1", "before read call 1", "before read call 2"]);
    }
}
