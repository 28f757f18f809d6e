//! The kernel's network parameters.
//!
//! They are read first and written only if they differ: a write of `ip_forward` alone resets
//! other parameters of every interface, even if it changes nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A parameter that cannot be set, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("set {path} to {value}: {source}; {remedy}")]
pub struct SysctlError {
    /// The parameter's file.
    pub path: String,
    /// The value desired.
    pub value: &'static str,
    /// The system's error.
    pub source: io::Error,
    /// What an operator can do.
    pub remedy: &'static str,
}

/// The parameters of the calling thread's network namespace.
#[derive(Clone, Debug)]
pub struct Sysctl {
    root: PathBuf,
}

impl Default for Sysctl {
    fn default() -> Self {
        Self::at("/proc/sys/net")
    }
}

impl Sysctl {
    /// Parameters below a directory that stands for `/proc/sys/net`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Lets the node forward packets, without which no pod reaches another node.
    ///
    /// A node that forwards IPv6 stops listening to router advertisements, and with the next one
    /// that it misses loses its default route; interfaces that listen are told to go on (2).
    pub fn enable_forwarding(&self, ipv4: bool, ipv6: bool) -> Result<(), SysctlError> {
        if ipv4 {
            self.set("ipv4/ip_forward", "1")?;
            self.set("ipv4/conf/all/forwarding", "1")?;
        }
        if ipv6 {
            if self.get("ipv6/conf/all/forwarding").as_deref() != Some("1") {
                self.keep_router_advertisements()?;
            }
            self.set("ipv6/conf/all/forwarding", "1")?;
        }
        Ok(())
    }

    /// Prepares the host side of an endpoint that is not up yet. The datapath checks source addresses
    /// itself, and a container is no router. Nobody else can have the node's address there: while the
    /// kernel asked for that, a second or two, what it forwards to a new pod by IPv6 would wait; it does
    /// still where somebody has set `conf/all/accept_dad`, which is 0 by default.
    pub fn prepare_host_side(&self, ifname: &str) -> Result<(), SysctlError> {
        self.set(&format!("ipv4/conf/{ifname}/rp_filter"), "0")?;
        self.set(&format!("ipv4/conf/{ifname}/forwarding"), "1")?;
        if self.root.join("ipv6/conf").join(ifname).is_dir() {
            self.set(&format!("ipv6/conf/{ifname}/accept_ra"), "0")?;
            self.set(&format!("ipv6/conf/{ifname}/accept_dad"), "0")?;
        }
        Ok(())
    }

    /// Has IPv6 forwarded at the host side of an endpoint with an IPv6 address. Any other goes without: a
    /// change of that waits for the kernel's lock over all interfaces (RTNL), and asks for it over and over while
    /// others have it.
    pub fn forward_ipv6(&self, ifname: &str) -> Result<(), SysctlError> {
        if self.root.join("ipv6/conf").join(ifname).is_dir() {
            self.set(&format!("ipv6/conf/{ifname}/forwarding"), "1")?;
        }
        Ok(())
    }

    /// Prepares an interface by which packets come from other nodes: what comes by it may be meant
    /// for anybody, and may have left for there by another one.
    pub fn prepare_device(&self, ifname: &str) -> Result<(), SysctlError> {
        let set = |(parameter, value): (String, _)| self.set(&parameter, value);
        self.of_device(ifname).into_iter().try_for_each(set)
    }

    /// Whether [`prepare_device`](Self::prepare_device) has nothing to do.
    pub fn is_prepared(&self, ifname: &str) -> bool {
        let is_so =
            |(parameter, value): &(String, _)| self.get(parameter).as_deref() == Some(*value);
        self.of_device(ifname).iter().all(is_so)
    }

    /// Whether the kernel drops, at every interface whatever is said of it alone, packets whose
    /// source is reached by another one.
    pub fn is_strict(&self) -> bool {
        self.get("ipv4/conf/all/rp_filter").as_deref() == Some("1")
    }

    fn of_device(&self, ifname: &str) -> Vec<(String, &'static str)> {
        let mut all = vec![("ipv4", "rp_filter", "0"), ("ipv4", "forwarding", "1")];
        if self.root.join("ipv6/conf").join(ifname).is_dir() {
            // Who forwards listens to no router, and the kernel resets that at the change.
            let ipv6 = [("disable_ipv6", "0"), ("forwarding", "1"), ("accept_ra", "0")];
            all.extend(ipv6.map(|(name, value)| ("ipv6", name, value)));
        }
        let path = |(family, name, value)| (format!("{family}/conf/{ifname}/{name}"), value);
        all.into_iter().map(path).collect()
    }

