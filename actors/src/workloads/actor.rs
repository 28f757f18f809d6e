use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use serde::Serialize;

use super::{WorkloadsMsg, book::Book, object::PodName};
use crate::{
    endpoints::EndpointsMsg,
    host::{Behaviour, Cx, Ref, Reply},
    model::Labels,
};

/// How many questions wait for the first manifests; the next ones are let go.
const WAITING_MAX: usize = 1_024;
/// How soon a full mailbox is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// The keeper of pods and namespaces.
pub struct Workloads {
    /// Outlives a crash: a manifest is read when it changes, not again.
    kept: Rc<RefCell<Kept>>,
    waiting: Vec<(PodName, Reply<Labels>)>,
    retrying: bool,
}

struct Kept {
    book: Book,
    listener: Option<Ref<EndpointsMsg>>,
    /// Changes that the listener has not taken yet.
    untold: BTreeMap<PodName, Labels>,
}

/// What the keeper shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadsView {
    /// Sources that say something.
    pub sources: usize,
    /// Pods that they describe.
    pub pods: usize,
    /// Namespaces that they describe.
    pub namespaces: usize,
    /// Questions that wait for the first manifests.
    pub waiting: usize,
    /// Changes that are still to be told.
    pub untold: usize,
}

impl Workloads {
    /// Makes each life of the keeper of a cluster's workloads.
    pub fn factory(cluster: impl Into<String>) -> impl FnMut() -> Self + 'static {
        let kept =
            Kept { book: Book::new(cluster.into()), listener: None, untold: BTreeMap::new() };
        let kept = Rc::new(RefCell::new(kept));
        move || Self { kept: Rc::clone(&kept), waiting: Vec::new(), retrying: false }
    }

    fn answer(&self, pod: PodName, reply: Reply<Labels>) {
        let labels = self.kept.borrow_mut().book.labels_of(pod);
        reply.send(labels);
    }

    /// Tells what changed; what is not taken is told a little later.
    fn tell(&mut self, cx: &mut Cx<'_, Self>) {
        let mut kept = self.kept.borrow_mut();
        let Some(listener) = kept.listener.clone() else { return };
        while let Some((pod, labels)) = kept.untold.pop_first() {
            let name = format!("{}/{}", pod.0, pod.1);
            let told = listener.tell(EndpointsMsg::PodLabels { pod: name, labels: labels.clone() });
            if let Err(full) = told {
                kept.untold.insert(pod, labels);
                if !full.gone && !std::mem::replace(&mut self.retrying, true) {
                    cx.after(RETRY, WorkloadsMsg::Retell);
                }
                return;
            }
        }
    }
}

impl Behaviour for Workloads {
    type Msg = WorkloadsMsg;
    type Observed = WorkloadsView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.tell(cx);
    }

    fn handle(&mut self, msg: WorkloadsMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            WorkloadsMsg::Manifests(manifests) => {
                let mut kept = self.kept.borrow_mut();
                let changed = kept.book.apply(manifests);
                kept.untold.extend(changed);
                drop(kept);
                for (pod, reply) in std::mem::take(&mut self.waiting) {
                    self.answer(pod, reply);
                }
            }
            WorkloadsMsg::LabelsOf { namespace, pod, reply } => {
                let pod = (namespace, pod);
                if self.kept.borrow().book.complete {
                    self.answer(pod, reply);
                } else if self.waiting.len() < WAITING_MAX {
                    self.waiting.push((pod, reply));
                }
            }
            WorkloadsMsg::Subscribe(listener) => self.kept.borrow_mut().listener = Some(listener),
            WorkloadsMsg::Retell => self.retrying = false,
        }
        self.tell(cx);
    }

    fn observe(&self) -> WorkloadsView {
        let kept = self.kept.borrow();
        let (sources, pods, namespaces) = kept.book.counts();
        let (waiting, untold) = (self.waiting.len(), kept.untold.len());
        WorkloadsView { sources, pods, namespaces, waiting, untold }
    }
}
