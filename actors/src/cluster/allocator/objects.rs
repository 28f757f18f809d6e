//! The API server as the place where the cluster keeps its identities.

mod identity;

use std::{
    hash::{DefaultHasher, Hasher},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde_json::json;

pub(crate) use self::identity::identity;
use self::identity::{HEARTBEAT, document};
use crate::{
    cluster::{
        allocator::{
            Allocator, AllocatorAnswer, AllocatorBackend, Candidate, Claim, ClaimError, Directory,
            Entry, Found, Standing, state::LIST_WHY,
        },
        dice::Dice,
    },
    host::{AskError, Cx, Outlet, Reply},
    model::{ClusterId, IdentityId, Labels},
    ports::{Cluster, ClusterError, ObjectKey, ObjectWrite, Page, Resource, Verb},
};

/// How long all identities may take before they are asked for again: as long as it takes.
const LIST_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before a claim that failed is tried again where somebody has to do something first.
const AGAIN_AFTER_REFUSAL: Duration = Duration::from_secs(15);

/// Identities as objects. Whoever makes the object of a number has the number; nobody removes one
/// that he uses, so that it is there is all that there is to a claim. Nothing keeps two nodes from
/// making two objects for one set of labels: both numbers are good, and the lower one is taken from
/// then on.
pub(crate) struct ObjectIdentities {
    cluster: Rc<dyn Cluster>,
    /// Who says when all identities are listed.
    follower: Outlet<Reply<()>>,
    resource: Resource,
    cluster_id: ClusterId,
}

impl ObjectIdentities {
    pub(crate) fn new(
        cluster: &Rc<dyn Cluster>,
        follower: Outlet<Reply<()>>,
        resource: Resource,
        cluster_id: ClusterId,
    ) -> Self {
        Self { cluster: Rc::clone(cluster), follower, resource, cluster_id }
    }
}

impl AllocatorBackend for ObjectIdentities {
    fn name(&self) -> &'static str {
        "cluster"
    }

    fn cluster(&self) -> ClusterId {
        self.cluster_id
    }

    fn await_list(&self, cx: &mut Cx<'_, Allocator>) {
        cx.ask(&self.follower, LIST_PATIENCE, LIST_WHY, |reply| reply, AllocatorAnswer::Listed);
    }

    /// A number that is gone is made again, whatever other numbers there are for its labels.
    fn is_disputed(&self, held: IdentityId, labels: &Labels, directory: &Directory) -> bool {
        directory.is_other(held, labels)
    }

    /// By the labels: nodes that want a number for the same ones at the same time draw the same,
    /// and the server has one of them make it.
    fn dice(&mut self, labels: &Labels) -> Dice {
        let mut hasher = DefaultHasher::new();
        hasher.write(labels.sorted_text().as_bytes());
        Dice::new(hasher.finish())
    }

    fn claim(&mut self, cx: &mut Cx<'_, Allocator>, candidate: Candidate) -> Claim {
        let id = candidate.id;
        let verb = match candidate.standing {
            Standing::Known => return Claim::Had,
            Standing::Marked => {
                Verb::Merge(json!({ "metadata": { "annotations": { HEARTBEAT: null } } }))
            }
            Standing::Used | Standing::Renumbered | Standing::New => {
                Verb::Create(document(id, &candidate.labels))
            }
        };
        let why = candidate.why();
        let then = move |answer| candidate.claimed(outcome(answer));
        let reply = cx.expect("cluster", PATIENCE, why, then);
        let write = ObjectWrite { resource: self.resource.clone(), key: key(id), verb };
        self.cluster.write(write, reply);
        Claim::UnderWay
    }

    fn look(&mut self, cx: &mut Cx<'_, Allocator>, labels: &Arc<Labels>, id: IdentityId) {
        let (why, labels) = (format!("who else has identity {id}"), Arc::clone(labels));
        let cluster = self.cluster_id;
        let then = move |answer| AllocatorAnswer::Looked(labels, found(id, cluster, answer));
        let reply = cx.expect("cluster", PATIENCE, why, then);
        let fields = Some(format!("metadata.name={id}"));
        let one = Resource { fields, ..self.resource.clone() };
        self.cluster.list(&one, None, reply);
    }

    /// Who uses which is seen by CiliumEndpoints.
    fn give_up(&mut self, _: &Labels, _: IdentityId) {}
}

fn key(id: IdentityId) -> ObjectKey {
    ObjectKey { namespace: String::new(), name: id.to_string() }
}

/// How a claim went. One that is not answered may hold: it is found when it is tried again.
fn outcome(answer: Result<Result<(), ClusterError>, AskError>) -> Result<bool, ClaimError> {
    match ClusterError::of(answer) {
        Ok(()) => Ok(true),
        Err(ClusterError::Conflict(_)) => Ok(false),
        Err(error) => Err(failed(&error)),
    }
}

fn found(
    id: IdentityId,
    cluster: ClusterId,
    answer: Result<Result<Page, ClusterError>, AskError>,
) -> Result<Found, ClaimError> {
    let page = ClusterError::of(answer).map_err(|error| failed(&error))?;
    let object = page.objects.into_iter().find(|object| object.key == key(id));
    let entry = object.and_then(|object| identity((object.key, Some(object.value)), cluster));
    Ok(Found::Entry(id, entry.map_or(Entry::Gone, |(_, entry)| entry)))
}

fn failed(error: &ClusterError) -> ClaimError {
    let pause = match error {
        ClusterError::Busy { after, .. } => ClaimError::PAUSE.max(*after),
        ClusterError::Unknown(_) | ClusterError::Refused(_) | ClusterError::Invalid(_) => {
            AGAIN_AFTER_REFUSAL
        }
        _ => ClaimError::PAUSE,
    };
    ClaimError { cause: error.to_string(), pause }
}
