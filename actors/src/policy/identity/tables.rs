//! The identity table: numbers of the cluster, numbers of local prefixes, and names of ports.
//! It is made from what was stored, and turned back into that.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
};

use ipnet::IpNet;
use rpds::RedBlackTreeMap;

use super::{
    IdentityError, cidr,
    numbers::Numbers,
    reserved::prefix_labels,
    uses::{InUse, Uses},
};
use crate::{
    model::{ClusterId, Families, IdentityId, IdentityScope, Labels, NamedPorts},
    state_directory::{IdentityTable, NumberedLabels, NumberedPorts},
};

/// How many numbers of each kind that nobody uses are remembered.
const KEPT_MAX: usize = 16_384;

/// Numbers of local prefixes.
const LOCAL_CIDR: RangeInclusive<IdentityId> =
    IdentityId::MIN_LOCAL_CIDR..=IdentityId((2 << 24) - 1);

/// Every number that was handed out and is remembered.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    families: Families,
    /// Those that label sets have in the cluster.
    pub(super) cluster: Numbers,
    local: Numbers,
    /// Names of ports of other nodes' pods, and how often they changed. A copy shares them.
    named_ports: RedBlackTreeMap<IdentityId, Arc<NamedPorts>>,
    renamed: u64,
}

impl Tables {
    /// The tables as they were stored. Prefixes get the labels that they have today.
    pub(super) fn new(stored: &IdentityTable, families: Families, cluster: ClusterId) -> Self {
        let local: Vec<_> = stored
            .local
            .iter()
            .filter_map(|known| {
                let labels = prefix_labels(&cidr::prefix(&known.labels)?, families);
                Some(NumberedLabels { id: known.id, labels })
            })
            .collect();
        Self {
            families,
            // Those of other clusters and of other nodes are remembered, too.
            cluster: Numbers::new(
                cluster.first()..=cluster.last(),
                vec![
                    ClusterId::MIN.first()..=ClusterId::MAX.last(),
                    IdentityId::MIN_REMOTE_NODE..=IdentityId::MAX_REMOTE_NODE,
                ],
                &stored.cluster,
            ),
            local: Numbers::new(LOCAL_CIDR, Vec::new(), &local),
            named_ports: stored.ports_by_identity().collect(),
            renamed: 0,
        }
    }

    /// The number of a prefix; all of a family is the world itself.
    pub(super) fn of_prefix(&self, prefix: &IpNet) -> Option<IdentityId> {
        if prefix.prefix_len() == 0 {
            return self.families.world(prefix.addr().is_ipv4()).or(Some(IdentityId::WORLD));
        }
        self.local.of(&prefix_labels(prefix, self.families))
    }

    pub(super) fn labels(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        match id.scope() {
            IdentityScope::LocalCidr => self.local.labels(id),
            IdentityScope::Global | IdentityScope::RemoteNode => self.cluster.labels(id),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (IdentityId, &Arc<Labels>)> {
        self.cluster.iter().chain(self.local.iter())
    }

    /// Gives a set of labels a number that it has in the cluster; false if that is in use for others.
    pub(super) fn assign_exactly(
        &mut self,
        labels: &Arc<Labels>,
        id: IdentityId,
        in_use: InUse<'_>,
    ) -> bool {
        self.cluster.bind_exactly(labels, id, |other| in_use.has(other))
    }

    /// Names of ports that other nodes' pods of an identity have, if any.
    pub(super) fn named_ports(&self, id: IdentityId) -> Option<&Arc<NamedPorts>> {
        self.named_ports.get(&id)
    }

    /// The ports of other nodes' pods of an identity have these names; none if it is empty.
    pub(super) fn name_ports(&mut self, id: IdentityId, ports: Arc<NamedPorts>) {
        let after = (!ports.is_empty()).then_some(ports);
        if self.named_ports.get(&id) == after.as_ref() {
            return;
        }
        self.renamed += 1;
        match after {
            Some(ports) => self.named_ports.insert_mut(id, ports),
            None => drop(self.named_ports.remove_mut(&id)),
        }
    }

    /// Gives each prefix its number.
    pub(super) fn assign_prefixes(
        &mut self,
        desired: &BTreeSet<IpNet>,
        InUse { uses, spared }: InUse<'_>,
    ) -> Result<BTreeMap<IpNet, IdentityId>, IdentityError> {
        let known = desired.iter().filter_map(|prefix| self.of_prefix(prefix));
        let mut spared: BTreeSet<_> = spared.iter().copied().chain(known).collect();
        let mut numbers = BTreeMap::new();
        for prefix in desired {
            let id = match self.of_prefix(prefix) {
                Some(id) => id,
                None => {
                    let labels = Arc::new(prefix_labels(prefix, self.families));
                    self.local.assign(&labels, None, InUse { uses, spared: &spared })?
                }
            };
            spared.insert(id);
            numbers.insert(*prefix, id);
        }
        Ok(numbers)
    }

    /// Forgets what is remembered beyond measure.
    pub(super) fn forget_surplus(&mut self, in_use: InUse<'_>) {
        self.cluster.forget_surplus(KEPT_MAX, in_use);
        self.local.forget_surplus(KEPT_MAX, in_use);
    }

    /// How it is stored.
    pub(super) fn to_stored(&self, uses: &Uses) -> IdentityTable {
        IdentityTable {
            cluster: self.cluster.to_table(),
            local: self.local.to_table(),
            named_ports: NumberedPorts::group(self.named_ports.iter().map(|(&id, it)| (id, it))),
            retired: uses.unused().filter(|&id| self.labels(id).is_some()).collect(),
        }
    }

    /// Whether both have the same numbers for the same things, with the same names of ports.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.cluster.revision() == other.cluster.revision()
            && self.local.revision() == other.local.revision()
            && self.renamed == other.renamed
    }

    /// Whether a number stands for nothing that stood for something in the table that this one
    /// was made of.
    pub(super) fn lost_since(&self, before: &Self) -> bool {
        self.cluster.losses() != before.cluster.losses()
            || self.local.losses() != before.local.losses()
    }

    /// Whether both have the same numbers for the same prefixes.
    pub(super) fn same_local_as(&self, other: &Self) -> bool {
        self.local.revision() == other.local.revision()
    }
}
