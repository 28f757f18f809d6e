//! Rubbish that somebody wrote into the maps of services while no agent ran.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use aya::{
    Pod as Plain,
    maps::{HashMap, LpmTrie, Map, MapData, lpm_trie::Key},
};
use serde_json::{Value, json};
use volvox_bpf_progs::layouts::{
    Affinity4Key, AffinityMatchKey, AffinityRow, Backend4Row, Backend6Row, BackendState, Lb4Key,
    Lb6Key, LbKey, LbRow, LbScope, ReverseNat4Row,
};
use volvox_testbed::{
    lab::{self, Binaries, Node, Pod, Through, objects},
    traffic::{Kind, Plan, Stream, stop_clean},
};

const PORT: u16 = 7000;
/// Number of a service that there is not.
const NOBODY: u16 = 60_000;
/// Number of a backend that there is not.
const DANGLING: u32 = 3_000_000;

/// Services that are harmed, by the last part of their address, and those of them that have other
/// numbers afterwards: theirs is nowhere to be read any more.
const HARMED: [&str; 12] = [
    "count",
    "nobody-counted",
    "flags",
    "dangling",
    "zero",
    "most",
    "reversed",
    "affine",
    "ranged",
    "first",
    "number",
    "taken",
];
const RENUMBERED: [&str; 2] = ["number", "taken"];

fn address(name: &str) -> Ipv4Addr {
    let nth = HARMED.iter().position(|it| *it == name).expect("it is one of them");
    Ipv4Addr::new(10, 97, 0, u8::try_from(nth + 1).expect("they are few"))
}

fn at(name: &str) -> SocketAddrV4 {
    SocketAddrV4::new(address(name), PORT)
}

fn key(at: SocketAddrV4, slot: u16) -> Lb4Key {
    match LbKey::new(at.into(), 6, LbScope::External).slot(slot) {
        LbKey::V4(key) => key,
        LbKey::V6(_) => unreachable!("the address is an IPv4 one"),
    }
}

fn open<K: Plain, V: Plain>(node: &Node, name: &str) -> Result<HashMap<MapData, K, V>> {
    let map = MapData::from_pin(node.bpf_root().join("tc/globals").join(name))?;
    let map = match name {
        "cilium_lb4_affinity" => Map::LruHashMap(map),
        _ => Map::HashMap(map),
    };
    Ok(HashMap::try_from(map)?)
}

fn open_ranges(node: &Node) -> Result<LpmTrie<MapData, [u8; 8], u8>> {
    let pin = node.bpf_root().join("tc/globals/cilium_lb4_source_range");
    Ok(LpmTrie::try_from(Map::LpmTrie(MapData::from_pin(pin)?))?)
}

/// Clients of a service: its number and an address, of which so many bits count.
fn range(id: u16, bits: u32, network: [u8; 4]) -> Key<[u8; 8]> {
    let ([a, b], [c, d, e, f]) = (id.to_be_bytes(), network);
    Key::new(bits, [a, b, 0, 0, c, d, e, f])
}

/// All rows of a map, as bytes.
fn rows<const K: usize, const V: usize>(node: &Node, name: &str) -> Result<Dump> {
    let map: HashMap<_, [u8; K], [u8; V]> = open(node, name)?;
    map.iter()
        .map(|row| row.map(|(key, row)| (key.to_vec(), row.to_vec())))
        .collect::<Result<_, _>>()
        .map_err(Into::into)
}

type Dump = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the maps of services hold of what keeps its number.
fn dump(node: &Node) -> Result<BTreeMap<&'static str, Dump>> {
    let mut ranges = Dump::new();
    for row in open_ranges(node)?.iter() {
        let (key, _) = row?;
        ranges.insert([&key.prefix_len().to_ne_bytes()[..], &key.data()].concat(), Vec::new());
    }
    let mut services = rows::<12, 12>(node, "cilium_lb4_services_v2")?;
    let mut reverse = rows::<2, 6>(node, "cilium_lb4_reverse_nat")?;
    for name in RENUMBERED {
        let address = address(name).octets();
        services.retain(|key, _| !key.starts_with(&address));
        reverse.retain(|_, row| !row.starts_with(&address));
    }
    Ok(BTreeMap::from([
        ("services", services),
        ("services6", rows::<24, 12>(node, "cilium_lb6_services_v2")?),
        ("backends", rows::<4, 12>(node, "cilium_lb4_backends_v3")?),
        ("backends6", rows::<4, 24>(node, "cilium_lb6_backends_v3")?),
        ("reverse", reverse),
        ("reverse6", rows::<2, 18>(node, "cilium_lb6_reverse_nat")?),
        ("matches", rows::<8, 1>(node, "cilium_lb_affinity_match")?),
        ("ranges", ranges),
    ]))
}

