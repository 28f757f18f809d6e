//! The store as the place where the cluster keeps its identities.

use std::{net::IpAddr, rc::Rc, sync::Arc, time::Duration};

use crate::{
    cluster::{
        allocator::{
            Allocator, AllocatorAnswer, AllocatorBackend, Candidate, Claim, ClaimError, Directory,
            Entry, Found, Standing, state::LIST_WHY,
        },
        dice::Dice,
        kvstore::{
            IDENTITIES, IDENTITY_LOCKS, IDENTITY_USERS, KvSettings, SessionMsg, WatcherMsg, settled,
        },
    },
    host::{Cx, Ref},
    model::{ClusterId, IdentityId, IdentityScope, Labels},
    ports::{Change, Condition, KvError, KvStore, Listing, Pair, Put, Transaction},
};

/// How long the first list may take before it is asked for again.
const LIST_PATIENCE: Duration = Duration::from_secs(600);
/// How long a claim may take: it waits for a lease.
const CLAIM_PATIENCE: Duration = Duration::from_secs(60);
/// How long the store may take for a list.
const PATIENCE: Duration = Duration::from_secs(15);

/// Identities as keys of the store. A claim is one transaction: it finds the number as it was, or,
/// for one that is new, nobody who uses these labels or is about to. Who uses which is announced
/// under the node's lease, so that the operator can tell what nobody uses any more.
pub(crate) struct StoredIdentities {
    store: Rc<dyn KvStore>,
    session: Ref<SessionMsg>,
    watcher: Ref<WatcherMsg>,
    settings: Rc<KvSettings>,
    dice: Dice,
}

impl StoredIdentities {
    pub(crate) fn new(
        store: &Rc<dyn KvStore>,
        session: &Ref<SessionMsg>,
        watcher: Ref<WatcherMsg>,
        settings: &Rc<KvSettings>,
    ) -> Self {
        let dice = Dice::new(settings.seed);
        let (store, settings) = (Rc::clone(store), Rc::clone(settings));
        Self { store, session: session.clone(), watcher, settings, dice }
    }
}

impl AllocatorBackend for StoredIdentities {
    fn name(&self) -> &'static str {
        "kvstore"
    }

    fn cluster(&self) -> ClusterId {
        self.settings.cluster_id
    }

    fn await_list(&self, cx: &mut Cx<'_, Allocator>) {
        cx.ask(&self.watcher, LIST_PATIENCE, LIST_WHY, WatcherMsg::Await, AllocatorAnswer::Listed);
    }

    /// A number that is gone is not written again where the labels have another one.
    fn is_disputed(&self, held: IdentityId, labels: &Labels, directory: &Directory) -> bool {
        !directory.stands(held, labels)
            && (directory.is_other(held, labels) || directory.of(labels, self.cluster()).is_some())
    }

    /// Somewhere: nodes that allocate at the same time hardly meet.
    fn dice(&mut self, _: &Labels) -> Dice {
        Dice::new(self.dice.number())
    }

    fn claim(&mut self, cx: &mut Cx<'_, Allocator>, candidate: Candidate) -> Claim {
        let Candidate { id, standing, .. } = candidate;
        let text = candidate.labels.sorted_text();
        let (number, user) = (format!("{IDENTITIES}{id}"), user_key(&text, self.settings.address));
        let when = match standing {
            Standing::Known | Standing::Marked => {
                vec![Condition::ValueIs(number.clone(), text.clone().into_bytes())]
            }
            Standing::Used => vec![Condition::Absent(number.clone())],
            Standing::Renumbered => vec![
                Condition::Absent(number.clone()),
                Condition::NoneBelow(format!("{IDENTITY_LOCKS}{text}")),
            ],
            Standing::New => vec![
                Condition::Absent(number.clone()),
                Condition::NoneBelow(format!("{IDENTITY_USERS}{text}/")),
                Condition::NoneBelow(format!("{IDENTITY_LOCKS}{text}")),
            ],
        };
        let main = Put { key: number, value: text.into_bytes(), lease: None };
        let puts = match standing {
            Standing::Known | Standing::Marked => Vec::new(),
            Standing::Used | Standing::Renumbered | Standing::New => vec![main],
        };
        let transaction = Transaction { when, puts, deletes: Vec::new() };
        let leased = vec![Pair { key: user, value: id.to_string().into_bytes() }];
        let why = candidate.why();
        cx.ask(
            &self.session,
            CLAIM_PATIENCE,
            why,
            |reply| SessionMsg::Claim { transaction, leased, reply },
            move |answer| {
                candidate.claimed(settled(answer, "claim", "an identity").map_err(failed))
            },
        );
        Claim::UnderWay
    }

    fn look(&mut self, cx: &mut Cx<'_, Allocator>, labels: &Arc<Labels>, _: IdentityId) {
        let prefix = format!("{IDENTITY_USERS}{}/", labels.sorted_text());
        let (why, labels) = (format!("who else uses {labels}"), Arc::clone(labels));
        let cluster = self.cluster();
        let then = move |answer| {
            let listing = settled(answer, "list", IDENTITY_USERS).map_err(failed);
            let found = listing.map(|listing| users(&labels, cluster, &listing));
            AllocatorAnswer::Looked(labels, found)
        };
        let reply = cx.expect("kvstore", PATIENCE, why, then);
        self.store.list(&prefix, None, reply);
    }

    fn give_up(&mut self, labels: &Labels, id: IdentityId) {
        let key = user_key(&labels.sorted_text(), self.settings.address);
        let gone = SessionMsg::Announce([(key, None)].into());
        if let Err(refused) = self.session.tell(gone) {
            tracing::warn!(identity = %id, %refused, "identity stays announced");
        }
    }
}

