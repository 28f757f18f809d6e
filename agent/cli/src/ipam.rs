//! `volvox ipam`: lists the addresses that are allocated, with their owners.

use volvox_rest::{RestClient, models::IpamLease};

use super::{
    args::IpamCommand,
    error::ClientError,
    output::{Output, seconds},
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: IpamCommand,
) -> Result<(), ClientError> {
    let IpamCommand::List = command;
    let leases: Vec<IpamLease> = client.get("/volvox/ipam").await?;
    out.answer(&leases, |out, leases| {
        let rows = leases.iter().map(|lease| {
            let expires = lease.expires_seconds.map(seconds).unwrap_or_default();
            [lease.address.clone(), lease.owner.clone(), lease.pool.clone(), expires]
        });
        out.table(["ADDRESS", "OWNER", "POOL", "EXPIRES IN"], rows)
    })
}
