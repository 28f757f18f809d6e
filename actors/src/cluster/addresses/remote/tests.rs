//! Tests: mappings wait for policies and for the ipcache's answers; many rows go in parts.

use super::*;
use crate::model::NamedPorts;

const WEB: IdentityId = IdentityId(300);

fn at(remote: &mut RemoteAddresses, ip: &str, ports: &[u16]) -> IpNet {
    let prefix = format!("{ip}/32").parse().unwrap();
    let ports: NamedPorts =
        ports.iter().map(|&port| ("http".to_owned(), [(6, port)].into())).collect();
    let named_ports = (!ports.is_empty()).then(|| Arc::new(ports));
    let owner = Owner { identity: WEB, labels: None, named_ports, tunnel: Tunnel::NONE };
    remote.want(prefix, Some(owner), true);
    prefix
}

/// Policies that an earlier run left learn nothing before there are new ones.
#[test]
fn an_address_waits_until_policies_can_learn_what_its_ports_are_called() {
    let prefix: IpNet = "10.9.0.1/32".parse().unwrap();
    let ports = NamedPorts::from([("http".to_owned(), [(6, 80)].into())]);
    let mut remote = RemoteAddresses::inherited(InheritedAddresses {
        rows: [(prefix, (WEB, Tunnel::NONE))].into(),
        identities: [(WEB, Labels::default())].into(),
        named_ports: [(WEB, Arc::new(ports))].into(),
    });
    // One whose name is known need not wait, nor one without.
    let known = at(&mut remote, "10.9.0.2", &[80]);
    let none = at(&mut remote, "10.9.0.3", &[]);
    let unknown = at(&mut remote, "10.9.0.4", &[81]);
    let here = Via::default();
    let both = vec![(known, WEB, here), (none, WEB, here)];
    assert_eq!((remote.next(), remote.has_stalled()), (None, true));
    assert_eq!(remote.next_rows(), Some(both.clone()));
    remote.mapped(both);
    assert_eq!((remote.next(), remote.next_rows()), (None, None));
    remote.policies_ready();
    let Some(Work::Adopt(introduction)) = remote.next() else { panic!("nothing to learn") };
    assert!(introduction.identities.is_empty());
    assert_eq!(introduction.named_ports[&WEB]["http"], [(6, 80), (6, 81)].into());
    remote.learned(introduction);
    let last = vec![(unknown, WEB, here)];
    assert_eq!((remote.next(), remote.next_rows()), (None, Some(last.clone())));
    remote.mapped(last);
    // What the last ones said goes before the identity does.
    let gone = [known, none, unknown];
    gone.into_iter().for_each(|prefix| remote.want(prefix, None, false));
    remote.listed();
    remote.settle(|_| true);
    let Some(Work::Unmap(unmapped)) = remote.next() else { panic!("nothing to unmap") };
    remote.unmapping(&unmapped);
    remote.unmapped(&unmapped);
    let Some(Work::Adopt(introduction)) = remote.next() else { panic!("nothing to lose") };
    assert!(introduction.named_ports[&WEB].is_empty());
    remote.learned(introduction);
    assert_eq!(remote.next(), Some(Work::Release(vec![WEB])));
}

#[test]
fn an_address_that_moves_to_another_node_is_mapped_anew() {
    let prefix: IpNet = "10.9.0.1/32".parse().unwrap();
    let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|ip| Tunnel::to(ip.parse().unwrap()));
    let mut remote = RemoteAddresses::inherited(InheritedAddresses {
        rows: [(prefix, (WEB, one))].into(),
        identities: [(WEB, Labels::default())].into(),
        ..InheritedAddresses::default()
    });
    let mut at = |tunnel| {
        let owner = Owner { identity: WEB, labels: None, named_ports: None, tunnel };
        remote.want(prefix, Some(owner), true);
        let is_over = remote.next().is_none();
        let Some(rows) = remote.next_rows() else { return (is_over, None) };
        let node = remote.tunnel(rows[0].2).node();
        remote.mapped(rows);
        (remote.next().is_none(), node)
    };
    assert_eq!(at(one), (true, None), "it is there");
    assert_eq!(at(two), (true, two.node()));
    assert_eq!(at(two), (true, None));
    assert_eq!(at(Tunnel::NONE), (true, None));
    assert_eq!(at(one), (true, one.node()));
    assert_eq!(remote.held.users(WEB), 1);
}

