//! Reads the prefix back from the labels of a prefix's identity.

use ipnet::IpNet;

use crate::model::Labels;

/// The prefix that the labels of a prefix's identity name.
pub(super) fn prefix(labels: &Labels) -> Option<IpNet> {
    let label = labels.iter().find(|label| label.source == "cidr")?;
    label.key.replace('-', ":").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Families, policy::identity::reserved::prefix_labels};

    #[test]
    fn the_prefix_is_read_back_from_its_labels() {
        for text in ["10.1.0.0/16", "fd00:1::/32", "::1/128", "::/1", "1::/16"] {
            let net: IpNet = text.parse().unwrap();
            assert_eq!(prefix(&prefix_labels(&net, Families::DUAL)), Some(net));
        }
        assert_eq!(prefix(&Labels::reserved("world")), None);
    }
}