/// Fails unless both hold the same, and says what differs.
fn same(before: &BTreeMap<&str, Dump>, after: &BTreeMap<&str, Dump>) -> Result<()> {
    for (name, before) in before {
        let after = &after[name];
        let gone: Vec<_> =
            before.iter().filter(|(key, row)| after.get(*key) != Some(row)).collect();
        let new: Vec<_> = after.iter().filter(|(key, row)| before.get(*key) != Some(row)).collect();
        ensure!(gone.is_empty() && new.is_empty(), "{name}: {gone:?} became {new:?}");
    }
    Ok(())
}

/// Harms each of the services in its way.
fn harm(node: &Node, client: Ipv4Addr, taken: u16) -> Result<()> {
    let mut services = open::<Lb4Key, LbRow>(node, "cilium_lb4_services_v2")?;
    let id = |name| Ok::<_, anyhow::Error>(services.get(&key(at(name), 0), 0)?.rev_nat.get());
    let (reversed, affine, ranged) = (id("reversed")?, id("affine")?, id("ranged")?);
    let mut change = |name: &str, slot: u16, change: &dyn Fn(&mut LbRow)| -> Result<()> {
        let key = key(at(name), slot);
        let mut row = services.get(&key, 0).with_context(|| format!("{name} has no row"))?;
        change(&mut row);
        Ok(services.insert(key, row, 0)?)
    };
    change("count", 0, &|row| row.count = 900)?;
    change("nobody-counted", 0, &|row| (row.count, row.qcount) = (0, 60_000))?;
    change("flags", 0, &|row| (row.flags, row.flags2) = (0xff, 0xff))?;
    for (name, id) in [("dangling", DANGLING), ("zero", 0), ("most", u32::MAX)] {
        change(name, 1, &|row| row.backend = id)?;
    }
    for (name, id) in [("number", 0), ("taken", taken)] {
        for slot in 0..=1 {
            change(name, slot, &|row| row.rev_nat = id.into())?;
        }
    }
    services.remove(&key(at("first"), 0))?;
    let elsewhere = ReverseNat4Row::new(SocketAddrV4::new(Ipv4Addr::BROADCAST, 1));
    let mut reverse = open::<u16, ReverseNat4Row>(node, "cilium_lb4_reverse_nat")?;
    reverse.insert(reversed.to_be(), elsewhere, 0)?;
    reverse.insert(0, elsewhere, 0)?;
    reverse.insert(NOBODY.to_be(), elsewhere, 0)?;
    let mut matches = open::<AffinityMatchKey, u8>(node, "cilium_lb_affinity_match")?;
    let mut stays = open::<Affinity4Key, AffinityRow>(node, "cilium_lb4_affinity")?;
    for (backend, id) in [(DANGLING, affine), (0, affine), (u32::MAX, NOBODY)] {
        matches.insert(AffinityMatchKey::new(backend, id), 255, 0)?;
        let row = AffinityRow { last_used: u64::MAX, backend, ..AffinityRow::default() };
        stays.insert(Affinity4Key::of_address(client, id), row, 0)?;
    }
    let mut ranges = open_ranges(node)?;
    for key in [
        range(ranged, 32 + 8, [192, 0, 0, 0]),
        range(NOBODY, 32 + 32, [255; 4]),
        range(NOBODY, 7, [1; 4]),
    ] {
        ranges.insert(&key, 1, 0)?;
    }
    Ok(())
}

