//! Prometheus' own tool on what an agent answers to a scrape.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Complaints about names that are Cilium's, with which its dashboards and alerts find them: none.
const EXCEPTIONS: [&str; 0] = [];

/// Fails where `promtool check metrics` has something to say of this text.
pub(crate) fn check(metrics: &str) -> Result<()> {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start promtool: install the package prometheus")?;
    let mut stdin = child.stdin.take().context("piped above")?;
    stdin.write_all(metrics.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let said = String::from_utf8([output.stdout, output.stderr].concat())?;
    let is_excepted = |line: &&str| EXCEPTIONS.iter().any(|it| it == line);
    let wrong: Vec<_> = said.lines().filter(|line| !is_excepted(line)).collect();
    ensure!(wrong.is_empty(), "promtool: {wrong:?}");
    Ok(())
}