#[test]
fn what_is_said_while_the_ipcache_is_told_is_told_once_it_has_answered() {
    const DB: IdentityId = IdentityId(301);
    let all = [WEB, DB].map(|id| (id, Labels::default()));
    let inherited = InheritedAddresses { identities: all.into(), ..InheritedAddresses::default() };
    let mut remote = RemoteAddresses::inherited(inherited);
    let here = Via::default();
    let prefixes = ["10.9.0.1", "10.9.0.2"].map(|ip| at(&mut remote, ip, &[]));
    assert_eq!(remote.next(), None);
    let first = remote.next_rows().unwrap();
    assert_eq!(first, prefixes.map(|prefix| (prefix, WEB, here)));
    let owner = Owner { identity: DB, labels: None, named_ports: None, tunnel: Tunnel::NONE };
    remote.want(prefixes[0], Some(owner), true);
    remote.want(prefixes[1], None, false);
    assert_eq!(remote.next(), None, "both are under way");
    let third = at(&mut remote, "10.9.0.3", &[]);
    assert_eq!(remote.next(), None);
    let second = remote.next_rows().unwrap();
    assert_eq!(second, [(third, WEB, here)]);
    let fourth = at(&mut remote, "10.9.0.4", &[]);
    assert_eq!((remote.next(), remote.next_rows()), (None, None), "told often enough");
    remote.mapped(first);
    assert_eq!(remote.next(), Some(Work::Unmap(vec![prefixes[1]])));
    remote.unmapping(&prefixes[1..]);
    remote.unmapped(&prefixes[1..]);
    // A refusal is tried again later, and what a life that ended was not answered at once.
    remote.unconfirmed(second.into_iter().map(|(prefix, ..)| prefix));
    let rest = [(fourth, WEB, here), (prefixes[0], DB, here)];
    assert_eq!(remote.next_rows().unwrap(), rest);
    remote.lose_answers();
    assert_eq!((remote.next(), remote.has_stalled()), (None, true));
    let mut again = remote.next_rows().unwrap();
    again.sort_unstable();
    assert_eq!(again, [rest[1], rest[0]]);
    remote.mapped(again);
    remote.resume();
    assert_eq!(remote.next(), None);
    let last = remote.next_rows().unwrap();
    assert_eq!(last, [(third, WEB, here)]);
    remote.mapped(last);
    assert_eq!((remote.next(), remote.has_stalled()), (None, false));
    assert_eq!((remote.held.users(WEB), remote.held.users(DB)), (2, 1));
}

#[test]
fn an_address_that_comes_again_while_it_is_given_up_waits_until_it_is() {
    let begin = || {
        let mut remote = RemoteAddresses::inherited(InheritedAddresses {
            rows: [("10.9.0.1/32".parse().unwrap(), (WEB, Tunnel::NONE))].into(),
            identities: [(WEB, Labels::default())].into(),
            ..InheritedAddresses::default()
        });
        let prefix = at(&mut remote, "10.9.0.1", &[]);
        remote.want(prefix, None, false);
        let Some(Work::Unmap(gone)) = remote.next() else { panic!("it stays") };
        remote.unmapping(&gone);
        at(&mut remote, "10.9.0.1", &[]);
        assert_eq!(remote.next_rows(), None, "nobody knows yet whether it is given up");
        (remote, gone)
    };
    let again = |remote: &mut RemoteAddresses| {
        remote.listed();
        assert_eq!(remote.next(), None, "somebody is to have the identity");
        let rows = remote.next_rows().unwrap();
        remote.mapped(rows);
        assert_eq!((remote.next(), remote.held.users(WEB)), (None, 1));
    };
    let (mut answered, gone) = begin();
    answered.unmapped(&gone);
    again(&mut answered);
    let (mut lost, _) = begin();
    lost.lose_answers();
    again(&mut lost);
    let (mut refused, gone) = begin();
    refused.unconfirmed(gone);
    refused.resume();
    again(&mut refused);
}

#[test]
fn many_rows_are_told_in_parts() {
    let mut remote = RemoteAddresses::default();
    remote.held.learned(WEB);
    let count = u32::try_from(ROWS_AT_ONCE).unwrap() + 1;
    for nth in 0..count {
        let ip = std::net::Ipv4Addr::from(0x0a09_0000 + nth);
        at(&mut remote, &ip.to_string(), &[]);
    }
    assert_eq!(remote.next(), None);
    let parts = [remote.next_rows().unwrap(), remote.next_rows().unwrap()];
    assert_eq!(parts.each_ref().map(Vec::len), [ROWS_AT_ONCE, 1]);
}

#[test]
fn of_what_is_said_together_the_last_is_told() {
    let mut remote = RemoteAddresses::default();
    remote.held.learned(WEB);
    let prefix = at(&mut remote, "10.9.0.1", &[]);
    remote.want(prefix, None, false);
    assert_eq!((remote.next().is_some(), remote.next_rows()), (false, None));
    at(&mut remote, "10.9.0.1", &[]);
    let tunnel = Tunnel::to("192.0.2.1".parse().unwrap());
    remote.want(
        prefix,
        Some(Owner { identity: WEB, labels: None, named_ports: None, tunnel }),
        true,
    );
    assert_eq!(remote.next(), None);
    let rows = remote.next_rows().unwrap();
    assert_eq!((rows.len(), remote.tunnel(rows[0].2)), (1, tunnel));
}
