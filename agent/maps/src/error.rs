//! Errors of the datapath: each names what failed and what an operator can do about it. Error
//! numbers of the kernel become the refusals that the actors know.

use std::{io, path::PathBuf};

use volvox_actors::ports::{KernelError, Refusal};
use volvox_system::netlink::NetlinkError;

/// Why the datapath cannot be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum DatapathError {
    /// The directory is not on a BPF file system.
    #[error(
        "{path:?} is not on a BPF file system; mount one with `mount -t bpf bpf {path:?}`, where \
         it outlives the agent, or name another with --bpf-root"
    )]
    NoBpffs {
        /// What was given as `--bpf-root`.
        path: PathBuf,
    },
    /// Something cannot be made on the BPF file system.
    #[error("{op} {path:?}: {cause}; {remedy}")]
    Bpffs {
        /// What was tried, as a verb.
        op: &'static str,
        /// File or directory.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
        /// What an operator can do.
        remedy: &'static str,
    },
    /// A pinned map is of another layout, and its rows cannot be taken over.
    #[error(
        "map {name} pinned at {path:?} is of another layout: found {found}, wanted {desired}; \
         stop what uses it and remove the pin, or name another directory with --bpf-root"
    )]
    Layout {
        /// The map's name.
        name: String,
        /// Where it is pinned.
        path: PathBuf,
        /// Its type and sizes.
        found: String,
        /// Type and sizes that this version works with.
        desired: String,
    },
    /// The rows of a pinned map do not fit into one of the size asked for.
    #[error(
        "map {name} has more rows than the {desired} asked for ({cause}); ask for at least {found}"
    )]
    TooSmall {
        /// The map's name.
        name: String,
        /// Rows that the pinned map has room for.
        found: u32,
        /// Rows that were asked for.
        desired: u32,
        /// The system's words.
        cause: io::Error,
    },
    /// There is no cgroup where sockets are to be balanced.
    #[error(
        "{path:?} is no cgroup of version 2 ({cause}); mount them with `mount -t cgroup2 cgroup2 \
         {path:?}`, name another with --cgroup-root, or say --bpf-lb-sock=false"
    )]
    NoCgroup {
        /// What was given as `--cgroup-root`.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
    /// The kernel cannot do something that is needed.
    #[error("this kernel lacks {feature} ({cause}); {remedy}")]
    Feature {
        /// What is lacking.
        feature: &'static str,
        /// The system's words.
        cause: io::Error,
        /// What an operator can do.
        remedy: &'static str,
    },
    /// The programs cannot be loaded.
    #[error("load the programs: {cause}; the ones that are attached go on serving")]
    Load {
        /// The loader's words, with the verifier's where it was the verifier that refused.
        cause: String,
    },
    /// A step in the kernel failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The links of this network namespace cannot be read or changed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// An error of the kernel, told as the actors understand it.
pub fn refused(op: &'static str, about: impl Into<String>, error: &io::Error) -> KernelError {
    let about = about.into();
    let (refusal, mut remedy) = judge(error.raw_os_error().unwrap_or_default());
    if refusal == Refusal::MapFull {
        remedy = more_room(&about);
    }
    KernelError { op, about, cause: error.to_string(), remedy, refusal }
}

/// How the names of Cilium's programs begin. Ours have the same names, and maps that tell them apart.
pub const CILIUM_PROGRAMS: &str = "cil_";

/// Another agent's program stands where one of ours is to run, and is not replaced.
pub fn foreign(program: u32, name: &str) -> KernelError {
    let (cause, remedy) = match name.starts_with(CILIUM_PROGRAMS) {
        true => (
            "it is Cilium's, and goes on serving",
            "ask `volvox migrate check` what a takeover keeps, then start the agent with \
             --take-over=cilium; or stop Cilium and remove its programs by its own clean-up",
        ),
        false => (
            "it is neither this agent's nor Cilium's",
            "stop who attached it and remove it (`bpftool net`, `bpftool cgroup` show where it \
             runs), or leave that place to it",
        ),
    };
    KernelError {
        op: "replace",
        about: format!("program {program} ({name})"),
        cause: cause.to_owned(),
        remedy,
        refusal: Refusal::Denied,
    }
}

/// The flag by which a map has room for more rows, if there is one.
pub fn size_flag(map: &str) -> Option<&'static str> {
    let map = map.strip_prefix("cilium_").unwrap_or(map);
    Some(match map {
        "ct4_global" | "ct6_global" => "--bpf-ct-global-tcp-max",
        "ct_any4_global" | "ct_any6_global" => "--bpf-ct-global-any-max",
        "snat_v4_external" | "snat_v6_external" => "--bpf-nat-global-max",
        "policy_v2" => "--bpf-policy-map-max",
        // What sockets asked for has a size of its own.
        "lb4_reverse_sk" | "lb6_reverse_sk" => return None,
        map if map.starts_with("lb") => "--bpf-lb-map-max",
        _ => return None,
    })
}