/// Writes services and backends that nobody has, and a second number of one that serves.
fn litter(node: &Node, served: SocketAddrV4) -> Result<()> {
    let mut services = open::<Lb4Key, LbRow>(node, "cilium_lb4_services_v2")?;
    let foreign = SocketAddrV4::new(Ipv4Addr::new(10, 98, 0, 1), 9);
    let row = LbRow {
        backend: DANGLING,
        count: u16::MAX,
        rev_nat: (NOBODY + 1).into(),
        ..LbRow::default()
    };
    services.insert(Lb4Key { protocol: 200, ..key(foreign, 0) }, row, 0)?;
    services.insert(Lb4Key { protocol: 200, ..key(foreign, 5) }, row, 0)?;
    services.insert(Lb4Key { scope: 7, ..key(foreign, 0) }, row, 0)?;
    let mut services = open::<Lb6Key, LbRow>(node, "cilium_lb6_services_v2")?;
    services.insert(Lb6Key { address: [0xff; 16], ..Lb6Key::default() }, row, 0)?;
    let mut backends = open::<u32, Backend4Row>(node, "cilium_lb4_backends_v3")?;
    let backend = |id, at| (id, Backend4Row::new(id, at, 6, BackendState::Active));
    let (id, row) = backend(DANGLING + 1, foreign);
    backends.insert(id, Backend4Row { state: 99, ..row }, 0)?;
    let (id, row) = backend(DANGLING + 3, foreign);
    backends.insert(id, Backend4Row { tag: 1, ..row }, 0)?;
    let (id, row) = backend(DANGLING + 2, served);
    Ok(backends.insert(id, row, 0)?)
}

/// Rows whose very numbers are rubbish, each by itself.
#[derive(Clone, Copy)]
enum Poison {
    /// The last slot that there can be.
    LastSlot,
    /// A service of the last number: those that need new ones find them below it.
    LastService,
    /// A backend with a number that means none, or the last one, where a new service's will be.
    Backend(u32),
    /// A backend of the other family with the number of one that serves.
    OtherFamily,
}

impl Poison {
    fn write(self, node: &Node, at: SocketAddrV4, served: u32) -> Result<()> {
        match self {
            Self::LastSlot | Self::LastService => {
                let (slot, id) = match self {
                    Self::LastSlot => (u16::MAX, NOBODY + 2),
                    _ => (0, u16::MAX),
                };
                let mut services = open::<Lb4Key, LbRow>(node, "cilium_lb4_services_v2")?;
                let row = LbRow { rev_nat: id.into(), ..LbRow::default() };
                let nobody = SocketAddrV4::new(Ipv4Addr::new(10, 98, 0, 2), 9);
                services.insert(key(nobody, slot), row, 0)?;
            }
            Self::Backend(id) => {
                let mut backends = open::<u32, Backend4Row>(node, "cilium_lb4_backends_v3")?;
                backends.insert(id, Backend4Row::new(id, at, 6, BackendState::Active), 0)?;
            }
            Self::OtherFamily => {
                let mut backends = open::<u32, Backend6Row>(node, "cilium_lb6_backends_v3")?;
                backends.insert(served, Backend6Row::default(), 0)?;
            }
        }
        Ok(())
    }
}

/// What the agent says of the maps that it found at start.
fn said(node: &Node) -> Result<(Vec<String>, Vec<String>)> {
    let view: Value = node.rest().get("/volvox/services")?;
    let list =
        |name: &str| -> Result<Vec<String>> { Ok(serde_json::from_value(view[name].clone())?) };
    Ok((list("found")?, list("foreign")?))
}

/// Waits until all is written that is known.
fn settled(node: &mut Node) -> Result<()> {
    node.wait("services are not put right", |node| {
        let view: Value = node.rest().get("/volvox/services")?;
        Ok(view["open"] == 0 && view["unread"] == 0 && view["awaited"] == json!([]))
    })
    .map(drop)
}

