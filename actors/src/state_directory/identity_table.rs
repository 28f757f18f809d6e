//! The table of identities on disk, and the changes since it was last written as a whole.
//! Identities are allocated elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{Slots, StateError, StateFiles, Stored};
use crate::model::{IdentityId, Labels, NamedPorts};

/// The numbers that stand for labels. Kept in the library directory, for they outlive a reboot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdentityTable {
    /// Numbers of label sets, valid in the whole cluster.
    pub cluster: Vec<NumberedLabels>,
    /// Numbers of prefixes, valid on this node.
    pub local: Vec<NumberedLabels>,
    /// Names of ports of other nodes' pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_ports: Vec<NumberedPorts>,
    /// Numbers that were given back, longest ago first: reused last, in this order.
    pub retired: Vec<IdentityId>,
}

/// What became of a table since it was written: identities of other nodes come one by one, and the
/// whole table is long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdentityChanges {
    /// Numbers of the cluster that were added, or stand for something else now.
    pub cluster: Vec<NumberedLabels>,
    /// Names of ports that are others now, or none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_ports: Vec<NumberedPorts>,
    /// The writing of the table that these belong to; with any other they count for nothing.
    pub table: u32,
}

impl IdentityChanges {
    /// Where they are kept.
    pub const SLOTS: Slots<Self> = Slots::new("lib/identities.changes");
}

/// A number and its labels, as in Cilium's `local_allocator_state.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberedLabels {
    /// The number.
    pub id: IdentityId,
    /// The labels that it stands for.
    pub labels: Labels,
}

/// Names of ports that pods of each of these identities have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberedPorts {
    /// The identities' numbers.
    pub ids: Vec<IdentityId>,
    /// The names.
    pub ports: NamedPorts,
}

impl NumberedPorts {
    /// Identities by the names that they share.
    pub fn group<'a>(
        all: impl IntoIterator<Item = (IdentityId, &'a Arc<NamedPorts>)>,
    ) -> Vec<Self> {
        let mut groups: BTreeMap<&Arc<NamedPorts>, Vec<IdentityId>> = BTreeMap::new();
        for (id, ports) in all {
            groups.entry(ports).or_default().push(id);
        }
        let group = |(ports, ids): (&Arc<NamedPorts>, _)| Self { ids, ports: (**ports).clone() };
        groups.into_iter().map(group).collect()
    }
}

impl IdentityTable {
    /// Where it is kept.
    pub const SLOTS: Slots<Self> = Slots::new("lib/identities");

    /// Cilium's file of local numbers, in the state directory; read once, when taking over.
    pub const CILIUM_LOCAL: &'static str = "local_allocator_state.json";

    /// Reads it, with what became of it.
    pub fn load(files: &impl StateFiles) -> Stored<Self> {
        let mut stored = Self::SLOTS.load(files);
        let Some(table) = &mut stored.value else { return stored };
        let writing = stored.generation;
        let changes = IdentityChanges::SLOTS.load_of(files, |changes| changes.table == writing);
        if let Some(changes) = changes.value {
            table.change(changes.cluster);
            table.change_ports(changes.named_ports);
        }
        stored.errors.extend(changes.errors);
        stored
    }

    fn change(&mut self, changed: Vec<NumberedLabels>) {
        let ids: BTreeSet<_> = changed.iter().map(|it| it.id).collect();
        self.cluster.retain(|it| !ids.contains(&it.id));
        self.cluster.extend(changed);
    }

    fn change_ports(&mut self, changed: Vec<NumberedPorts>) {
        let ids: BTreeSet<_> = changed.iter().flat_map(|it| &it.ids).copied().collect();
        self.named_ports.iter_mut().for_each(|it| it.ids.retain(|id| !ids.contains(id)));
        self.named_ports.extend(changed);
        self.named_ports.retain(|it| !it.ids.is_empty() && !it.ports.is_empty());
    }

    /// Forgets names of ports of all other identities.
    pub fn keep_ports(&mut self, keeps: impl Fn(IdentityId) -> bool) {
        self.named_ports.iter_mut().for_each(|it| it.ids.retain(|&id| keeps(id)));
    }

    /// Names of ports of each identity that has any.
    pub fn ports_by_identity(&self) -> impl Iterator<Item = (IdentityId, Arc<NamedPorts>)> {
        self.named_ports.iter().flat_map(|it| {
            let ports = Arc::new(it.ports.clone());
            it.ids.iter().map(move |&id| (id, Arc::clone(&ports)))
        })
    }

    /// The labels that a number stands for.
    pub fn labels_of(&self, id: IdentityId) -> Option<Labels> {
        let all = self.cluster.iter().chain(&self.local);
        all.into_iter().find(|numbered| numbered.id == id).map(|numbered| numbered.labels.clone())
    }

