//! Programs that run by clsact filters: what stands at a hook, putting a program there, removing it. Filters
//! take the place of links where the kernel has no TCX, or where it is not to be used; elsewhere they serve
//! until a link is made.

use std::{io, os::fd::AsFd};

use volvox_actors::ports::{HookState, Intruder, KernelError};
use volvox_maps::{
    crash,
    error::{DatapathError, netlink, refused},
    programs::{intruder, is_ours_by_id},
};
use volvox_system::netlink::{Filter, NetlinkError, Socket};

use super::{
    generation::Program,
    link::{Replaced, Spot},
    writes::{Writes, count},
};

/// The oldest kernel whose verifier takes the programs.
const OLDEST: (u32, u32) = (6, 1);

/// By what programs run at interfaces for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// By TCX links that are pinned.
    Tcx,
    /// By filters of the clsact queueing discipline.
    Clsact,
}

impl AttachMode {
    /// As Cilium's API names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcx => "tcx",
            Self::Clsact => "tc",
        }
    }

    /// Chooses by what the kernel said when it was asked for a TCX hook, and by `--enable-tcx`. A kernel
    /// that cannot run the programs either way is refused.
    pub(super) fn choose(
        is_tcx_wanted: bool,
        release: &str,
        answer: io::Result<()>,
    ) -> Result<Self, DatapathError> {
        let is_old = numbers(release).is_some_and(|numbers| numbers < OLDEST);
        let feature = |feature, cause, remedy| DatapathError::Feature { feature, cause, remedy };
        match answer {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Err(feature(
                "BPF",
                error,
                "run Linux 6.1 or newer, with CONFIG_BPF_SYSCALL, and let seccomp allow bpf(2)",
            )),
            _ if is_old => Err(feature(
                "what the programs are made of",
                io::Error::other(format!("it is Linux {release}")),
                "run Linux 6.1 or newer",
            )),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                Err(refused("use", "bpf(2)", &error).into())
            }
            // Before Linux 6.6, or without CONFIG_NET_XGRESS.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Self::Clsact),
            _ if is_tcx_wanted => Ok(Self::Tcx),
            _ => Ok(Self::Clsact),
        }
    }
}

/// The first two numbers of a kernel's release; `None` where it does not begin with such.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// What filters say of a hook.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filtered {
    /// Number of the program that runs by a filter of ours.
    pub(super) program: Option<u32>,
    /// Whose filter runs before it, if one does.
    before: Option<Intruder>,
}

impl Filtered {
    /// Asks the kernel.
    pub(super) fn read(socket: &mut Socket, ifindex: u32, spot: Spot) -> Result<Self, KernelError> {
        let filters = socket.filter_show(ifindex, spot.direction()).map_err(netlink)?;
        let place = filters.iter().position(|filter| is_named_ours(filter, spot));
        let first = filters.first().filter(|_| place.is_some_and(|place| place > 0));
        Ok(Self {
            program: place.map(|place| filters[place].prog_id),
            before: first.map(|first| intruder(first.prog_id)),
        })
    }

    /// How the hook stands, where the program of that number is to run.
    pub(super) fn state(self, mode: AttachMode, current: Option<u32>) -> HookState {
        match (self.program, self.before) {
            (None, _) => HookState::Empty,
            (program, _) if program != current => HookState::Stale,
            _ if mode == AttachMode::Tcx => HookState::Filter,
            (_, Some(intruder)) => HookState::Behind(intruder),
            (_, None) => HookState::Link,
        }
    }
}

fn is_named_ours(filter: &Filter, spot: Spot) -> bool {
    filter.is_at_our_place() && filter.name == spot.program
}

