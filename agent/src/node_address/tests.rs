//! Tests: which of the node's addresses is chosen, and why; those of flags are checked.

use super::*;

const AUTO: Expected = Expected { ipv4: NodeAddress::Auto, ipv6: NodeAddress::Auto };
const NOBODY: Addresses = Addresses { ipv4: None, ipv6: None };

fn link(ifindex: u32, name: &str, up: bool, addresses: &[&str]) -> Link {
    let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
    Link { ifindex, name: name.to_owned(), up, addresses, ..Link::default() }
}

/// A bridge of containers comes before the device, which has the numbers that it should have.
fn links() -> Vec<Link> {
    vec![
        link(1, "lo", true, &["127.0.0.1/8", "::1/128"]),
        link(2, "eth1", false, &["198.51.100.1/24", "2001:db8:1::1/64"]),
        link(3, "docker0", true, &["172.17.0.1/16", "fd17::1/64"]),
        link(4, "usb0", true, &["169.254.3.1/16", "fe80::1/64"]),
        link(7, "bond0", true, &["192.0.2.7/24", "192.0.2.8/24", "fe80::7/64", "2001:db8::7/64"]),
    ]
}

fn way(ifindex: u32, is_ipv4: bool, metric: u32) -> DefaultRoute {
    DefaultRoute { ifindex, is_ipv4, metric, source: None }
}

fn to_bond() -> Ways {
    Ways { routes: vec![way(7, true, 0), way(7, false, 1024)], ..Ways::default() }
}

fn chosen_of(links: &[Link], expected: Expected, before: Addresses, ways: &Ways) -> Addresses {
    choose(expected, before, &links.iter().collect::<Vec<_>>(), ways).unwrap()
}

fn chosen(before: Addresses, ways: &Ways) -> Addresses {
    chosen_of(&links(), AUTO, before, ways)
}

fn pair(ipv4: &str, ipv6: &str) -> Addresses {
    Addresses { ipv4: ipv4.parse().ok(), ipv6: ipv6.parse().ok() }
}

#[test]
fn the_device_of_the_default_route_has_it() {
    assert_eq!(chosen(NOBODY, &to_bond()), pair("192.0.2.7", "2001:db8::7"));
}

#[test]
fn the_routes_own_source_counts_if_the_node_has_it() {
    let mut ways = to_bond();
    ways.routes[0].source = "192.0.2.8".parse().ok();
    assert_eq!(chosen(NOBODY, &ways).ipv4, "192.0.2.8".parse().ok());
    ways.routes[0].source = "192.0.2.9".parse().ok();
    assert_eq!(chosen(NOBODY, &ways).ipv4, "192.0.2.7".parse().ok());
}

#[test]
fn a_link_that_is_down_is_passed_over() {
    let mut ways = to_bond();
    ways.routes.insert(0, way(2, true, 0));
    ways.routes.insert(0, way(2, false, 0));
    assert_eq!(chosen(NOBODY, &ways), pair("192.0.2.7", "2001:db8::7"));
    let without = Ways::default();
    assert_eq!(chosen(NOBODY, &without), pair("172.17.0.1", "fd17::1"));
    let alone = [link(2, "eth1", false, &["198.51.100.1/24"])];
    assert_eq!(chosen_of(&alone, AUTO, NOBODY, &without).ipv4, "198.51.100.1".parse().ok());
}

#[test]
fn a_link_local_one_is_the_last() {
    let ways = Ways { routes: vec![way(4, true, 0), way(4, false, 0)], ..Ways::default() };
    assert_eq!(chosen(NOBODY, &ways), pair("172.17.0.1", "fd17::1"));
    let alone = [link(4, "usb0", true, &["169.254.3.1/16", "fe80::1/64"])];
    assert_eq!(chosen_of(&alone, AUTO, NOBODY, &ways), pair("169.254.3.1", "-"));
}

