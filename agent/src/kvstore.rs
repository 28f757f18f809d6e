//! The way to the store: to etcd, or to a file of this node.

use std::rc::Rc;

#[cfg(not(feature = "etcd-rs"))]
use anyhow::bail;
use volvox_actors::ports::KvStore;
use volvox_etcd::Etcd;
#[cfg(feature = "etcd-rs")]
use volvox_etcd::EtcdRs;

#[cfg(not(feature = "etcd-rs"))]
use crate::config::WITHOUT_ETCD_RS;
use crate::{
    config::{Config, KvStoreKind},
    ports::Embedded,
};

/// The store of a cluster of one node, in the library directory.
const EMBEDDED_FILE: &str = "kvstore.redb";

/// The store, if there is one, and once more if it is a file of this node.
pub type Stores = (Option<Rc<dyn KvStore>>, Option<Rc<Embedded>>);

/// Starts the way to it.
pub fn start(config: &Config) -> anyhow::Result<Stores> {
    let options = config.kvstore_opt.clone();
    let shared: Rc<dyn KvStore> = match config.kvstore {
        Some(KvStoreKind::Etcd) => Rc::new(Etcd::start(options)?),
        #[cfg(feature = "etcd-rs")]
        Some(KvStoreKind::EtcdRs) => Rc::new(EtcdRs::start(options)?),
        #[cfg(not(feature = "etcd-rs"))]
        Some(KvStoreKind::EtcdRs) => bail!(WITHOUT_ETCD_RS),
        Some(KvStoreKind::Embedded) => {
            let store = Rc::new(Embedded::start(&config.lib_dir.join(EMBEDDED_FILE))?);
            return Ok((Some(Rc::clone(&store) as _), Some(store)));
        }
        None => return Ok((None, None)),
    };
    Ok((Some(shared), None))
}
