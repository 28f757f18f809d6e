//! A scene for the tests: network namespaces for node and container, and calls of the plugin there.

use std::{collections::BTreeMap, os::fd::AsFd, os::fd::AsRawFd};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use volvox_actors::ports::Link;
use volvox_rest::delete_queue::{DIRECTORY, DeleteQueue};
use volvox_system::{netlink::Socket, netns::Netns};

use super::fake_agent::FakeAgent;
use crate::{CniError, cancel::Cancel, run::execute};

/// The container of the tests.
pub(super) const CONTAINER: &str = "c0ffee00c0ffee00";

/// A node and a container, each a namespace, and an agent that may be started.
pub(super) struct Scene {
    pub(super) agent: FakeAgent,
    pub(super) container: Netns,
    dir: TempDir,
}

/// Plays a test on a node of its own, on one thread; all of it goes with the test.
pub(super) fn play(test: impl AsyncFnOnce(&mut Scene) + Send) {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut scene = Scene {
                agent: FakeAgent::new(),
                container: Netns::create().unwrap(),
                dir: tempfile::tempdir().unwrap(),
            };
            test(&mut scene).await;
        });
    };
    Netns::create().unwrap().run(work).unwrap();
}

impl Scene {
    pub(super) fn start_agent(&self) -> JoinHandle<()> {
        self.agent.serve(&self.dir.path().join("agent.sock"))
    }

    pub(super) fn directory(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(super) fn queue(&self) -> DeleteQueue {
        DeleteQueue::at(self.dir.path().join(DIRECTORY))
    }

    pub(super) fn env(&self, command: &str) -> BTreeMap<String, String> {
        [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", CONTAINER),
            ("CNI_NETNS", &format!("/proc/self/fd/{}", self.container.as_fd().as_raw_fd())),
            ("CNI_IFNAME", "eth0"),
            (
                "CNI_ARGS",
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1;K8S_POD_UID=u-1",
            ),
            ("CNI_PATH", "/opt/cni/bin"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    pub(super) fn config(&self, version: &str) -> Value {
        json!({
            "cniVersion": version,
            "name": "volvox",
            "type": "volvox-cni",
            "socket-path": self.dir.path().join("agent.sock"),
            "log-file": self.dir.path().join("cni.log"),
            "enable-debug": true,
        })
    }

    pub(super) async fn call(&self, command: &str) -> Result<Option<Value>, CniError> {
        self.call_with(&self.env(command), &self.config("1.1.0")).await
    }

    pub(super) async fn call_with(
        &self,
        env: &BTreeMap<String, String>,
        config: &Value,
    ) -> Result<Option<Value>, CniError> {
        let cancel = Cancel::when(self.agent.cancelled());
        let mut said = None;
        let tell = |answer: &Value| {
            said = Some(answer.clone());
            Ok(())
        };
        execute(env, config.to_string().as_bytes(), cancel, tell).await?;
        Ok(said)
    }

    /// The node's interfaces, loopback apart.
    pub(super) fn node_links(&self) -> Vec<Link> {
        links()
    }

    /// The container's interfaces, loopback apart.
    pub(super) fn container_links(&self) -> Vec<Link> {
        self.container.run(links).unwrap()
    }

    /// Fails unless everything is as before anything was asked.
    #[track_caller]
    pub(super) fn assert_untouched(&self) {
        assert_eq!((self.node_links(), self.container_links()), (vec![], vec![]));
        let world = self.agent.world();
        assert!(world.addresses.is_empty(), "left: {:?}", world.addresses);
        assert!(world.endpoints.is_empty(), "left: {:?}", world.endpoints);
    }
}

fn links() -> Vec<Link> {
    let links = Socket::open().unwrap().links().unwrap();
    links.into_values().filter(|link| link.name != "lo").collect()
}
