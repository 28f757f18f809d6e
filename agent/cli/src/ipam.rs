//! `volvox ipam`: lists the addresses that are allocated, with their owners, and pools.

use std::collections::BTreeSet;

use volvox_rest::{
    RestClient,
    models::{IpamLease, PodPools},
};

use super::{
    args::IpamCommand,
    error::ClientError,
    output::{Listed, Output, list, namespace_of, seconds},
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: IpamCommand,
) -> Result<(), ClientError> {
    match command {
        IpamCommand::Pools => pools(client, out).await,
        IpamCommand::List(listing) => {
            let fetch = async || Ok(client.get::<Vec<IpamLease>>("/volvox/ipam").await?);
            list(out, &listing, fetch).await
        }
    }
}

impl Listed for IpamLease {
    const HEADINGS: &'static [&'static str] = &["ADDRESS", "OWNER", "POOL", "EXPIRES IN"];

    fn cells(&self) -> Vec<String> {
        let expires = self.expires_seconds.map(seconds).unwrap_or_default();
        vec![self.address.clone(), self.owner.clone(), self.pool.clone(), expires]
    }

    fn namespaces(&self) -> BTreeSet<String> {
        namespace_of(&self.owner)
    }
}

/// How much of each pool is used, then where its addresses are from.
async fn pools(client: &RestClient, out: &mut Output<'_>) -> Result<(), ClientError> {
    let pools: Option<PodPools> = client.get("/volvox/pools").await?;
    out.answer(&pools, |out, pools| {
        let Some(pools) = pools else {
            return out.line("there is one pool: --ipam=multi-pool has several");
        };
        let number = |it: u64| it.to_string();
        let rows = pools.pools.iter().map(|it| {
            let numbers = [it.used, it.capacity, it.needed, it.pending].map(number);
            let [used, capacity, needed, pending] = numbers;
            [it.pool.clone(), it.family.clone(), used, capacity, needed, pending]
        });
        out.table(["POOL", "FAMILY", "USED", "CAPACITY", "NEEDED", "WAITING"], rows)?;
        out.line("")?;
        let rows = pools
            .prefixes
            .iter()
            .map(|it| [it.prefix.clone(), it.pool.clone(), it.state.clone(), number(it.used)]);
        out.table(["PREFIX", "POOL", "STATE", "USED"], rows)?;
        match pools.trouble.as_str() {
            "" => Ok(()),
            trouble => out.line(trouble),
        }
    })
}