    /// Reads [`Self::CILIUM_LOCAL`].
    pub fn local_from_cilium(bytes: &[u8]) -> Result<Vec<NumberedLabels>, StateError> {
        let syntax = |cause| StateError::Syntax { file: Self::CILIUM_LOCAL.to_owned(), cause };
        // An agent that never had any writes null.
        let all: Option<Vec<NumberedLabels>> =
            serde_json::from_slice(bytes).map_err(|error| syntax(error.to_string()))?;
        Ok(all.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Label, testing::MemoryFs};

    fn table(id: u32) -> IdentityTable {
        let labels = Labels::from_iter([Label::new("k8s", "app", "web")]);
        let cluster = vec![NumberedLabels { id: IdentityId(id), labels }];
        IdentityTable { cluster, retired: vec![IdentityId(999)], ..Default::default() }
    }

    #[test]
    fn the_newest_copy_counts_and_the_previous_one_stays() {
        let mut fs = MemoryFs::default();
        assert_eq!(IdentityTable::SLOTS.load(&fs).value, None);
        for generation in 1..=3 {
            fs.apply(&IdentityTable::SLOTS.save(&table(300 + generation), generation)).unwrap();
        }
        let stored = IdentityTable::SLOTS.load(&fs);
        assert_eq!((stored.value, stored.generation), (Some(table(303)), 3));
        fs.write("lib/identities.1.json", b"{\"cluster\":[");
        let stored = IdentityTable::SLOTS.load(&fs);
        assert_eq!((stored.value, stored.generation), (Some(table(302)), 2));
        assert_eq!(stored.errors.len(), 1);
    }

    #[test]
    fn changes_count_for_the_table_that_they_belong_to() {
        let named = |id, name: &str| NumberedLabels {
            id: IdentityId(id),
            labels: Labels::from_iter([Label::new("k8s", "app", name)]),
        };
        let mut fs = MemoryFs::default();
        let write = |fs: &mut MemoryFs, table, cluster: &[NumberedLabels], generation| {
            let cluster = cluster.to_vec();
            let changes = IdentityChanges { table, cluster, ..IdentityChanges::default() };
            fs.apply(&IdentityChanges::SLOTS.save(&changes, generation)).unwrap();
        };
        let known = |fs: &MemoryFs| IdentityTable::load(fs).value.unwrap_or_default().cluster;
        write(&mut fs, 0, &[named(5000, "early")], 1);
        assert_eq!(known(&fs), []);
        fs.apply(&IdentityTable::SLOTS.save(&table(300), 1)).unwrap();
        assert_eq!(known(&fs), [named(300, "web")]);
        // The number goes to somebody else, and later its labels get another one.
        write(&mut fs, 1, &[named(300, "db")], 1);
        assert_eq!(known(&fs), [named(300, "db")]);
        write(&mut fs, 1, &[named(300, "db"), named(301, "web")], 2);
        assert_eq!(known(&fs), [named(300, "db"), named(301, "web")]);
        // Of two copies the newest, and one that is torn is told of.
        fs.write("lib/identities.changes.0.json", b"{");
        let stored = IdentityTable::load(&fs);
        assert_eq!(stored.value.unwrap().cluster, [named(300, "db")]);
        assert_eq!((stored.generation, stored.errors.len()), (1, 1));
        fs.apply(&IdentityTable::SLOTS.save(&table(302), 2)).unwrap();
        assert_eq!(known(&fs), [named(302, "web")]);
    }

    #[test]
    fn names_of_ports_are_kept_beside_the_labels() {
        let ports = |ids: &[u32], numbers: &[u16]| NumberedPorts {
            ids: ids.iter().copied().map(IdentityId).collect(),
            ports: numbers.iter().map(|&port| (format!("p{port}"), [(6, port)].into())).collect(),
        };
        let mut fs = MemoryFs::default();
        let known = |fs: &MemoryFs| {
            let table = IdentityTable::load(fs).value.unwrap();
            let all = table.ports_by_identity().map(|(id, ports)| (id.0, ports.len()));
            all.collect::<BTreeMap<_, _>>()
        };
        // One of before says nothing of them.
        fs.apply(&IdentityTable::SLOTS.save(&table(300), 1)).unwrap();
        let text = fs.read("lib/identities.1.json").unwrap().unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("named_ports"), "{text}");
        assert_eq!(known(&fs), BTreeMap::new());
        let named_ports = vec![ports(&[104, 300, 301], &[80, 81])];
        let table = IdentityTable { named_ports, ..table(300) };
        fs.apply(&IdentityTable::SLOTS.save(&table, 2)).unwrap();
        assert_eq!(known(&fs), [(104, 2), (300, 2), (301, 2)].into());
        // Some lose theirs, some get others, some are new.
        let named_ports = vec![ports(&[301], &[]), ports(&[300, 302], &[80])];
        let changes = IdentityChanges { table: 2, named_ports, ..IdentityChanges::default() };
        fs.apply(&IdentityChanges::SLOTS.save(&changes, 1)).unwrap();
        assert_eq!(known(&fs), [(104, 2), (300, 1), (302, 1)].into());
    }

    #[test]
    fn the_counter_may_wrap() {
        let mut fs = MemoryFs::default();
        fs.apply(&IdentityTable::SLOTS.save(&table(256), u32::MAX)).unwrap();
        fs.apply(&IdentityTable::SLOTS.save(&table(257), 0)).unwrap();
        assert_eq!(IdentityTable::SLOTS.load(&fs).value, Some(table(257)));
    }

    #[test]
    fn reads_cilium_s_local_numbers() {
        let text =
            br#"[{"id":16777218,"labels":{"10.1.0.0/16":{"key":"10.1.0.0/16","source":"cidr"}}}]"#;
        let local = IdentityTable::local_from_cilium(text).unwrap();
        assert_eq!(local[0].id, IdentityId(16_777_218));
        assert_eq!(local[0].labels.to_texts(), ["cidr:10.1.0.0/16"]);
        assert_eq!(IdentityTable::local_from_cilium(b"null").unwrap(), []);
        let error = IdentityTable::local_from_cilium(b"[{\"id\":-1}]").unwrap_err();
        assert!(error.to_string().starts_with("local_allocator_state.json is torn"), "{error}");
    }
}
