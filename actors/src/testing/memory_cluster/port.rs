//! What actors ask of the API server in memory.

use std::time::Duration;

use super::{Delay, Delivery, MemoryCluster, ObjectWatcher, WatchReply, expired, served};
use crate::{
    host::Reply,
    ports::{
        Cluster, ClusterError, Definition, Object, ObjectKey, ObjectWatch, ObjectWrite, Page,
        Resource,
    },
};

impl Cluster for MemoryCluster {
    fn connections(&self) -> u64 {
        self.0.borrow().connections
    }

    fn list(
        &self,
        resource: &Resource,
        next: Option<String>,
        reply: Reply<Result<Page, ClusterError>>,
    ) {
        let mut server = self.0.borrow_mut();
        server.lists += 1;
        *server.listed.entry(resource.kind.to_owned()).or_default() += 1;
        if server.faults.hung {
            return server.unanswered.push(Box::new(reply));
        }
        if let Some(error) = server.failure(resource) {
            return server.answer(reply, Err(error));
        }
        let page = server.page(resource, next.as_deref());
        server.answer(reply, page);
    }

    fn get(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        reply: Reply<Result<Object, ClusterError>>,
    ) {
        let mut server = self.0.borrow_mut();
        if server.faults.hung {
            return server.unanswered.push(Box::new(reply));
        }
        let there = server.objects.get(resource.kind).and_then(|all| all.get(key)).cloned();
        let there = there.map(|value| served(resource, key.clone(), value));
        let answer = match server.failure(resource) {
            Some(error) => Err(error),
            None => there.ok_or_else(|| ClusterError::NotFound(key.to_string())),
        };
        server.answer(reply, answer);
    }

    fn definition(&self, name: &str, reply: Reply<Result<Option<Definition>, ClusterError>>) {
        let mut server = self.0.borrow_mut();
        match server.faults.hung {
            true => server.unanswered.push(Box::new(reply)),
            false => {
                let definition = server.definition(name);
                server.answer(reply, definition);
            }
        }
    }

    fn write(&self, write: ObjectWrite, reply: Reply<Result<(), ClusterError>>) {
        let mut server = self.0.borrow_mut();
        if server.faults.hung {
            return server.unanswered.push(Box::new(reply));
        }
        if server.faults.delay == Delay::Writes {
            return server.late.push(Delivery::Write(Box::new(write), reply));
        }
        let answer = server.write(write);
        server.answer(reply, answer);
    }

    fn watch(&self, resource: &Resource, version: &str, _: Duration) -> Box<dyn ObjectWatch> {
        let mut server = self.0.borrow_mut();
        server.opened += 1;
        let number = server.opened;
        let seen = version.parse().unwrap_or_default();
        let deaf = server.faults.hung;
        let watcher = ObjectWatcher {
            resource: resource.clone(),
            seen,
            reported: false,
            waiting: None,
            due: false,
            deaf,
        };
        let error = server.failure(resource).or_else(|| (seen < server.compacted).then(expired));
        server.watches.insert(number, watcher);
        Box::new(MemoryWatch { cluster: self.clone(), number, error })
    }
}

struct MemoryWatch {
    cluster: MemoryCluster,
    number: u64,
    error: Option<ClusterError>,
}

impl ObjectWatch for MemoryWatch {
    fn next(&mut self, reply: Reply<WatchReply>) {
        let server = &mut *self.cluster.0.borrow_mut();
        if let Some(error) = self.error.take() {
            return server.answer(reply, Err(error));
        }
        let Some(watcher) = server.watches.get_mut(&self.number) else { return };
        watcher.waiting = Some(reply);
        server.show(self.number);
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        let watcher = self.cluster.0.borrow_mut().watches.remove(&self.number);
        drop(watcher);
    }
}