/// Streams to services of their own, with the objects of these.
fn others(node: &Node, objects: &mut Vec<Value>) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for ipv6 in [false, true] {
        for (kind, transport) in [(Kind::Udp, "UDP"), (Kind::Tcp, "TCP"), (Kind::Connect, "TCP")] {
            let name = format!("{kind}-{}", u8::from(ipv6));
            let pod = |who: &str| {
                let name = format!("shop/{who}-{name}");
                Pod::create(node, &name, &[("app", who)], Through::Rest)
            };
            let (client, server) = (pod("client")?, pod("server")?);
            let network = if ipv6 { "fd96::" } else { "10.96.0." };
            let address: IpAddr = format!("{network}{}", plans.len() + 1).parse()?;
            let target = SocketAddr::new(address, PORT);
            let backends = [server.address(ipv6)?];
            objects.push(objects::service(&name, target, transport));
            objects.push(objects::slice(&name, &name, transport, PORT, &backends));
            let (from, to) = (client.netns.clone(), server.netns.clone());
            plans.push(Plan { kind, from, to, target, rate: 200 });
        }
    }
    Ok(plans)
}

#[test]
fn rubbish_is_named_and_put_right_and_harms_no_other() {
    lab::test("lb_maps::rubbish_is_named_and_put_right_and_harms_no_other", || rubbish(None));
}

#[test]
fn a_slot_of_the_last_number_harms_no_other() {
    lab::test("lb_maps::a_slot_of_the_last_number_harms_no_other", || {
        rubbish(Some(Poison::LastSlot))
    });
}

#[test]
fn a_service_of_the_last_number_harms_no_other() {
    lab::test("lb_maps::a_service_of_the_last_number_harms_no_other", || {
        rubbish(Some(Poison::LastService))
    });
}

#[test]
fn a_backend_of_number_0_harms_no_other() {
    lab::test("lb_maps::a_backend_of_number_0_harms_no_other", || {
        rubbish(Some(Poison::Backend(0)))
    });
}

#[test]
fn a_backend_of_the_last_number_harms_no_other() {
    lab::test("lb_maps::a_backend_of_the_last_number_harms_no_other", || {
        rubbish(Some(Poison::Backend(u32::MAX)))
    });
}

#[test]
fn a_backend_of_another_family_harms_no_other() {
    lab::test("lb_maps::a_backend_of_another_family_harms_no_other", || {
        rubbish(Some(Poison::OtherFamily))
    });
}

