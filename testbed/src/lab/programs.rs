//! The programs of Kubernetes that tests run.

use std::{env, path::PathBuf};

/// The program of that name in the directory that `KUBEBUILDER_ASSETS` names, as other projects have it,
/// or that `testbed/test` put into its cache; `None`, and loud words, if there is none.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let named = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let assets = named.or_else(|| Some(cache?.join("volvox/kubernetes")))?;
    let program = assets.join(name);
    if !program.is_file() {
        volvox_system::complain!(
            "SKIPPED: no {name} in {}: run testbed/test, or name a directory that has one by \
             KUBEBUILDER_ASSETS",
            assets.display()
        );
        return None;
    }
    Some(program)
}
