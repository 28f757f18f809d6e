//! Tests: whole jobs through the datapath's port create and delete endpoints, end at the first step
//! that fails, and leave what belongs to another endpoint.

use std::{collections::BTreeSet, net::IpAddr, os::fd::AsFd, rc::Rc};

use tokio::sync::oneshot;
use volvox_actors::{
    host::{ActixDriver, Host, NoRecorder, Reply},
    model::{EndpointId, Families, IdentityId, Mac},
    ports::{
        Attachment, EndpointRow, HookState, IpcacheRow, Kernel, KernelDone, KernelJob, KernelOp,
        KernelOutcome, LxcRow, Refusal, Swept,
    },
};
use volvox_system::{
    SystemClock,
    netlink::{Socket, Veth},
    netns::Netns,
};

use super::sandbox::{Sandbox, addresses, config_row, policy};
use crate::datapath::KernelPort;

/// Submits all jobs at once and waits for their ends.
pub(super) fn run(sandbox: &Sandbox, jobs: Vec<Vec<KernelOp>>) -> Vec<KernelDone> {
    let datapath = sandbox.open();
    actix::System::new().block_on(async move {
        let driver = Rc::new(ActixDriver::default());
        let host = Host::new(Rc::new(SystemClock), driver, Box::new(NoRecorder));
        let port = KernelPort::start(&datapath, &host).unwrap();
        let submit = |ops| {
            let (tell, done) = oneshot::channel();
            port.submit(KernelJob::new(ops), Reply::to(|answer| tell.send(answer).unwrap()));
            done
        };
        let waiting: Vec<_> = jobs.into_iter().map(submit).collect();
        let mut ends = Vec::new();
        for done in waiting {
            ends.push(done.await.unwrap().unwrap());
        }
        ends
    })
}

/// What creates the endpoint of that number.
fn create(number: u8, ifindex: u32) -> Vec<KernelOp> {
    let endpoint = EndpointId(number.into());
    let row = config_row(number, ifindex);
    let slot = row.policy_slot;
    let mut ops = vec![
        KernelOp::BuildPolicy { slot, rows: policy([80, 443]) },
        KernelOp::FlipPolicy { slot },
        KernelOp::PinPolicy { endpoint, slot },
        KernelOp::PutConfig(row),
        KernelOp::Attach { endpoint, ifindex },
    ];
    for address in addresses(number).iter() {
        let row = LxcRow { ifindex, endpoint: endpoint.0, ..LxcRow::default() };
        ops.push(KernelOp::PutLxc { address, row });
        ops.push(KernelOp::PutRoute { address, ifindex });
        let row = IpcacheRow { identity: IdentityId(300), ..IpcacheRow::default() };
        ops.push(KernelOp::PutIpcache(vec![(address.into(), row)]));
    }
    ops.extend([KernelOp::LinkUp { ifindex }, KernelOp::Settle { endpoint, ifindex }]);
    ops
}

/// What deletes it.
fn delete(number: u8, ifindex: u32) -> Vec<KernelOp> {
    let endpoint = EndpointId(number.into());
    let slot = config_row(number, ifindex).policy_slot;
    let mut ops = vec![
        KernelOp::LinkDown { ifindex },
        KernelOp::Detach { endpoint, ifindex },
        KernelOp::DeleteConfig { ifindex, endpoint },
    ];
    for address in addresses(number).iter() {
        ops.push(KernelOp::DeleteRoute { address, ifindex });
        ops.push(KernelOp::DeleteLxc { address, endpoint: endpoint.0 });
        ops.push(KernelOp::DeleteIpcache(vec![address.into()]));
    }
    ops.extend([
        KernelOp::UnpinPolicy { endpoint },
        KernelOp::ClearSlot { slot },
        KernelOp::ScrubConntrack { addresses: addresses(number) },
    ]);
    ops
}