/// What helps where a map has no room.
fn more_room(about: &str) -> &'static str {
    let map = about.strip_prefix("map ").unwrap_or(about);
    // Slots hold policy maps.
    let map = if map.starts_with("volvox_policy slot") { "policy_v2" } else { map };
    match size_flag(map) {
        Some("--bpf-ct-global-tcp-max") => {
            "the map is full: give it more entries by --bpf-ct-global-tcp-max"
        }
        Some("--bpf-ct-global-any-max") => {
            "the map is full: give it more entries by --bpf-ct-global-any-max"
        }
        Some("--bpf-nat-global-max") => {
            "the map is full: give it more entries by --bpf-nat-global-max"
        }
        Some("--bpf-policy-map-max") => {
            "the map is full: give it more entries by --bpf-policy-map-max"
        }
        Some("--bpf-lb-map-max") => "the map is full: give it more entries by --bpf-lb-map-max",
        _ => "the map is full, and its size is fixed: have less of what it holds on this node",
    }
}

/// A map that the kernel does not make: what tells of a full one means another thing here.
pub fn not_made(name: &str, error: &io::Error) -> KernelError {
    let refused = refused("create", format!("map {name}"), error);
    let remedy = match error.raw_os_error() {
        Some(libc::E2BIG) => {
            "the kernel cannot make one of that size: ask for fewer entries by its bpf-*-max flag, \
             if it has one"
        }
        Some(libc::EINVAL) => {
            "this kernel cannot make one of that kind and size: run Linux 6.6 or newer, or ask for \
             another size by its bpf-*-max flag, if it has one"
        }
        _ => return refused,
    };
    KernelError { remedy, refusal: Refusal::Other, ..refused }
}

/// The kind of an error number, and what usually helps.
fn judge(errno: i32) -> (Refusal, &'static str) {
    match errno {
        libc::E2BIG | libc::ENOSPC => {
            (Refusal::MapFull, "the map is full: have less of what it holds on this node")
        }
        libc::ENOMEM => (Refusal::NoMemory, "free memory or raise the agent's memory limit"),
        libc::ENODEV | libc::ENXIO | libc::ENOLINK => {
            (Refusal::NoDevice, "the interface is gone: create the endpoint anew")
        }
        libc::ENOENT | libc::ESRCH => {
            (Refusal::NotFound, "there is none such: nothing is left to do")
        }
        libc::EROFS => (Refusal::Denied, "mount the BPF file system writable"),
        libc::EPERM | libc::EACCES => (
            Refusal::Denied,
            "run with CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN, and see that no other agent \
             changes the same programs",
        ),
        libc::EMFILE | libc::ENFILE => {
            (Refusal::Other, "raise the limit of open files (ulimit -n, LimitNOFILE)")
        }
        _ => (Refusal::Other, "see the kernel's log; `volvox bpf` shows what the maps hold"),
    }
}

/// A netlink error as the actors understand it.
pub fn netlink(error: NetlinkError) -> KernelError {
    let (refusal, _) = judge(error.errno().map_or(0, |errno| errno.raw_os_error()));
    match error {
        NetlinkError::Refused { op, about, source, words, remedy } => {
            KernelError { op, about, cause: format!("{source}{words}"), remedy, refusal }
        }
        NetlinkError::Socket { op, about, source } => refused(op, about, &source),
        NetlinkError::Garbled { op, about, cause } => {
            let remedy = "report it with the kernel's version";
            KernelError { op, about, cause, remedy, refusal }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_a_full_map_names_its_own_flag_if_it_has_one() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        for (about, flag) in [
            ("map cilium_ct_any6_global", "--bpf-ct-global-any-max"),
            ("map cilium_ct4_global", "--bpf-ct-global-tcp-max"),
            ("map cilium_snat_v4_external", "--bpf-nat-global-max"),
            ("map cilium_policy_v2", "--bpf-policy-map-max"),
            ("map volvox_policy slot 7", "--bpf-policy-map-max"),
            ("map cilium_lb4_source_range", "--bpf-lb-map-max"),
        ] {
            let remedy = refused("write", about, &full).remedy;
            assert!(remedy.ends_with(flag), "{about}: {remedy}");
        }
        for about in ["map cilium_ipcache_v2", "map cilium_lxc", "map cilium_lb4_reverse_sk"] {
            let remedy = refused("write", about, &full).remedy;
            assert!(remedy.contains("its size is fixed") && !remedy.contains("--"), "{remedy}");
        }
    }

    #[test]
    fn too_many_rows_are_told_from_too_large_a_map() {
        let error = io::Error::from_raw_os_error(libc::E2BIG);
        let full = refused("write", "map cilium_lxc", &error);
        assert_eq!(full.refusal, Refusal::MapFull);
        assert!(full.remedy.contains("the map is full"), "{full}");
        let large = not_made("cilium_lxc", &error);
        assert_eq!(large.refusal, Refusal::Other);
        let text = large.to_string();
        assert!(text.starts_with("create map cilium_lxc: "), "{text}");
        assert!(text.contains("fewer entries") && !text.contains("full"), "{text}");
    }
}
