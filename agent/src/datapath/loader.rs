//! Loading programs with aya. Nothing here runs when the pinned programs are the ones desired.

use std::{io, os::fd::AsFd, path::Path};

use aya::{Ebpf, EbpfLoader, VerifierLogLevel, programs::SchedClassifier};
use volvox_bpf_progs::{Features, maps::MAPS, object::HOST_NETNS};
use volvox_maps::{
    error::DatapathError,
    pins::{Pins, bpffs},
    sys,
};

use super::{generation::Program, off::StandIns};

/// How often a program's loading is tried while signals interrupt it: what stops the machine for a
/// moment, again and again, may do so each second, and a large program takes a good part of one.
const ATTEMPTS_MAX: u32 = 32;
/// Lines of the verifier's log that say why it refused.
const LAST_LINES: usize = 6;

/// Loads programs of an object over the pinned maps and pins them in a directory, in that order.
pub(super) fn load(
    pins: &Pins,
    features: Features,
    object: &[u8],
    names: &[&'static str],
    directory: &Path,
) -> Result<Vec<Program>, DatapathError> {
    let mut loaded = open(pins, (features, None), object, |loaded| {
        for name in names {
            let program = classifier(loaded, name)?;
            persist(|| program.load())?;
        }
        Ok(())
    })?;
    names.iter().map(|name| pin(&mut loaded, name, directory)).collect()
}

/// Opens an object over the pinned maps and has its programs loaded. What names the host's network
/// namespace is told it.
///
/// The verifier's log is costly, so it is off, and only asked for when the verifier refused.
pub(super) fn open(
    pins: &Pins,
    (features, netns): (Features, Option<u64>),
    object: &[u8],
    programs: impl Fn(&mut Ebpf) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<Ebpf, DatapathError> {
    let stand_ins = StandIns::pin(pins, features)?;
    let attempt = |level| -> Result<Ebpf, Box<dyn std::error::Error>> {
        let globals = features.globals();
        let mut loader = EbpfLoader::new();
        loader.verifier_log_level(level);
        for spec in MAPS {
            loader.map_pin_path(spec.name, stand_ins.place(pins, spec.name));
        }
        for (name, value) in &globals {
            // Not every object asks for all.
            loader.override_global(name, value, false);
        }
        if let Some(netns) = &netns {
            loader.override_global(HOST_NETNS, netns, true);
        }
        let mut loaded = loader.load(object)?;
        programs(&mut loaded)?;
        Ok(loaded)
    };
    #[cfg(test)]
    tests::judge(object)?;
    attempt(VerifierLogLevel::DISABLE)
        .or_else(|_| attempt(VerifierLogLevel::DEBUG | VerifierLogLevel::STATS))
        .map_err(|error| DatapathError::Load { cause: shortened(&chain(error.as_ref())) })
}

/// What a status has room for: of the verifier's log, which may be megabytes, the end says why.
fn shortened(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.len().checked_sub(1 + LAST_LINES) {
        None | Some(0) => lines.join(" / "),
        Some(between) => {
            let last = lines[lines.len() - LAST_LINES..].join(" / ");
            format!("{} / … {between} lines … / {last}", lines[0])
        }
    }
}

/// Tries again what a signal interrupted: the kernel gives up verifying when one is pending.
pub(super) fn persist<E: std::error::Error + 'static>(
    mut attempt: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    for _ in 1..ATTEMPTS_MAX {
        match attempt() {
            Err(error) if is_interrupted(&error) => {}
            result => return result,
        }
    }
    attempt()
}

fn is_interrupted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.and_then(io::Error::raw_os_error) == Some(libc::EAGAIN)
    })
}

fn classifier<'a>(
    object: &'a mut Ebpf,
    name: &str,
) -> Result<&'a mut SchedClassifier, Box<dyn std::error::Error>> {
    let program = object.program_mut(name).ok_or_else(|| format!("the object has no {name}"))?;
    Ok(program.try_into()?)
}

fn pin(object: &mut Ebpf, name: &str, directory: &Path) -> Result<Program, DatapathError> {
    let load = |cause: Box<dyn std::error::Error>| DatapathError::Load { cause: chain(&*cause) };
    let program = classifier(object, name).map_err(load)?;
    let fd = program.fd().map_err(|error| load(error.into()))?;
    let path = directory.join(name);
    sys::pin(fd, &path).map_err(|e| bpffs("pin a program at", path, e))?;
    let fd = fd.as_fd().try_clone_to_owned().and_then(Program::of);
    fd.map_err(|error| load(error.into()))
}

/// An error's words and those of what caused it.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        /// Objects that the kernel refuses, as far as this thread sees.
        static REFUSED: RefCell<Vec<&'static [u8]>> = const { RefCell::new(Vec::new()) };
    }

    /// Runs a test in which the kernel refuses these objects.
    pub(in crate::datapath) fn refusing<T>(
        objects: &[&'static [u8]],
        test: impl FnOnce() -> T,
    ) -> T {
        REFUSED.set(objects.to_vec());
        let done = test();
        REFUSED.take();
        done
    }

    pub(super) fn judge(object: &[u8]) -> Result<(), DatapathError> {
        let is_refused = REFUSED.with_borrow(|all| all.contains(&object));
        let cause = || "the verifier refused it / R5 unbounded memory access".to_owned();
        if is_refused { Err(DatapathError::Load { cause: cause() }) } else { Ok(()) }
    }

    #[test]
    fn of_a_long_log_its_beginning_and_its_end_are_told() {
        assert_eq!(shortened("load\n\n  why\n"), "load / why");
        let log: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
        let told = shortened(&log.join("\n"));
        assert!(told.starts_with("line 0 / … 93 lines … / line 94 / "), "{told}");
        assert!(told.ends_with("line 99"), "{told}");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("load")]
    struct Refused(#[source] io::Error);

    /// Fails with that error number so often, as the cause of another error; how often it was
    /// tried and whether it succeeded.
    fn tried(errno: i32, failures: u32) -> (u32, bool) {
        let mut calls = 0;
        let done = persist(|| {
            calls += 1;
            match calls > failures {
                true => Ok(()),
                false => Err(Refused(io::Error::from_raw_os_error(errno))),
            }
        });
        (calls, done.is_ok())
    }

    #[test]
    fn what_a_signal_interrupted_is_tried_again_so_often_and_nothing_else_is() {
        assert_eq!(tried(libc::EAGAIN, 3), (4, true));
        assert_eq!(tried(libc::EAGAIN, u32::MAX), (ATTEMPTS_MAX, false));
        assert_eq!(tried(libc::EINVAL, 1), (1, false));
    }
}