#[test]
fn endpoints_are_created_seen_and_deleted() {
    Sandbox::run(|sandbox| {
        let places: Vec<_> = (1..=4).map(|number| (number, sandbox.veth(number))).collect();
        let jobs = |ops: fn(u8, u32) -> Vec<KernelOp>| {
            places.iter().map(|(number, ifindex)| ops(*number, *ifindex)).collect::<Vec<_>>()
        };
        for done in run(sandbox, jobs(create)) {
            assert_eq!(done.failed, None);
            assert_eq!(done.outcomes.len(), create(1, 1).len());
        }
        let linked = Attachment { from_container: HookState::Link, to_container: HookState::Link };
        let snapshot = sandbox.open().snapshot().unwrap();
        for (number, ifindex) in &places {
            let row = config_row(*number, *ifindex);
            assert_eq!(snapshot.config[ifindex], row);
            assert_eq!(snapshot.attachments[&row.endpoint], linked);
            assert!(snapshot.policy_pins.contains(&row.endpoint));
            for address in addresses(*number).iter() {
                assert_eq!(snapshot.routes[&address], *ifindex);
                assert_eq!(snapshot.lxc[&address].endpoint, row.endpoint.0);
                assert_eq!(snapshot.ipcache[&address.into()].identity, IdentityId(300));
            }
            assert!(snapshot.links[ifindex].up);
        }
        for done in run(sandbox, jobs(delete)) {
            assert_eq!(done.failed, None);
        }
        let mut left = sandbox.open().snapshot().unwrap();
        assert_eq!(left.links.len(), 9, "loopback and four pairs");
        left.links.clear();
        assert_eq!(left, Default::default());
    });
}

#[test]
fn many_policies_flip_together() {
    Sandbox::run(|sandbox| {
        let job = |endpoint: u16| {
            let slot = EndpointId(endpoint).slot(0);
            vec![
                KernelOp::BuildPolicy { slot, rows: policy([endpoint]) },
                KernelOp::FlipPolicy { slot },
                KernelOp::ReadPolicy { slot },
            ]
        };
        let done = run(sandbox, (1..=500).map(job).collect());
        for (endpoint, done) in (1..).zip(done) {
            assert_eq!(done.failed, None);
            assert_eq!(done.outcomes[2], KernelOutcome::Policy(Some(policy([endpoint]))));
        }
    });
}

#[test]
fn the_first_step_that_fails_ends_its_job() {
    Sandbox::run(|sandbox| {
        let address: IpAddr = [10, 9, 0, 1].into();
        let ops = vec![
            KernelOp::DeleteConfig { ifindex: 4, endpoint: EndpointId(1) },
            KernelOp::Attach { endpoint: EndpointId(1), ifindex: 4444 },
            KernelOp::PutLxc { address, row: LxcRow::default() },
        ];
        let [done] = run(sandbox, vec![ops]).try_into().unwrap();
        assert_eq!(done.outcomes, [KernelOutcome::Done]);
        let (at, error) = done.failed.unwrap();
        assert_eq!((at, error.refusal), (1, Refusal::NoDevice));
        assert!(sandbox.open().snapshot().unwrap().lxc.is_empty());
    });
}

#[test]
fn filters_of_an_interface_stay_with_the_endpoint_that_it_is_configured_for() {
    Sandbox::run(|sandbox| {
        let ifindex = sandbox.veth(1);
        let (owner, other) = (EndpointId(1), EndpointId(2));
        let ops = vec![
            KernelOp::PutConfig(config_row(1, ifindex)),
            KernelOp::Attach { endpoint: owner, ifindex },
            KernelOp::Detach { endpoint: other, ifindex },
            KernelOp::ReadAttachment { endpoint: owner, ifindex },
            KernelOp::Settle { endpoint: other, ifindex },
            KernelOp::Detach { endpoint: other, ifindex },
            KernelOp::Attach { endpoint: owner, ifindex },
            KernelOp::ReadAttachment { endpoint: owner, ifindex },
            KernelOp::Detach { endpoint: owner, ifindex },
            KernelOp::ReadAttachment { endpoint: owner, ifindex },
        ];
        let [done] = run(sandbox, vec![ops]).try_into().unwrap();
        assert_eq!(done.failed, None);
        let filter = HookState::Filter;
        let both = Attachment { from_container: filter, to_container: filter };
        assert_eq!(done.outcomes[3], KernelOutcome::Attachment(both));
        assert_eq!(done.outcomes[7], KernelOutcome::Attachment(both));
        assert_eq!(done.outcomes[9], KernelOutcome::Attachment(Attachment::default()));
        assert!(!sandbox.open().snapshot().unwrap().attachments.contains_key(&other));
    });
}

