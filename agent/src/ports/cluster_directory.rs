//! The directory of the other clusters of a mesh (`--clustermesh-config`): a file of etcd's clients
//! for each, by the cluster's name, beside certificates and keys that those name.

use std::{collections::BTreeMap, fs, path::PathBuf, rc::Rc};

use tokio::{sync::mpsc, task::spawn_local};
use volvox_actors::ports::{ClustersSink, RemoteClusters, Way};
use volvox_etcd::{Etcd, EtcdOptions};

use super::files::{Files, Seen, follow};

/// Changes that wait for the actors.
const CHANGES_MAX: usize = 16;
/// Longest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Each cluster that is configured, with how often its file changed.
type Versions = BTreeMap<String, u64>;

/// The directory.
#[derive(Debug)]
pub struct ClusterDirectory(PathBuf);

impl ClusterDirectory {
    /// That one. It may come later.
    pub fn new(dir: PathBuf) -> Self {
        Self(dir)
    }
}

impl RemoteClusters for ClusterDirectory {
    fn follow(&self, mut tell: ClustersSink) {
        let (changes, mut receiver) = mpsc::channel(CHANGES_MAX);
        let dir = self.0.clone();
        let work = move || watch(&mut Configured::new(dir), &changes);
        if let Err(error) = volvox_system::threads::spawn("clustermesh", work) {
            tracing::error!(%error, "other clusters are not read; raise the limit of threads");
            return;
        }
        let dir = self.0.clone();
        spawn_local(async move {
            let mut ways = BTreeMap::<String, Way>::new();
            while let Some(versions) = receiver.recv().await {
                ways.retain(|name, way| versions.get(name) == Some(&way.version));
                for (name, version) in versions {
                    let options = EtcdOptions { config: Some(dir.join(&name)), address: None };
                    if ways.contains_key(&name) {
                        continue;
                    }
                    match Etcd::start(options) {
                        Ok(etcd) => {
                            ways.insert(name, Way { store: Rc::new(etcd), version });
                        }
                        Err(error) => tracing::error!(cluster = name, %error, "it is not read"),
                    }
                }
                if !tell(ways.clone()) {
                    tracing::error!("a change of the configured clusters was not taken");
                }
            }
        });
    }
}

fn watch(configured: &mut Configured, changes: &mpsc::Sender<Versions>) {
    let dir = configured.files.dir().to_owned();
    follow(&dir, |look| match configured.look(look) {
        Some(versions) => changes.blocking_send(versions).is_ok(),
        None => !changes.is_closed(),
    });
}

/// Which clusters are configured.
#[derive(Debug)]
struct Configured {
    files: Files,
    versions: Versions,
    changes: u64,
    /// Whether anybody was told.
    reported: bool,
}

impl Configured {
    fn new(dir: PathBuf) -> Self {
        let files = Files::new(dir, |_| true);
        Self { files, versions: Versions::new(), changes: 0, reported: false }
    }

    /// The clusters, if that is new. A directory that cannot be listed says nothing.
    fn look(&mut self, look: &super::files::Look) -> Option<Versions> {
        let before = self.versions.clone();
        for seen in self.files.look(look) {
            match seen {
                Seen::There(name) if self.is_configuration(&name) => {
                    self.changes += 1;
                    self.versions.insert(name, self.changes);
                }
                Seen::There(name) | Seen::Gone(name) => {
                    self.versions.remove(&name);
                }
            }
        }
        let is_news = self.versions != before || !self.reported;
        self.reported |= self.files.is_listed();
        (is_news && self.reported).then(|| self.versions.clone())
    }

    /// Whether a file says where an etcd is. What else it says is read when that is connected to.
    fn is_configuration(&self, name: &str) -> bool {
        let path = self.files.dir().join(name);
        let is_short = fs::metadata(&path).is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
        is_short && fs::read_to_string(&path).is_ok_and(|text| text.contains("endpoints:"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::files::Look;

    #[test]
    fn each_file_that_says_where_an_etcd_is_is_a_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("mesh");
        let mut configured = Configured::new(place.clone());
        let names = |versions: Option<Versions>| {
            versions.map(|versions| versions.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(configured.look(&Look::All), None, "there is no directory");
        fs::create_dir(&place).unwrap();
        assert_eq!(names(configured.look(&Look::All)), Some(Vec::new()), "it is known now");
        assert_eq!(configured.look(&Look::All), None);
        let write = |name: &str, text: &str| fs::write(place.join(name), text).unwrap();
        write("b.key", "-----BEGIN");
        assert_eq!(configured.look(&Look::All), None);
        write("b", "endpoints:\n- https://b:2379\n");
        write("c", "endpoints: [");
        assert_eq!(names(configured.look(&Look::All)), Some(vec!["b".into(), "c".into()]));
        let before = configured.versions.clone();
        write("b", "endpoints:\n- https://b.example:2379\n");
        let after = configured.look(&Look::All).unwrap();
        assert!(after["b"] > before["b"] && after["c"] == before["c"]);
        fs::remove_file(place.join("c")).unwrap();
        assert_eq!(names(configured.look(&Look::All)), Some(vec!["b".into()]));
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(configured.look(&Look::All), None, "that says nothing");
    }
}
