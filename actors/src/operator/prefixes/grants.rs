//! Prefixes that are given and may not be in the CiliumNodes yet, as the Lease says them.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// What one node is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::operator) struct Grant {
    /// The UID of its CiliumNode: another one of the name is another node.
    pub(in crate::operator) uid: String,
    /// The node's only prefixes.
    pub(in crate::operator) cidrs: Vec<IpNet>,
    /// Prefixes of pools, by pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::operator) pools: BTreeMap<String, Vec<IpNet>>,
}

impl Grant {
    /// All prefixes.
    pub(in crate::operator) fn all(&self) -> impl Iterator<Item = IpNet> {
        self.cidrs.iter().chain(self.pools.values().flatten()).copied()
    }
}

/// All of them, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::operator) struct Grants(pub(in crate::operator) BTreeMap<String, Grant>);

impl Grants {
    /// Reads what a Lease says.
    pub(in crate::operator) fn read(text: Option<&str>) -> Result<Self, String> {
        let text = text.unwrap_or_default();
        match text.is_empty() {
            true => Ok(Self::default()),
            false => serde_json::from_str(text).map_err(|error| error.to_string()),
        }
    }

    pub(in crate::operator) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_older_operators_wrote_is_read_and_they_can_read_what_this_one_writes() {
        let old = r#"{"n1":{"uid":"a","cidrs":["10.0.0.0/24"]}}"#;
        let grants = Grants::read(Some(old)).unwrap();
        assert_eq!(grants.text(), old);
        let pools = [("blue".to_owned(), vec!["10.9.0.0/24".parse().unwrap()])].into();
        let grant = Grant { uid: "b".to_owned(), cidrs: Vec::new(), pools };
        let grants = Grants([("n2".to_owned(), grant)].into());
        assert_eq!(Grants::read(Some(&grants.text())), Ok(grants.clone()));
        #[derive(Deserialize)]
        struct Before {
            cidrs: Vec<IpNet>,
        }
        let before: BTreeMap<String, Before> = serde_json::from_str(&grants.text()).unwrap();
        assert!(before["n2"].cidrs.is_empty());
    }
}
