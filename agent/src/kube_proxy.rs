//! Whether a kube-proxy serves on this node, as far as its rules tell: each of its ways to serve has a name of
//! its own in the kernel. Nothing is changed, and nothing is started.

use std::{fs, io, path::Path};

use volvox_system::netlink::{Netfilter, Socket, TableFamily};

/// What there is of a kube-proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeProxy {
    /// Rules that only it makes: what they are called.
    Rules(String),
    /// None of its rules, whatever its mode.
    Absent,
    /// Nobody can say.
    Unknown,
}

impl KubeProxy {
    /// Looks for it in the calling thread's network namespace. `procfs` is where the proc file system is.
    pub fn look(procfs: &Path) -> Self {
        seen(procfs).unwrap_or_else(|error| {
            tracing::debug!(%error, "whether a kube-proxy serves cannot be seen");
            Self::Unknown
        })
    }
}

fn seen(procfs: &Path) -> io::Result<KubeProxy> {
    let mut netfilter = match Netfilter::open() {
        // A kernel without netfilter has no rules of it.
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => {
            return Ok(KubeProxy::Absent);
        }
        opened => opened?,
    };
    for (family, name) in [(TableFamily::Ipv4, "ip"), (TableFamily::Ipv6, "ip6")] {
        if netfilter.has_chain(family, "nat", "KUBE-SERVICES")? {
            return Ok(KubeProxy::Rules(format!("chain KUBE-SERVICES of table {name} nat")));
        }
        if netfilter.has_table(family, "kube-proxy")? {
            return Ok(KubeProxy::Rules(format!("table {name} kube-proxy")));
        }
    }
    let mut links = Socket::open().map_err(io::Error::other)?;
    if links.link_by_name("kube-ipvs0").map_err(io::Error::other)?.is_some() {
        return Ok(KubeProxy::Rules("interface kube-ipvs0 of ipvs".to_owned()));
    }
    // Rules of older programs of iptables are not to be asked for by name.
    let has_older = ["ip_tables_names", "ip6_tables_names"].into_iter().any(|name| {
        let names = fs::read_to_string(procfs.join("net").join(name)).unwrap_or_default();
        names.lines().any(|table| table == "nat")
    });
    Ok(if has_older { KubeProxy::Unknown } else { KubeProxy::Absent })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use volvox_system::netns::Netns;

    use super::*;

    #[test]
    fn it_is_known_by_its_chain_and_not_by_other_rules() {
        let test = || {
            let rules = |arguments: &[&str]| {
                let status = Command::new("iptables-nft").args(arguments).status();
                assert!(status.expect("iptables is installed").success(), "{arguments:?}");
            };
            let proc = tempfile::tempdir().unwrap();
            let look = || KubeProxy::look(proc.path());
            assert_eq!(look(), KubeProxy::Absent);
            rules(&["-t", "nat", "-A", "OUTPUT", "-d", "192.0.2.1", "-j", "ACCEPT"]);
            assert_eq!(look(), KubeProxy::Absent);
            rules(&["-t", "nat", "-N", "KUBE-SERVICES"]);
            let rules_of = "chain KUBE-SERVICES of table ip nat".to_owned();
            assert_eq!(look(), KubeProxy::Rules(rules_of));
            rules(&["-t", "nat", "-X", "KUBE-SERVICES"]);
            fs::create_dir(proc.path().join("net")).unwrap();
            fs::write(proc.path().join("net/ip_tables_names"), "filter\nnat\n").unwrap();
            assert_eq!(look(), KubeProxy::Unknown, "nobody guesses");
        };
        Netns::create().unwrap().run(test).unwrap();
    }
}
