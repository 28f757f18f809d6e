//! Loading programs with aya. Nothing here runs when the pinned programs are the ones wanted.

use std::{os::fd::AsFd, path::Path};

use aya::{Ebpf, EbpfLoader, VerifierLogLevel, programs::SchedClassifier};
use volvox_actors::ports::Hook;
use volvox_bpf_progs::{Features, OBJECT, maps::MAPS};

use super::{
    error::DatapathError,
    generation::Program,
    pins::{HOOKS, Pins, bpffs, program_name},
    sys,
};

/// Loads both programs over the pinned maps and pins them in a directory.
///
/// The verifier's log is costly, so it is off, and only asked for when the verifier refused.
pub(super) fn load(
    pins: &Pins,
    features: Features,
    directory: &Path,
) -> Result<[Program; 2], DatapathError> {
    let attempt = |level| -> Result<Ebpf, Box<dyn std::error::Error>> {
        let globals = features.globals();
        let mut loader = EbpfLoader::new();
        loader.verifier_log_level(level);
        for spec in MAPS {
            loader.map_pin_path(spec.name, pins.map(spec.name));
        }
        for (name, value) in &globals {
            loader.override_global(name, value, true);
        }
        let mut object = loader.load(OBJECT)?;
        for hook in HOOKS {
            classifier(&mut object, hook)?.load()?;
        }
        Ok(object)
    };
    let mut object = attempt(VerifierLogLevel::DISABLE)
        .or_else(|_| attempt(VerifierLogLevel::DEBUG | VerifierLogLevel::STATS))
        .map_err(|error| DatapathError::Load { cause: chain(error.as_ref()) })?;
    let [from, to] = HOOKS.map(|hook| pin(&mut object, hook, directory));
    Ok([from?, to?])
}

fn classifier(
    object: &mut Ebpf,
    hook: Hook,
) -> Result<&mut SchedClassifier, Box<dyn std::error::Error>> {
    let name = program_name(hook);
    let program = object.program_mut(name).ok_or_else(|| format!("the object has no {name}"))?;
    Ok(program.try_into()?)
}

fn pin(object: &mut Ebpf, hook: Hook, directory: &Path) -> Result<Program, DatapathError> {
    let load = |cause: Box<dyn std::error::Error>| DatapathError::Load { cause: chain(&*cause) };
    let program = classifier(object, hook).map_err(load)?;
    let fd = program.fd().map_err(|error| load(error.into()))?;
    let path = directory.join(program_name(hook));
    sys::pin(fd, &path).map_err(|e| bpffs("pin a program at", path, e))?;
    let fd = fd.as_fd().try_clone_to_owned().and_then(Program::of);
    fd.map_err(|error| load(error.into()))
}

/// An error's words and those of what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