#[test]
fn an_ipv6_address_that_does_not_last_is_none() {
    let mut all = links();
    all[4].addresses.insert(0, "2001:db8::aaaa/64".parse().unwrap());
    let mut ways = to_bond();
    ways.passing.insert("2001:db8::aaaa".parse().unwrap());
    assert_eq!(chosen_of(&all, AUTO, NOBODY, &ways).ipv6, "2001:db8::7".parse().ok());
}

#[test]
fn the_one_of_the_life_before_stays_while_the_node_has_it() {
    let before = pair("172.17.0.1", "2001:db8:1::1");
    assert_eq!(chosen(before, &to_bond()), before);
    let gone = pair("172.18.0.1", "2001:db8:2::1");
    assert_eq!(chosen(gone, &to_bond()), pair("192.0.2.7", "2001:db8::7"));
    let unreachable = pair("127.0.0.1", "::1");
    assert_eq!(chosen(unreachable, &to_bond()), pair("192.0.2.7", "2001:db8::7"));
}

#[test]
fn a_guess_of_a_node_without_a_way_out_is_not_kept() {
    let ways = Ways::default();
    let guess = chosen(NOBODY, &ways);
    assert_eq!(guess.ipv4, "172.17.0.1".parse().ok());
    let retained = ways.lasting(guess, NOBODY);
    assert_eq!(chosen(retained, &to_bond()), pair("192.0.2.7", "2001:db8::7"));
    let known = to_bond().lasting(chosen(retained, &to_bond()), retained);
    assert_eq!(ways.lasting(chosen(known, &ways), known), known, "it was known before");
}

#[test]
fn what_flags_say_comes_first() {
    let expected = Expected {
        ipv4: NodeAddress::Given("192.0.2.8".parse().unwrap()),
        ipv6: NodeAddress::Given("fd17::1".parse().unwrap()),
    };
    let before = pair("172.17.0.1", "2001:db8::7");
    assert_eq!(chosen_of(&links(), expected, before, &to_bond()), pair("192.0.2.8", "fd17::1"));
}

#[test]
fn a_flag_that_names_anothers_address_is_refused_with_the_remedy() {
    let expected = Expected { ipv4: NodeAddress::Given("192.0.2.99".parse().unwrap()), ..AUTO };
    let links = links();
    let refusal = choose(expected, NOBODY, &links.iter().collect::<Vec<_>>(), &to_bond());
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "--ipv4-node=192.0.2.99: this node has no such address; say auto, or one that it has: \
         198.51.100.1, 172.17.0.1, 169.254.3.1, 192.0.2.7, 192.0.2.8"
    );
    let expected = Expected { ipv6: NodeAddress::Given("fd17::1".parse().unwrap()), ..AUTO };
    let refusal = choose(expected, NOBODY, &[], &to_bond()).unwrap_err().to_string();
    assert!(refusal.contains("--ipv6-node=fd17::1"), "{refusal}");
    assert!(refusal.ends_with("(it has none of that family)"), "{refusal}");
}

#[test]
fn a_bridge_that_came_before_the_device_is_not_it() {
    let read = || {
        for words in [
            "link add docker0 type veth peer name lxc1",
            "addr add 172.17.0.1/16 dev docker0",
            "link set docker0 up",
            "link add eth0 type veth peer name lxc2",
            "addr add 192.0.2.7/24 dev eth0",
            "-6 addr add 2001:db8::7/64 dev eth0 nodad",
            "link set eth0 up",
            "route add default via 192.0.2.1",
        ] {
            let ip = std::process::Command::new("ip").args(words.split(' ')).status();
            assert!(ip.unwrap().success(), "ip {words}");
        }
        (Socket::open().unwrap().links().unwrap(), Ways::read().unwrap())
    };
    let (links, ways) = volvox_system::netns::Netns::create().unwrap().run(read).unwrap();
    let links: Vec<Link> = links.into_values().collect();
    assert_eq!(chosen_of(&links, AUTO, NOBODY, &ways), pair("192.0.2.7", "2001:db8::7"));
}
