//! Who the other sides were: kept in the library directory, so that the next run notices when it meets
//! others, also after a reboot.

use std::{
    fs, io,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use volvox_actors::{
    cluster::{
        api_server::{ClusterMsg, KnownServer},
        kvstore::SessionMsg,
    },
    host::Reply,
    node_supervisor::{NodeSupervisor, NodeSupervisorSettings},
    ports::{Disk, FsOp, StoreHeader},
};

use crate::ports::DiskPort;

/// Its name in the library directory.
pub const FILE: &str = "sources.json";
/// How often it is looked whether they are others.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How old what is kept of their versions may be: an older one still tells one that went back.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// How long an actor may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    server: Option<KnownServer>,
    store: Option<StoreHeader>,
}

impl Remembered {
    /// What an earlier run kept. One that cannot be read says nothing; the next one is written over
    /// it.
    pub fn read(path: &Path) -> Self {
        let read = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.to_string()),
        };
        read.unwrap_or_else(|error| {
            tracing::warn!(file = %path.display(), error, "it is not known who the others were");
            Self::default()
        })
    }

    /// Has the actors compare with it.
    pub fn tell(&self, settings: &mut NodeSupervisorSettings) {
        settings.follow.before = self.server.clone();
        settings.kvstore.before = self.store;
    }

    /// Whether they are others than those of whom it was kept.
    fn differs(&self, persisted: &Self) -> bool {
        let uid = |of: &Self| of.server.as_ref().map(|it| it.uid.clone());
        let cluster = |of: &Self| of.store.map(|it| (it.cluster, it.term));
        (uid(self), cluster(self)) != (uid(persisted), cluster(persisted))
    }
}

/// Keeps who they are, as long as the agent lives.
pub async fn remember(
    node_supervisor: NodeSupervisor,
    disk: Rc<DiskPort>,
    mut persisted: Remembered,
) {
    if node_supervisor.cluster.is_none() && node_supervisor.kvstore.is_none() {
        return;
    }
    let mut written = Instant::now();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = look(&node_supervisor, &persisted).await;
        let is_old = written.elapsed() >= KEPT_FOR && now != persisted;
        if !is_old && !now.differs(&persisted) {
            continue;
        }
        let Ok(bytes) = serde_json::to_vec(&now) else { continue };
        (persisted, written) = (now, Instant::now());
        let path = Path::new("lib").join(FILE);
        let done = Reply::to(|answer| {
            if let Ok(Err(error)) = answer {
                tracing::warn!(%error, "who the others are is not kept");
            }
        });
        disk.submit(vec![FsOp::Write { path, bytes }], done);
    }
}

/// Who they are now; those who have not answered are who they were.
async fn look(node_supervisor: &NodeSupervisor, persisted: &Remembered) -> Remembered {
    let what = "who the other sides are";
    let (server, session) = node_supervisor.host.outside(what, || {
        let ask = |it| node_supervisor.host.ask(it, PATIENCE, what, ClusterMsg::Server);
        let server = node_supervisor.cluster.as_ref().map(ask);
        let ask = |it: &volvox_actors::cluster::sharing::KvActors| {
            node_supervisor.host.ask(&it.session, PATIENCE, what, SessionMsg::Show)
        };
        (server, node_supervisor.kvstore.as_ref().map(ask))
    });
    let mut now = persisted.clone();
    if let Some(server) = server
        && let Ok(view) = server.await
    {
        now.server = view.known().or(now.server);
    }
    if let Some(session) = session
        && let Ok(view) = session.await
    {
        now.store = view.header.or(now.store);
    }
    now
}

#[cfg(test)]
mod tests {
    use volvox_actors::ports::Revision;

    use super::*;

    #[test]
    fn what_was_kept_is_read_back_and_what_is_damaged_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert_eq!(Remembered::read(&path), Remembered::default());
        let server = KnownServer { uid: "u".to_owned(), version: "7".to_owned() };
        let store = StoreHeader { cluster: 1, term: 2, revision: Revision(3) };
        let persisted = Remembered { server: Some(server), store: Some(store) };
        fs::write(&path, serde_json::to_vec(&persisted).unwrap()).unwrap();
        assert_eq!(Remembered::read(&path), persisted);
        fs::write(&path, "{\"server\": 7").unwrap();
        assert_eq!(Remembered::read(&path), Remembered::default());
    }

    #[test]
    fn a_version_alone_makes_nobody_another_one() {
        let of = |uid: &str, version: &str, cluster| Remembered {
            server: Some(KnownServer { uid: uid.to_owned(), version: version.to_owned() }),
            store: Some(StoreHeader { cluster, ..StoreHeader::default() }),
        };
        assert!(!of("a", "8", 1).differs(&of("a", "7", 1)));
        assert!(of("b", "7", 1).differs(&of("a", "7", 1)));
        assert!(of("a", "7", 2).differs(&of("a", "7", 1)));
    }
}
