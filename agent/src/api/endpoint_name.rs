//! Which endpoint a request means. What is no number, address or `PREFIX:VALUE` may be a pod's name, or the
//! beginning of a container's identifier, if it is so of one endpoint only.

use std::{collections::BTreeSet, sync::Arc};

use volvox_actors::{
    endpoints::{
        endpoint::EndpointView,
        supervisor::{EndpointReference, EndpointsMsg, TargetError, word_means},
    },
    model::Labels,
};
use volvox_inspect::http::ApiError;

use super::Api;

/// The endpoint that is meant.
pub(super) async fn target(api: &Api, text: &str) -> Result<EndpointReference, ApiError> {
    match text.parse::<EndpointReference>() {
        Ok(target) => Ok(target),
        Err(TargetError::Word(word)) => {
            let list = |reply| EndpointsMsg::List { labels: Labels::default(), reply };
            let what = "endpoints of that name";
            let all = api.gateway.ask(what, |node| &node.endpoints, list).await?;
            of_word(&word, &all)
        }
        Err(error) => Err(ApiError::bad_request(error)),
    }
}

fn of_word(word: &str, all: &[Arc<EndpointView>]) -> Result<EndpointReference, ApiError> {
    let means = |view: &&Arc<EndpointView>| {
        let spec = &view.spec;
        !spec.is_host() && word_means(word, &spec.pod_name, &spec.container_id)
    };
    let found: Vec<_> = all.iter().filter(means).collect();
    let pods: BTreeSet<_> =
        found.iter().map(|view| (view.spec.pod(), &view.spec.container_id)).collect();
    match (found.as_slice(), pods.len()) {
        ([], _) => Err(ApiError::not_found(format!(
            "no endpoint is called {word:?}: say its number, NAMESPACE/POD, a pod's name, an address, 12 or \
             more digits of its container's identifier, or PREFIX:VALUE (`volvox endpoint list` has them all)"
        ))),
        ([view], _) => Ok(EndpointReference::Id(view.id)),
        // A pod with several interfaces: the same one as by its whole name.
        ([view, ..], 1) if view.spec.pod_name == word => {
            Ok(EndpointReference::Pod(view.spec.pod().unwrap_or_default()))
        }
        (several, _) => {
            let name = |view: &&Arc<EndpointView>| {
                format!("{} ({})", view.id, view.spec.pod().unwrap_or_default())
            };
            let names: Vec<_> = several.iter().map(name).collect();
            Err(ApiError::bad_request(format!(
                "{word:?} means {} endpoints: {}; say which, by its number or as NAMESPACE/POD",
                several.len(),
                names.join(", ")
            )))
        }
    }
}
