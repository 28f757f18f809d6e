//! The store that the nodes of a cluster share, as the agents' flags name it.

use clap::{ArgAction, Args, ValueEnum};
use volvox_etcd::EtcdOptions;

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// etcd, version 3
    Etcd,
    /// The same: by which client agents reach it makes no difference here
    EtcdRs,
    /// A file of the one node of a cluster, which is left to its agent
    Embedded,
}

/// Where agents keep identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IdentityMode {
    /// CiliumIdentities, of which this operator removes those that nobody uses
    Crd,
    /// The store that --kvstore names, of which it does the same
    Kvstore,
}

/// Which store there is.
#[derive(Clone, Debug, Args)]
pub struct StoreSettings {
    /// Store that the nodes of the cluster share; none if not given
    #[arg(long, value_enum, ignore_case = true, value_name = "KIND")]
    pub kvstore: Option<StoreKind>,
    /// Where it is: `etcd.address=URL`, or `etcd.config=FILE` with certificates and a user
    #[arg(long, value_name = "OPTIONS", action = ArgAction::Append)]
    pub kvstore_opt: Vec<EtcdOptions>,
    /// Where agents keep identities; if it is not said, in the store if there is one
    #[arg(long, value_enum, ignore_case = true, value_name = "MODE")]
    pub identity_allocation_mode: Option<IdentityMode>,
}

impl StoreSettings {
    /// The servers of the store, if it has any.
    pub fn etcd(&self) -> Option<EtcdOptions> {
        let has_servers = matches!(self.kvstore?, StoreKind::Etcd | StoreKind::EtcdRs);
        // What was said last counts.
        let all = self.kvstore_opt.iter().rev().cloned();
        has_servers.then(|| all.fold(EtcdOptions::default(), EtcdOptions::or))
    }

    /// Where identities are.
    pub fn identities(&self) -> IdentityMode {
        let default = if self.etcd().is_some() { IdentityMode::Kvstore } else { IdentityMode::Crd };
        self.identity_allocation_mode.unwrap_or(default)
    }
}