    /// Prepares the interface inside a container for an IPv6 address: runtimes switch IPv6 off.
    pub fn enable_ipv6(&self, ifname: &str) -> Result<(), SysctlError> {
        self.set(&format!("ipv6/conf/{ifname}/disable_ipv6"), "0")?;
        self.set(&format!("ipv6/conf/{ifname}/accept_ra"), "0")
    }

    fn keep_router_advertisements(&self) -> Result<(), SysctlError> {
        let Ok(interfaces) = fs::read_dir(self.root.join("ipv6/conf")) else { return Ok(()) };
        for interface in interfaces.flatten() {
            let parameter = Path::new("ipv6/conf").join(interface.file_name()).join("accept_ra");
            let parameter = parameter.to_string_lossy();
            if self.get(&parameter).as_deref() == Some("1") {
                self.set(&parameter, "2")?;
            }
        }
        Ok(())
    }

    fn get(&self, parameter: &str) -> Option<String> {
        fs::read_to_string(self.root.join(parameter)).ok().map(|text| text.trim().to_owned())
    }

    fn set(&self, parameter: &str, value: &'static str) -> Result<(), SysctlError> {
        if self.get(parameter).as_deref() == Some(value) {
            return Ok(());
        }
        let path = self.root.join(parameter);
        fs::write(&path, value).map_err(|source| SysctlError {
            path: path.display().to_string(),
            value,
            remedy: match source.kind() {
                io::ErrorKind::NotFound => {
                    "the kernel lacks this protocol, or the interface is gone"
                }
                _ => "mount /proc/sys/net writable, or set it before the start",
            },
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(parameters: &[(&str, &str)]) -> (tempfile::TempDir, Sysctl) {
        let dir = tempfile::tempdir().unwrap();
        for (parameter, value) in parameters {
            let path = dir.path().join(parameter);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        let sysctl = Sysctl::at(dir.path());
        (dir, sysctl)
    }

    #[test]
    fn forwarding_keeps_router_advertisements_of_those_who_listen() {
        let (_dir, sysctl) = tree(&[
            ("ipv4/ip_forward", "0\n"),
            ("ipv4/conf/all/forwarding", "0\n"),
            ("ipv6/conf/all/forwarding", "0\n"),
            ("ipv6/conf/eth0/accept_ra", "1\n"),
            ("ipv6/conf/eth1/accept_ra", "0\n"),
        ]);
        sysctl.enable_forwarding(true, true).unwrap();
        assert_eq!(sysctl.get("ipv4/ip_forward").unwrap(), "1");
        assert_eq!(sysctl.get("ipv6/conf/all/forwarding").unwrap(), "1");
        assert_eq!(sysctl.get("ipv6/conf/eth0/accept_ra").unwrap(), "2");
        assert_eq!(sysctl.get("ipv6/conf/eth1/accept_ra").unwrap(), "0");
    }

    #[test]
    fn what_is_right_is_not_written() {
        let (_dir, sysctl) = tree(&[("ipv4/ip_forward", "1\n"), ("ipv4/conf/all/forwarding", "1")]);
        sysctl.enable_forwarding(true, false).unwrap();
        // A write would have lost the newline.
        let raw = fs::read_to_string(sysctl.root.join("ipv4/ip_forward")).unwrap();
        assert_eq!(raw, "1\n");
    }

    #[test]
    fn an_interface_to_other_nodes_is_prepared_once() {
        let (_dir, sysctl) = tree(&[
            ("ipv4/conf/all/rp_filter", "1\n"),
            ("ipv4/conf/cilium_vxlan/rp_filter", "2\n"),
            ("ipv4/conf/cilium_vxlan/forwarding", "0\n"),
            ("ipv6/conf/cilium_vxlan/disable_ipv6", "1\n"),
            ("ipv6/conf/cilium_vxlan/forwarding", "0\n"),
            ("ipv6/conf/cilium_vxlan/accept_ra", "1\n"),
        ]);
        assert!(sysctl.is_strict() && !sysctl.is_prepared("cilium_vxlan"));
        sysctl.prepare_device("cilium_vxlan").unwrap();
        assert!(sysctl.is_prepared("cilium_vxlan"));
        let rp_filter = sysctl.root.join("ipv4/conf/cilium_vxlan/rp_filter");
        assert_eq!(fs::read_to_string(&rp_filter).unwrap(), "0");
        fs::write(&rp_filter, "0\n").unwrap();
        sysctl.prepare_device("cilium_vxlan").unwrap();
        assert_eq!(fs::read_to_string(&rp_filter).unwrap(), "0\n", "it was right");
    }

    #[test]
    fn an_absent_interface_is_named() {
        let (_dir, sysctl) = tree(&[]);
        let error = sysctl.prepare_host_side("lxc1").unwrap_err().to_string();
        assert!(error.contains("ipv4/conf/lxc1/rp_filter") && error.contains("gone"), "{error}");
    }
}
