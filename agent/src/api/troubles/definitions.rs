//! CustomResourceDefinitions that are missing, and nodes of which less is known for that reason.

use volvox_actors::{
    cluster::{
        api_server::{SourceState, SourceStatus},
        definitions::{DefinitionState, DefinitionStatus},
        remote_nodes::RemoteNodesView,
    },
    model::Feed,
};

use super::Trouble;

/// What to do about definitions that are missing.
pub(super) const REMEDY: &str = "say --register-crds to the agent, apply agent/packaging/crds, or \
                                 let Cilium's operator register them";

/// Definitions that the agent was to register, and could not.
pub(super) fn troubles(all: &[DefinitionStatus]) -> impl Iterator<Item = Trouble> {
    all.iter().filter_map(|DefinitionStatus { name, state }| {
        let DefinitionState::Failing { why, tries } = state else { return None };
        let text = format!(
            "CustomResourceDefinition {name} is not as this agent brings it: {why}; tried {tries} \
             times, and again"
        );
        Some(Trouble::new(format!("definition-{name}"), u64::from(*tries), text))
    })
}

/// Other nodes that are known by their Nodes alone.
pub(super) fn plain_nodes(view: &RemoteNodesView, listed: &[SourceStatus]) -> Option<Trouble> {
    let RemoteNodesView { plain, plain_named, .. } = view;
    let is_undefined = |status: &SourceStatus| {
        status.feed == Feed::CiliumNode && status.state == SourceState::Undefined
    };
    let (why, remedy) = match listed.iter().any(is_undefined) {
        true => ("CiliumNodes are not defined", REMEDY),
        false => (
            "they have no CiliumNode",
            "see that an agent runs on each of them, which makes it unless \
             --auto-create-cilium-node-resource=false",
        ),
    };
    let named = plain_named.join(", ");
    let more = if plain_named.len() < *plain { ", …" } else { "" };
    let text = format!(
        "{plain} other nodes ({named}{more}) are known by their Nodes alone, for {why}: what they \
         send from their addresses among pods counts as from outside the cluster; {remedy}"
    );
    (*plain > 0).then(|| Trouble::new("plain-nodes", 1, text))
}

#[cfg(test)]
mod tests {
    use volvox_actors::{cluster::sources::Hearing, host::Time};

    use super::*;

    #[test]
    fn only_definitions_that_fail_are_named() {
        let status = |state| DefinitionStatus { name: "ciliumnodes.cilium.io".to_owned(), state };
        let why = "the API server refuses".to_owned();
        let all = [
            DefinitionState::Unknown,
            DefinitionState::Established,
            DefinitionState::Newer("9.0.0".to_owned()),
            DefinitionState::Failing { why, tries: 3 },
        ];
        let all = all.map(status);
        let said: Vec<_> = troubles(&all).collect();
        let [Trouble { name, failures: 3, text }] = said.as_slice() else { panic!("{said:?}") };
        assert_eq!(name, "definition-ciliumnodes.cilium.io");
        assert!(text.ends_with("the API server refuses; tried 3 times, and again"), "{text}");
    }

    #[test]
    fn nodes_without_a_cilium_node_are_named_with_what_helps() {
        let status = |state| SourceStatus {
            name: "ciliumnodes",
            feed: Feed::CiliumNode,
            synced: true,
            state,
            since: Time::default(),
            version: None,
            heard: Default::default(),
            hearing: Hearing::default(),
        };
        let view = |plain, named: &[&str]| RemoteNodesView {
            plain,
            plain_named: named.iter().copied().map(str::to_owned).collect(),
            ..RemoteNodesView::default()
        };
        let undefined = [status(SourceState::Undefined)];
        let text = plain_nodes(&view(2, &["a", "b"]), &undefined).unwrap().text;
        assert!(text.starts_with("2 other nodes (a, b) are known by their Nodes alone"), "{text}");
        assert!(text.contains("not defined") && text.contains("--register-crds"), "{text}");
        let synced = [status(SourceState::Synced("7".to_owned()))];
        let text = plain_nodes(&view(9, &["a", "b"]), &synced).unwrap().text;
        assert!(text.contains("(a, b, …)") && text.contains("an agent runs on each"), "{text}");
        assert_eq!(plain_nodes(&view(0, &[]), &undefined), None);
    }
}
