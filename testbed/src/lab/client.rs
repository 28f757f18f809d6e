//! What the client `volvox` says of a node.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Node;

impl Node {
    /// A command of the client, to be run.
    pub fn client(&self, words: &str) -> Command {
        let mut command = Command::new(&self.binaries().client);
        command
            .arg("--socket-path")
            .arg(self.path("cilium.sock"))
            .arg("--bpf-root")
            .arg(self.bpf_root())
            .arg("--state-dir")
            .arg(self.path("cilium"))
            .args(words.split(' '));
        command
    }

    /// What a command that succeeds writes.
    pub fn volvox(&self, words: &str) -> Result<String> {
        let output = self.client(words).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "volvox {words}: {}: {complaint}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What it writes for programs.
    pub fn json(&self, words: &str) -> Result<Value> {
        let text = self.volvox(&format!("-o json {words}"))?;
        serde_json::from_str(&text).with_context(|| format!("volvox {words} wrote {text}"))
    }

    /// The identity that the kernel has for a prefix.
    pub fn mapped(&self, prefix: &str) -> Result<Option<u64>> {
        Ok(self.json("bpf ipcache list")?[prefix]["identity"].as_u64())
    }

    /// Waits until it has that one.
    pub fn wait_until_mapped(&mut self, prefix: &str, identity: Option<u64>) -> Result<()> {
        let complaint = format!("{prefix} has not identity {identity:?}");
        self.wait(&complaint, |node| Ok(node.mapped(prefix)? == identity)).map(drop)
    }

    /// Identities that the policy maps of its pods let in.
    pub fn lets_in(&self) -> Result<Vec<u64>> {
        let rows = self.json("bpf policy list")?;
        let rows = rows.as_array().with_context(|| format!("no list: {rows}"))?;
        Ok(rows.iter().filter_map(|row| row["identity"].as_u64()).collect())
    }
}