/// Writes rubbish between two lives of an agent whose services are used, and sees it put right.
fn rubbish(poison: Option<Poison>) -> Result<()> {
    let mut node = Node::new(Binaries::find()?)?;
    node.start_agent()?;
    let mut all = Vec::new();
    let plans = others(&node, &mut all)?;
    let pod = |name: &str| Pod::create(&node, name, &[], Through::Rest);
    let (client, server) = (pod("shop/client")?, pod("shop/server")?);
    let listen = |port| server.netns.run(|| Ok(TcpListener::bind(("0.0.0.0", port))?));
    let _listeners = [listen(PORT)?, listen(PORT + 1)?, listen(PORT + 2)?];
    let backend = server.address(false)?;
    for name in HARMED {
        let mut service = objects::service(name, at(name).into(), "TCP");
        if name == "affine" {
            service["spec"]["sessionAffinity"] = json!("ClientIP");
        }
        all.extend([service, objects::slice(name, name, "TCP", PORT, &[backend])]);
    }
    node.write_manifest("services.yaml", &objects::list(&all))?;
    node.wait("services are not there", |node| {
        Ok(node.served()?.len() == plans.len() + HARMED.len())
    })?;
    settled(&mut node)?;
    let streams: Vec<_> = plans.into_iter().map(Stream::start).collect::<Result<_>>()?;
    streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
    let connects = |name: &str| {
        let at = SocketAddr::from(at(name));
        let connect = || Ok(TcpStream::connect_timeout(&at, Duration::from_secs(8))?);
        client.netns.run(connect).with_context(|| format!("{name} is not served"))
    };
    for name in HARMED {
        connects(name)?;
    }
    let before = dump(&node)?;
    node.kill_agent()?;
    let (IpAddr::V4(client_at), IpAddr::V4(server_at)) = (client.address(false)?, backend) else {
        anyhow::bail!("these are IPv4 addresses");
    };
    let one = key("10.96.0.3:7000".parse()?, 0);
    let services = open::<Lb4Key, LbRow>(&node, "cilium_lb4_services_v2")?;
    let (first, slot) = (services.get(&one, 0)?, services.get(&Lb4Key { slot: 1, ..one }, 0)?);
    let place = open::<u32, Backend4Row>(&node, "cilium_lb4_backends_v3")?;
    let served = (slot.backend, place.get(&slot.backend, 0)?.socket());
    harm(&node, client_at, first.rev_nat.get())?;
    litter(&node, served.1)?;
    if let Some(poison) = poison {
        poison.write(&node, SocketAddrV4::new(server_at, PORT + 1), served.0)?;
    }
    // The member of the last number leaves its service: a sweep proves that it has no connections.
    node.flags(&["--conntrack-gc-interval=1s"]);
    node.start_agent()?;
    settled(&mut node)?;
    let (found, foreign) = said(&node)?;
    let text = [found, foreign.clone()].concat().join("\n");
    // A row of that number makes its slot one that leads somewhere.
    let is_sound = |name: &&str| match poison {
        Some(Poison::Backend(u32::MAX)) => ["ranged", "most"].contains(name),
        _ => *name == "ranged",
    };
    for name in HARMED.into_iter().filter(|name| !is_sound(name)) {
        ensure!(text.contains(&at(name).to_string()), "{name} is not named: {text}");
    }
    ensure!(!text.contains("service 10.96.0."), "one that was right is blamed: {text}");
    for words in [
        "10.98.0.1:9",
        "has the scope 7",
        "has the state 99",
        "another one's tag",
        "is 7 long",
        "3000002",
        "rows of affinity",
        "rows of source ranges",
        "rows of reverse translation",
    ] {
        ensure!(text.contains(words), "{words:?} is not said: {text}");
    }
    let log = std::fs::read_to_string(node.log())?;
    ensure!(log.contains("has the state 99"), "the log does not name it");
    for name in HARMED {
        connects(name)?;
    }
    // Rows of newer agents' kinds are nobody's to remove: the lab does that.
    open::<Lb4Key, LbRow>(&node, "cilium_lb4_services_v2")?.remove(&Lb4Key {
        scope: 7,
        ..key(SocketAddrV4::new(Ipv4Addr::new(10, 98, 0, 1), 9), 0)
    })?;
    open::<u32, Backend4Row>(&node, "cilium_lb4_backends_v3")?.remove(&(DANGLING + 1))?;
    open_ranges(&node)?.remove(&range(NOBODY, 7, [1; 4]))?;
    // Only the last comparison says what differs.
    let _ = lab::wait_for("all rows are as before", || Ok(same(&before, &dump(&node)?).is_ok()));
    same(&before, &dump(&node)?)?;
    // Who comes later gets numbers that are numbers.
    for (nth, port) in [(1, PORT + 1), (2, PORT + 2), (3, PORT)] {
        let name = format!("new-{nth}");
        let at = SocketAddr::new(Ipv4Addr::new(10, 99, 0, nth).into(), PORT);
        all.extend([
            objects::service(&name, at, "TCP"),
            objects::slice(&name, &name, "TCP", port, &[backend]),
        ]);
    }
    node.write_manifest("services.yaml", &objects::list(&all))?;
    for nth in 1..=3 {
        let at = SocketAddr::new(Ipv4Addr::new(10, 99, 0, nth).into(), PORT);
        lab::wait_for("a new service is served", || {
            client.netns.run(|| Ok(TcpStream::connect_timeout(&at, Duration::from_secs(2)).is_ok()))
        })?;
    }
    streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
    let known: Vec<Value> = node.rest().get("/volvox/backends")?;
    let numbers: BTreeSet<_> = known.iter().map(|it| it["id"].as_u64()).collect();
    ensure!(numbers.len() == known.len(), "two backends have a number: {known:?}");
    // Another life finds nothing wrong any more.
    node.kill_agent()?;
    node.start_agent()?;
    settled(&mut node)?;
    let left = said(&node)?;
    ensure!(left == (Vec::new(), Vec::new()), "something is still wrong: {left:?}");
    stop_clean(streams)
}
