//! The CNI configuration while the agent runs: written once new pods may come, and written again when
//! somebody removes or changes it. With `--cni-exclusive` others are set aside, also those that come later.

use std::path::{Path, PathBuf};

use volvox_cni::Conflist;
use volvox_rest::delete_queue;
use volvox_system::threads;

use crate::{config::Config, ports::files::follow};

/// Writes the configuration, and sees on a thread of its own that it stays.
pub(crate) fn keep(config: &Config, place: &Path) {
    let conflist = Conflist {
        socket: config.socket_path.clone(),
        delete_queue: config.run_dir.join(delete_queue::DIRECTORY),
        debug: config.debug,
        log_file: Some(config.cni.cni_log_file.clone()),
        composition: config.cni.composition(),
    };
    let exclusive = config.cni.cni_exclusive;
    let keeper = Keeper { conflist, place: place.to_owned(), exclusive };
    if !Conflist::is_read(place) {
        tracing::warn!(path = %place.display(), "runtimes read lists of plugins from *.conflist only");
    }
    let mut said = Said::default();
    said.look(&keeper);
    let started = threads::spawn("cni", move || {
        follow(&Conflist::directory(&keeper.place), |_| {
            said.look(&keeper);
            true
        });
    });
    if let Err(error) = started {
        tracing::error!(%error, "nobody sees that the CNI configuration stays");
    }
}

/// What is to be said if runtimes take somebody else's configuration instead of the one at `place`.
pub(crate) fn overridden(place: &Path) -> Option<String> {
    let first = Conflist::preceded_by(place)?;
    Some(format!(
        "runtimes take the CNI configuration {}, which sorts before this agent's: remove it, or set \
         --cni-exclusive",
        first.display()
    ))
}

/// What has to be where.
struct Keeper {
    conflist: Conflist,
    place: PathBuf,
    exclusive: bool,
}

/// What was logged last: each trouble is logged once.
#[derive(Default)]
struct Said(String);

impl Said {
    fn look(&mut self, keeper: &Keeper) {
        let trouble = match keeper.conflist.install(&keeper.place, keeper.exclusive) {
            Ok(()) => overridden(&keeper.place).unwrap_or_default(),
            Err(error) => format!("CNI configuration was not written: {error}"),
        };
        if !trouble.is_empty() && self.0 != trouble {
            tracing::error!("{trouble}");
        }
        self.0 = trouble;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs, thread,
        time::{Duration, Instant},
    };

    use super::*;

    fn wait_for(what: &str, done: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn it_comes_back_and_others_that_come_later_are_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("05-volvox.conflist");
        let flag = format!("--write-cni-conf-when-ready={}", place.display());
        let flags = ["volvox-agent", flag.as_str(), "--cni-exclusive=true"];
        let config = crate::config::load(flags, |_| None).unwrap().config;
        keep(&config, &place);
        let written = fs::read(&place).unwrap();
        fs::remove_file(&place).unwrap();
        wait_for("it is written again", || fs::read(&place).ok().as_ref() == Some(&written));
        let other = dir.path().join("00-bridge.conf");
        fs::write(&other, "{}").unwrap();
        wait_for("the other one is set aside", || !other.exists());
        assert!(dir.path().join("00-bridge.conf.volvox_bak").exists());
    }

    #[test]
    fn without_the_flag_one_that_comes_first_is_named_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let first = dir.path().join("00-bridge.conf");
        fs::write(&first, "{}").unwrap();
        let flags = ["volvox-agent"];
        let config = crate::config::load(flags, |_| None).unwrap().config;
        keep(&config, dir.path());
        assert_eq!(Conflist::preceded_by(dir.path()), Some(first.clone()));
        assert!(first.exists() && Conflist::installed(dir.path()).is_some());
    }
}
