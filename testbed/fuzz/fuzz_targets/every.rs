//! All targets in one program, which is built and linked once: `FUZZ_TARGET` names the one that is run.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod chosen {
    use std::{env, sync::LazyLock};

    static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
        let name = env::var("FUZZ_TARGET").unwrap_or_default();
        let known = [
            volvox_actors::fuzzing::TARGETS,
            volvox_agent::fuzzing::TARGETS,
            volvox_cli::fuzzing::TARGETS,
            volvox_cni::fuzzing::TARGETS,
            volvox_hubble::fuzzing::TARGETS,
            volvox_system::fuzzing::TARGETS,
        ];
        match known.into_iter().flatten().find(|(known, _)| *known == name) {
            Some((_, target)) => *target,
            None => panic!("FUZZ_TARGET is {name:?}, which is no target"),
        }
    });

    libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
}

#[cfg(not(fuzzing))]
fn main() {}
