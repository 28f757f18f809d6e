//! `volvox identity`: lists identities, or shows one.

use volvox_rest::{RestClient, models::Identity};

use super::{args::IdentityCommand, endpoint::label_query, error::ClientError, output::Output};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: IdentityCommand,
) -> Result<(), ClientError> {
    match command {
        IdentityCommand::List { labels } => {
            let path = format!("/identity{}", label_query(&labels));
            out.answer(&client.get::<Vec<Identity>>(&path).await?, |out, all| table(out, all))
        }
        IdentityCommand::Get { id } => {
            let identity: Identity = client.get(&format!("/identity/{id}")).await?;
            out.answer(&identity, |out, identity| table(out, std::slice::from_ref(identity)))
        }
    }
}

fn table(out: &mut Output<'_>, identities: &[Identity]) -> Result<(), ClientError> {
    let rows = identities.iter().map(|it| [it.id.to_string(), it.labels.join("\n")]);
    out.table(["ID", "LABELS"], rows)
}