#[test]
fn a_row_of_another_endpoint_is_not_deleted() {
    Sandbox::run(|sandbox| {
        let address: IpAddr = [10, 9, 0, 1].into();
        let row = LxcRow { endpoint: 2, ..LxcRow::default() };
        let ops = vec![
            KernelOp::PutLxc { address, row },
            KernelOp::DeleteLxc { address, endpoint: 1 },
            KernelOp::Snapshot,
            KernelOp::CollectConntrack { families: Families::DUAL, backends: BTreeSet::new() },
            KernelOp::LoadPrograms,
        ];
        let [done] = run(sandbox, vec![ops]).try_into().unwrap();
        assert_eq!(done.failed, None);
        let KernelOutcome::Snapshot(snapshot) = &done.outcomes[2] else { panic!("{done:?}") };
        assert_eq!(snapshot.lxc[&address], row);
        assert_eq!(
            done.outcomes[3],
            KernelOutcome::Collected {
                connections: Swept::default(),
                translations: Swept::default(),
                fill: 0,
                used: BTreeSet::new(),
            }
        );
    });
}

/// A pair on the node, or with its other side in a container.
fn pair(name: &str, peer: &str, container: Option<&Netns>) -> (u32, u32) {
    let mac = |last| Mac([2, 0, 0, 0, 0, last]);
    let peer_netns = container.map(AsFd::as_fd);
    let veth = Veth { name, peer, peer_netns, mtu: 1500, mac: mac(1), peer_mac: mac(2) };
    let mut socket = Socket::open().unwrap();
    socket.create_veth(&veth).unwrap();
    let link = socket.link_by_name(name).unwrap().unwrap();
    (link.ifindex, link.peer_ifindex)
}

#[test]
fn only_an_idle_pair_that_is_no_endpoints_is_removed() {
    Sandbox::run(|sandbox| {
        let container = Netns::create().unwrap();
        let left = pair("lxcleft", "tmpleft", None);
        let living = pair("lxcpod", "eth0", Some(&container));
        let own = pair("lxcown", "tmpown", None);
        let known = pair("lxcknown", "tmpknown", None);
        let row = EndpointRow { ifindex: known.0, ..EndpointRow::default() };
        let delete = |(ifindex, peer)| KernelOp::DeletePair { ifindex, peer };
        let steps = vec![
            KernelOp::PutConfig(config_row(1, own.0)),
            KernelOp::PutEndpoint { endpoint: EndpointId(2), row },
            delete(left),
            delete(living),
            delete(own),
            delete(known),
            // What is gone is as good as removed.
            delete(left),
        ];
        let count = steps.len();
        let done = &run(sandbox, vec![steps])[0];
        assert_eq!((done.outcomes.len(), &done.failed), (count, &None));
        let links = Socket::open().unwrap().links().unwrap();
        let names: Vec<&str> = links.values().map(|link| link.name.as_str()).collect();
        for (name, stays) in [
            ("lxcleft", false),
            ("tmpleft", false),
            ("lxcpod", true),
            ("lxcown", true),
            ("lxcknown", true),
        ] {
            assert_eq!(names.contains(&name), stays, "{names:?}: {name}");
        }
    });
}