fn failed(error: KvError) -> ClaimError {
    ClaimError { cause: error.to_string(), pause: ClaimError::PAUSE }
}

/// What a change below `root` says of an identity; what cannot be read is named and left out.
pub(crate) fn identity(change: Change, root: &str) -> Option<(IdentityId, Entry)> {
    match change {
        Change::Put(Pair { key, value }) => match read(&key, root, &value) {
            Ok((id, labels)) => Some((id, Entry::Labels(Arc::new(labels)))),
            Err(cause) => {
                tracing::warn!(key, cause, "kvstore key is no identity; remove it");
                // What it stood for before is not what it says now.
                Some((number(&key, root)?, Entry::Gone))
            }
        },
        Change::Delete(key) => Some((number(&key, root)?, Entry::Gone)),
    }
}

/// The number that a key names.
fn number(key: &str, root: &str) -> Option<IdentityId> {
    let id = key.strip_prefix(root)?.parse().ok().map(IdentityId);
    // Others are numbers of one node.
    id.filter(|id| id.scope() == IdentityScope::Global)
}

fn read(key: &str, root: &str, value: &[u8]) -> Result<(IdentityId, Labels), String> {
    let id = number(key, root).ok_or("it ends in no number")?;
    let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
    let labels = Labels::parse(text.split_terminator(';')).map_err(|error| error.to_string())?;
    if labels.is_empty() {
        return Err("it has no labels".to_owned());
    }
    Ok((id, labels))
}

/// The key that says that a node uses these labels.
fn user_key(text: &str, node: IpAddr) -> String {
    format!("{IDENTITY_USERS}{text}/{node}")
}

/// The number under which nodes use these labels. Longer label sets begin with the same text: only
/// what has no further part is meant.
fn users(labels: &Labels, cluster: ClusterId, listing: &Listing) -> Found {
    let prefix = format!("{IDENTITY_USERS}{}/", labels.sorted_text());
    let numbers = listing.pairs.iter().filter_map(|pair| {
        let node = pair.key.strip_prefix(&prefix).filter(|node| !node.contains('/'))?;
        node.parse::<IpAddr>().ok()?;
        std::str::from_utf8(&pair.value).ok()?.parse().ok().map(IdentityId)
    });
    let (own, others): (Vec<_>, Vec<_>) = numbers.partition(|id| cluster.hands_out(*id));
    Found::Users { number: own.first().copied(), strays: !others.is_empty() }
}