/// Has the program run by a filter: in place of one of ours, of whatever life. One of somebody else that
/// stands there is not replaced. Where it runs already, nothing is written.
pub(super) fn put(
    socket: &mut Socket,
    (ifindex, spot): (u32, Spot),
    program: &Program,
    replaced: &mut Replaced,
    writes: &Writes,
) -> Result<(), KernelError> {
    let direction = spot.direction();
    crash::step();
    socket.clsact_add(ifindex).map_err(netlink)?;
    crash::step();
    match socket.filter_add(ifindex, direction, program.as_fd(), spot.program) {
        Ok(()) => {}
        Err(error) if error.is_taken() => {
            let filters = socket.filter_show(ifindex, direction).map_err(netlink)?;
            let there = filters.iter().find(|filter| filter.is_at_our_place());
            match there {
                Some(there) if there.prog_id == program.id => return Ok(()),
                Some(there) => drop(replaced.open(there.prog_id)?),
                None => {}
            }
            let put = socket.filter_replace(ifindex, direction, program.as_fd(), spot.program);
            put.map_err(netlink)?;
        }
        Err(error) => return Err(netlink(error)),
    }
    count(&writes.links);
    Ok(())
}

/// Removes our filter; false if there is none. One of that name whose program is somebody else's stays.
pub(super) fn remove(socket: &mut Socket, ifindex: u32, spot: Spot) -> Result<bool, KernelError> {
    let direction = spot.direction();
    let filters = unless_absent(socket.filter_show(ifindex, direction))?;
    let ours = filters.iter().find(|filter| is_named_ours(filter, spot));
    match ours {
        Some(filter) if is_ours_by_id(filter.prog_id)? => {
            unless_absent(socket.filter_clear(ifindex, direction, spot.program))
        }
        _ => Ok(false),
    }
}

/// Removes the queueing discipline that filters hang on, where nobody's does; false if it stays or there is none.
pub(super) fn remove_unused(socket: &mut Socket, ifindex: u32) -> Result<bool, KernelError> {
    unless_absent(socket.clsact_del_unused(ifindex))
}

/// At an interface that is gone there is nothing.
fn unless_absent<T: Default>(answer: Result<T, NetlinkError>) -> Result<T, KernelError> {
    match answer {
        Err(error) if error.is_absent() => Ok(T::default()),
        answer => answer.map_err(netlink),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(wanted: bool, release: &str, errno: Option<i32>) -> Result<AttachMode, String> {
        let answer = errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)));
        AttachMode::choose(wanted, release, answer).map_err(|error| error.to_string())
    }

    #[test]
    fn a_kernel_without_tcx_has_filters_and_one_that_lacks_more_is_told_what() {
        assert_eq!(chosen(true, "6.18.2", None), Ok(AttachMode::Tcx));
        assert_eq!(chosen(false, "6.18.2", None), Ok(AttachMode::Clsact));
        assert_eq!(chosen(true, "6.1.0-56-amd64", Some(libc::EINVAL)), Ok(AttachMode::Clsact));
        assert_eq!(chosen(true, "7.3", None), Ok(AttachMode::Tcx));
        // Loopback may have gone, or more of it be wrong: the first step that needs it will say so.
        assert_eq!(chosen(true, "6.12", Some(libc::ENODEV)), Ok(AttachMode::Tcx));
        assert_eq!(chosen(true, "something else", None), Ok(AttachMode::Tcx));
        for (release, errno, lacks, remedy) in [
            ("5.10.0-46-amd64", Some(libc::EINVAL), "it is Linux 5.10", "run Linux 6.1 or newer"),
            ("6.0.1", Some(libc::EINVAL), "it is Linux 6.0.1", "run Linux 6.1 or newer"),
            ("6.18", Some(libc::ENOSYS), "this kernel lacks BPF", "let seccomp allow bpf(2)"),
            ("6.18", Some(libc::EPERM), "use bpf(2)", "CAP_BPF"),
        ] {
            let text = chosen(true, release, errno).unwrap_err();
            assert!(text.contains(lacks) && text.contains(remedy), "{text}");
        }
    }
}
