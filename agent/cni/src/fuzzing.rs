//! For the fuzzer (`testbed/fuzz`): each parser of what others write by one function, which takes bytes
//! and panics over what must not be. Nothing else is for it to be called from elsewhere.

use std::collections::BTreeMap;

use crate::{CniError, Invocation, NetworkConfig};

/// What runs a parser over bytes.
pub type Parser = fn(&[u8]);

/// What can be fuzzed, by name.
pub const TARGETS: &[(&str, Parser)] = &[("cni", cni)];

/// What a runtime tells the CNI plugin: variables, one a line, an empty line, and standard input.
pub fn cni(data: &[u8]) {
    let at = data.windows(2).position(|two| two == b"\n\n").unwrap_or(data.len());
    let (head, stdin) = (&data[..at], data.get(at + 2..).unwrap_or_default());
    let head = String::from_utf8_lossy(head);
    let pairs = head.lines().filter_map(|line| line.split_once('='));
    let env: BTreeMap<_, _> =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let version = NetworkConfig::version_of(stdin);
    let said = |error: CniError| {
        assert!(!error.msg.is_empty());
        assert_eq!(error.to_json(version)["cniVersion"], version.as_str());
    };
    match Invocation::parse(&env) {
        Err(error) => said(error),
        Ok(invocation) => {
            assert!(!invocation.container_id.contains(['/', ':']), "{invocation:?}");
            assert!(!invocation.ifname.contains(['/', ':']) && invocation.ifname.len() < 16);
            invocation.owner();
            if let Err(error) = NetworkConfig::parse(stdin, invocation.command) {
                said(error);
            }
        }
    }
}

#[cfg(test)]
mod tests;
