//! Identities and addresses listed from etcd into the ipcache, against no more than that: the two
//! lists, and the rows written by one batch.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use volvox_actors::cluster::kvstore::{ADDRESSES, IDENTITIES};
use volvox_bpf_progs::layouts::{IpcacheKey, IpcacheRow};

use super::{
    ipcache::Ipcache,
    neighbours::{FIRST_IDENTITY, Neighbours, address, in_force},
};
use crate::{
    bench::{Figure, Unit},
    lab::{PrefixMap, Store},
    progress::Progress,
};

/// Starts the agent, again and again, with all of it in etcd and none in the ipcache.
pub(super) fn measure(
    neighbours: &mut Neighbours,
    rounds: u16,
    progress: &Progress,
) -> Result<Vec<Figure>> {
    let mut ratio = Figure::new("cluster.ipcache_ratio", Unit::Ratio).below(2.0);
    let mut listed = Figure::new("cluster.ipcache", Unit::Seconds);
    let mut bare = Figure::new("cluster.ipcache_bare", Unit::Seconds);
    let count = neighbours.size.addresses;
    let last = count - 1;
    progress.rounds("reading addresses", rounds.into(), |_| {
        if in_force(&neighbours.fleet.node)? > 0 {
            neighbours.withdraw()?;
            let identity = neighbours.size.identity_of(last);
            neighbours.fleet.node.wait("addresses stay in force", |node| {
                // What the agent gave up, the kernel may still have.
                let there = Ipcache::open(node.bpf_root())?.identity(address(last));
                Ok(in_force(node)? == 0 && there != identity)
            })?;
        }
        neighbours.fleet.node.kill_agent()?;
        neighbours.announce()?;
        let least = without_agent(&mut neighbours.store, count)?;
        let ipcache = Ipcache::open(neighbours.fleet.node.bpf_root())?;
        let has_last = || ipcache.identity(address(last)) == neighbours.size.identity_of(last);
        ensure!(!has_last(), "the ipcache has them already");
        neighbours.fleet.node.exec_agent()?;
        let took = neighbours.fleet.node.wait("addresses are not in force", |node| {
            // One row is soon looked up; the agent counts them all.
            Ok(has_last() && in_force(node).is_ok_and(|known| known == count))
        })?;
        neighbours.fleet.node.wait_for_ready(neighbours.fleet.pods.len())?;
        ratio.push(took.as_secs_f64() / least.as_secs_f64());
        listed.push_time(took);
        bare.push_time(least);
        Ok(())
    })?;
    Ok(vec![ratio, listed, bare])
}

/// How long the two lists and the rows take at least.
fn without_agent(store: &mut Store, count: u32) -> Result<Duration> {
    let keys: Vec<_> = (0..count).map(|nth| IpcacheKey::new(address(nth).into(), 32)).collect();
    let row = IpcacheRow { identity: FIRST_IDENTITY, ..IpcacheRow::default() };
    let rows = vec![row; keys.len()];
    let map = PrefixMap::create(count)?;
    let begun = Instant::now();
    let listed = [store.list(IDENTITIES)?.len(), store.list(ADDRESSES)?.len()];
    map.update(&keys, &rows)?;
    let took = begun.elapsed();
    ensure!(listed[1] >= keys.len(), "etcd lists {listed:?}, not {count} addresses");
    Ok(took)
}
