//! `volvox identity`: lists identities, or shows one.

use std::collections::BTreeSet;

use volvox_rest::{RestClient, models::Identity};

use super::{
    args::IdentityCommand,
    endpoint::{label_query, none_is_empty},
    error::ClientError,
    output::{Listed, Output, list, namespace_in, shown_one},
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: IdentityCommand,
) -> Result<(), ClientError> {
    match command {
        IdentityCommand::List { listing, labels } => {
            let path = format!("/identity{}", label_query(&labels));
            let fetch = async || none_is_empty(client.get::<Vec<Identity>>(&path).await);
            list(out, &listing, fetch).await
        }
        IdentityCommand::Get { id } => {
            shown_one(out, &client.get::<Identity>(&format!("/identity/{id}")).await?)
        }
    }
}

impl Listed for Identity {
    const HEADINGS: &'static [&'static str] = &["ID", "LABELS"];

    fn cells(&self) -> Vec<String> {
        vec![self.id.to_string(), self.labels.join("\n")]
    }

    fn namespaces(&self) -> BTreeSet<String> {
        namespace_in(&self.labels)
    }
}
