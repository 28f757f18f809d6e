//! `volvox-agent uninstall`: removes all that is ours, and says what.

use std::{fs, io, path::Path};

use anyhow::Context;
use volvox_cni::Conflist;
use volvox_inspect::{
    evidence, flight,
    monitor::{socket_beside, stand_in_beside},
};

use crate::{
    api::health_socket_beside,
    config::Config,
    datapath, hubble,
    node_health::Place,
    ports::{Directories, hold_bpf},
};

/// Files and directories of ours in the run directory, and what they are.
const RUN_ENTRIES: [&str; 8] = [
    "state",
    "deleteQueue",
    "volvox-agent.pid",
    flight::CURRENT,
    flight::PREVIOUS,
    evidence::DIRECTORY,
    hubble::RING,
    hubble::NAMES,
];
/// How the names of files of ours in the library directory begin.
const LIB_PREFIXES: [&str; 5] = ["health.", "identities.", "kvstore.", "node.", "sources.json"];

/// Removes programs, maps, routes, the health endpoint, state and the CNI configuration. Interfaces of pods stay: they
/// are the pods'. Refused while an agent runs.
pub fn run(config: &Config) -> anyhow::Result<()> {
    let held = Directories::hold(&config.run_dir, &config.lib_dir)?;
    let bpf_root = hold_bpf(&config.bpf_root)?;
    let mut removed = datapath::uninstall(&config.bpf_root)?;
    removed.extend(Place::of(&config.run_dir, &config.procfs).remove()?);
    if let Some(place) = &config.cni.write_cni_conf_when_ready {
        removed.extend(Conflist::uninstall(place)?);
    }
    for name in RUN_ENTRIES {
        remove(&config.run_dir.join(name), &mut removed)?;
    }
    for entry in fs::read_dir(&config.lib_dir).context("list the library directory")? {
        let path = entry.context("list the library directory")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if LIB_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            remove(&path, &mut removed)?;
        }
    }
    let api = &config.socket_path;
    let hubble = config.hubble.socket_path.clone();
    let sockets =
        [api.clone(), socket_beside(api), stand_in_beside(api), health_socket_beside(api), hubble];
    for socket in sockets {
        remove(&socket, &mut removed)?;
    }
    drop((held, bpf_root));
    for dir in [&config.run_dir, &config.lib_dir] {
        // What others keep there stays, and the directory with it.
        if fs::remove_dir(dir).is_ok() {
            removed.push(format!("removed {}", dir.display()));
        }
    }
    for line in &removed {
        volvox_system::say!("{line}");
    }
    volvox_system::say!("{} things removed", removed.len());
    Ok(())
}

fn remove(path: &Path, removed: &mut Vec<String>) -> anyhow::Result<()> {
    let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match gone {
        Ok(()) => removed.push(format!("removed {}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("remove {}", path.display())),
    }
    Ok(())
}
