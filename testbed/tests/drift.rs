//! Somebody else writes to the maps of a running agent: a sweep later all rows are as they were, and
//! whoever they are not about notices nothing.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use aya::maps::{Array, HashMap, LpmTrie, Map, MapData, lpm_trie::Key};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{
        self, Metrics, Neighbour, Node, Setup,
        objects::{list, service, slice},
    },
    traffic::{Kind, Plan, Stream, stop_clean},
};

/// Time between two sweeps of these agents, and how long one may take on a machine that is busy.
const SWEEP: &str = "2s";
const PATIENCE: Duration = Duration::from_secs(40);
const PORT: u16 = 7000;

/// All rows of a map, as bytes.
type Dump = BTreeMap<Vec<u8>, Vec<u8>>;

/// A map whose rows are bytes.
trait Table {
    fn rows(&self) -> Result<Dump>;
    fn put(&mut self, key: &[u8], row: &[u8]) -> Result<()>;
    fn remove(&mut self, key: &[u8]) -> Result<()>;
}

struct Hash<const K: usize, const V: usize>(HashMap<MapData, [u8; K], [u8; V]>);
struct Lpm<const K: usize, const V: usize>(LpmTrie<MapData, [u8; K], [u8; V]>);
struct One<const V: usize>(Array<MapData, [u8; V]>);

impl<const K: usize, const V: usize> Table for Hash<K, V> {
    fn rows(&self) -> Result<Dump> {
        let rows = self.0.iter().map(|row| row.map(|(key, row)| (key.to_vec(), row.to_vec())));
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn put(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        let (key, row): ([u8; K], [u8; V]) = (key.try_into()?, row.try_into()?);
        Ok(self.0.insert(key, row, 0)?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        let key: [u8; K] = key.try_into()?;
        Ok(self.0.remove(&key)?)
    }
}

fn lpm<const K: usize>(key: &[u8]) -> Result<Key<[u8; K]>> {
    let (bits, data) = key.split_at(4);
    Ok(Key::new(u32::from_ne_bytes(bits.try_into()?), data.try_into()?))
}

impl<const K: usize, const V: usize> Table for Lpm<K, V> {
    fn rows(&self) -> Result<Dump> {
        let bytes = |key: Key<[u8; K]>| [&key.prefix_len().to_ne_bytes()[..], &key.data()].concat();
        let rows = self.0.iter().map(|row| row.map(|(key, row)| (bytes(key), row.to_vec())));
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn put(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        let row: [u8; V] = row.try_into()?;
        Ok(self.0.insert(&lpm::<K>(key)?, row, 0)?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.0.remove(&lpm::<K>(key)?)?)
    }
}

impl<const V: usize> Table for One<V> {
    fn rows(&self) -> Result<Dump> {
        Ok([(vec![0; 4], self.0.get(&0, 0)?.to_vec())].into())
    }

    fn put(&mut self, _: &[u8], row: &[u8]) -> Result<()> {
        let row: [u8; V] = row.try_into()?;
        Ok(self.0.set(0, row, 0)?)
    }

    fn remove(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

fn pin(node: &Node, name: &str) -> Result<MapData> {
    let path = node.bpf_root().join("tc/globals").join(name);
    MapData::from_pin(path).with_context(|| format!("open {name}"))
}

fn hash<const K: usize, const V: usize>(node: &Node, name: &str) -> Result<Box<dyn Table>> {
    let map = Map::HashMap(pin(node, name)?);
    Ok(Box::new(Hash::<K, V>(HashMap::try_from(map)?)))
}

fn trie<const K: usize, const V: usize>(node: &Node, name: &str) -> Result<Box<dyn Table>> {
    let map = Map::LpmTrie(pin(node, name)?);
    Ok(Box::new(Lpm::<K, V>(LpmTrie::try_from(map)?)))
}

fn one<const V: usize>(node: &Node, name: &str) -> Result<Box<dyn Table>> {
    Ok(Box::new(One::<V>(Array::try_from(Map::Array(pin(node, name)?))?)))
}

/// The number of a pod's endpoint.
fn id_of(node: &Node, pod: &str) -> Result<u64> {
    let endpoints = node.endpoints()?;
    let is_its = |it: &&Value| it["status"]["external-identifiers"]["pod-name"] == pod;
    endpoints.iter().find(is_its).and_then(|it| it["id"].as_u64()).context("it has no endpoint")
}

/// Under which name its policy is pinned.
fn policy_of(node: &Node, pod: &str) -> Result<String> {
    Ok(format!("cilium_policy_v2_{:05}", id_of(node, pod)?))
}

/// The maps by their names; each endpoint's policy by that of its pin.
fn tables(node: &Node, policy: &str) -> Result<BTreeMap<String, Box<dyn Table>>> {
    let all = [
        ("cilium_lxc", hash::<20, 48>(node, "cilium_lxc")?),
        ("cilium_ipcache_v2", trie::<20, 24>(node, "cilium_ipcache_v2")?),
        (policy, trie::<8, 12>(node, policy)?),
        ("volvox_config", hash::<4, 64>(node, "volvox_config")?),
        ("volvox_endpoint", hash::<4, 512>(node, "volvox_endpoint")?),
        ("volvox_node", one::<128>(node, "volvox_node")?),
        ("volvox_lb", one::<32>(node, "volvox_lb")?),
        ("volvox_device", hash::<4, 48>(node, "volvox_device")?),
        ("cilium_ipmasq_v4", trie::<4, 1>(node, "cilium_ipmasq_v4")?),
        ("cilium_ipmasq_v6", trie::<16, 1>(node, "cilium_ipmasq_v6")?),
        ("cilium_lb4_services_v2", hash::<12, 12>(node, "cilium_lb4_services_v2")?),
        ("cilium_lb6_services_v2", hash::<24, 12>(node, "cilium_lb6_services_v2")?),
        ("cilium_lb4_backends_v3", hash::<4, 12>(node, "cilium_lb4_backends_v3")?),
        ("cilium_lb6_backends_v3", hash::<4, 24>(node, "cilium_lb6_backends_v3")?),
        ("volvox_lb4_members", hash::<8, 16>(node, "volvox_lb4_members")?),
        ("volvox_lb6_members", hash::<8, 28>(node, "volvox_lb6_members")?),
        ("cilium_lb4_reverse_nat", hash::<2, 6>(node, "cilium_lb4_reverse_nat")?),
        ("cilium_lb6_reverse_nat", hash::<2, 18>(node, "cilium_lb6_reverse_nat")?),
        ("cilium_lb_affinity_match", hash::<8, 1>(node, "cilium_lb_affinity_match")?),
        ("cilium_lb4_source_range", trie::<8, 1>(node, "cilium_lb4_source_range")?),
        ("cilium_lb6_source_range", trie::<20, 1>(node, "cilium_lb6_source_range")?),
    ];
    Ok(all.into_iter().map(|(name, table)| (name.to_owned(), table)).collect())
}

/// What the maps hold; how often an endpoint was built, and in which slot its policy is, aside.
fn dump(node: &Node, policy: &str) -> Result<BTreeMap<String, Dump>> {
    let all = tables(node, policy)?;
    let rows = all.iter().map(|(name, table)| Ok((name.clone(), table.rows()?)));
    let mut rows = rows.collect::<Result<BTreeMap<_, _>>>()?;
    for row in rows.get_mut("volvox_config").into_iter().flat_map(BTreeMap::values_mut) {
        row[..4].fill(0);
        row[12] &= !1;
    }
    Ok(rows)
}

/// Which rows are others, or are there in one only.
fn differing(before: &BTreeMap<String, Dump>, now: &BTreeMap<String, Dump>) -> Vec<String> {
    let of = |name: &String| {
        let (before, now) = (&before[name], &now[name]);
        let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
        let keys = keys.filter(|key| before.get(*key) != now.get(*key));
        keys.map(|key| format!("{name}: {:?} {:?} became {:?}", key, before.get(key), now.get(key)))
            .collect::<Vec<_>>()
    };
    before.keys().flat_map(of).collect()
}

/// Rows of bystanders have one of their addresses in them.
fn is_bystanders(key: &[u8], row: &[u8], addresses: &[Vec<u8>]) -> bool {
    let has = |bytes: &[u8]| {
        addresses.iter().any(|it| bytes.windows(it.len()).any(|window| window == it))
    };
    has(key) || has(row)
}

/// What is done to each map.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Remove,
    Change,
    Add,
}

fn harm(node: &Node, policy: &str, harm: Harm, spared: &[Vec<u8>]) -> Result<usize> {
    let mut harmed = 0;
    for (name, table) in &mut tables(node, policy)? {
        let rows = table.rows()?;
        let mut rows = rows.iter().filter(|(key, row)| !is_bystanders(key, row, spared));
        // The world's row would make everybody a stranger for a moment.
        let Some((key, row)) = rows.rfind(|(key, _)| name != "cilium_ipcache_v2" || key[0] > 40)
        else {
            continue;
        };
        let is_one = ["volvox_node", "volvox_lb"].contains(&name.as_str());
        match harm {
            Harm::Remove if is_one => continue,
            Harm::Remove => table.remove(key)?,
            // The byte says little; that it is another is seen all the same.
            Harm::Change if row.len() == 1 => continue,
            Harm::Change => {
                let mut row = row.clone();
                let at = match name.as_str() {
                    "volvox_node" | "volvox_lb" => 0,
                    "volvox_endpoint" => 120,
                    _ => row.len() / 2,
                };
                row[at] ^= 0x40;
                table.put(key, &row)?;
            }
            Harm::Add if is_one => continue,
            Harm::Add => {
                let mut key = key.clone();
                let trie = ["ipcache", "policy_v2", "ipmasq", "source_range"];
                let at = match trie.iter().any(|it| name.contains(it)) {
                    true => 3 + u32::from_ne_bytes(key[..4].try_into()?) as usize / 8,
                    false if name.ends_with("services_v2") => key.len() - 8,
                    false => 1,
                };
                key[at] ^= 0x40;
                table.put(&key, row)?;
            }
        }
        harmed += 1;
    }
    Ok(harmed)
}

/// Waits until the maps hold again what they held; how long that took.
fn mended(node: &Node, policy: &str, before: &BTreeMap<String, Dump>) -> Result<Duration> {
    let began = Instant::now();
    loop {
        let differing = dump(node, policy).map(|now| differing(before, &now));
        match differing {
            Ok(all) if all.is_empty() => return Ok(began.elapsed()),
            Ok(all) => ensure!(began.elapsed() < PATIENCE, "rows stay as they are: {all:#?}"),
            // A pin of a policy is made anew just now.
            Err(error) => ensure!(began.elapsed() < PATIENCE, "{error:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How many rows of all maps drifted so far.
fn drifted(node: &Node) -> Result<f64> {
    let metrics = Metrics::scrape(node.rest())?;
    Ok(metrics.family("volvox_bpf_map_drift_total").map(|(_, it)| it).sum())
}

/// A service that has rows in every map of services.
fn balanced(address: &str, external: &str, range: &str) -> Result<Value> {
    let at = SocketAddr::new(address.parse()?, PORT);
    let name = if at.is_ipv4() { "four" } else { "six" };
    let mut service = service(name, at, "TCP");
    service["spec"]["type"] = json!("LoadBalancer");
    service["spec"]["sessionAffinity"] = json!("ClientIP");
    service["spec"]["loadBalancerSourceRanges"] = json!([range]);
    service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": external }] } });
    Ok(service)
}

fn policy() -> String {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "namespace": "shop", "name": "web" },
        "spec": {
            "endpointSelector": { "matchLabels": { "app": "web" } },
            "ingress": [
                { "fromEndpoints": [{ "matchLabels": { "app": "client" } }] },
                { "fromCIDR": ["203.0.113.0/24", "2001:db8:77::/48"] },
            ],
        },
    })
    .to_string()
}

#[test]
fn rows_that_somebody_else_changed_come_back_and_nobody_else_notices() {
    lab::test("rows_that_somebody_else_changed_come_back_and_nobody_else_notices", || {
        let _uplink = Neighbour::connect()?;
        let policy = policy();
        let setup = Setup::new()
            .flag("endpoint-bpf-prog-watchdog-interval", SWEEP)
            .flag("bpf-lb-algorithm", "maglev")
            .flag("bpf-lb-maglev-table-size", "251")
            .flag("devices", "uplink")
            .manifest("policy.yaml", &policy)
            .pod("shop/web", &[("app", "web")])
            .pod("shop/client", &[("app", "client")])
            .pod("shop/from", &[("app", "from")])
            .pod("shop/to", &[("app", "to")]);
        let (mut node, [web, client, from, to]) = setup.start()?;
        node.write_manifest(
            "services.yaml",
            &list(&[
                balanced("10.96.0.1", "198.51.100.77", "192.0.2.0/24")?,
                slice("four", "four", "TCP", PORT, &[web.address(false)?, client.address(false)?]),
                balanced("fd96::1", "2001:db8:1::77", "2001:db8:2::/64")?,
                slice("six", "six", "TCP", PORT, &[web.address(true)?, client.address(true)?]),
            ]),
        )?;
        node.wait("services are not there", |node| Ok(node.served()?.len() == 4))?;
        let target = SocketAddr::new(to.address(false)?, PORT);
        let plan = Plan {
            kind: Kind::Udp,
            from: from.netns.clone(),
            to: to.netns.clone(),
            target,
            rate: 200,
        };
        let spared =
            [&from, &to].into_iter().flat_map(|pod| [pod.address(false), pod.address(true)]);
        let spared = spared.map(|address| {
            Ok(match address? {
                std::net::IpAddr::V4(it) => it.octets().to_vec(),
                std::net::IpAddr::V6(it) => it.octets().to_vec(),
            })
        });
        let spared = spared.collect::<Result<Vec<_>>>()?;
        let stream = Stream::start(plan)?;
        stream.wait_for_answers(20)?;
        let web_policy = policy_of(&node, "shop/web")?;
        // What was made last is written and compared once.
        std::thread::sleep(Duration::from_secs(5));
        ensure!(drifted(&node)? == 0.0, "nobody changed anything: {}", node.volvox("status")?);
        let before = dump(&node, &web_policy)?;
        ensure!(before.values().all(|rows| !rows.is_empty()), "a map has no rows: {before:?}");
        for (kind, least) in [(Harm::Remove, 16), (Harm::Change, 12), (Harm::Add, 16)] {
            let harmed = harm(&node, &web_policy, kind, &spared)?;
            ensure!(harmed >= least, "{kind:?} only {harmed} maps");
            let took = mended(&node, &web_policy, &before).with_context(|| format!("{kind:?}"))?;
            println!("{kind:?} in {harmed} maps: mended after {took:?}");
        }
        stop_clean([stream])?;
        let drifted = drifted(&node)?;
        ensure!(drifted >= 44.0, "only {drifted} rows are counted");
        let status = node.volvox("status")?;
        ensure!(status.contains("somebody else changed rows of cilium_lxc"), "{status}");
        Ok(())
    });
}

/// Without a sweep: who asks for the endpoint to be built again has all rows put right at once.
#[test]
fn a_regeneration_by_hand_puts_rows_right_and_says_which() {
    lab::test("a_regeneration_by_hand_puts_rows_right_and_says_which", || {
        let policy = policy();
        let setup = Setup::new().manifest("policy.yaml", &policy);
        let (node, [_web]) = setup.pod("shop/web", &[("app", "web")]).start()?;
        let id = id_of(&node, "shop/web")?;
        let name = policy_of(&node, "shop/web")?;
        let mut rows = trie::<8, 12>(&node, &name)?;
        let before = rows.rows()?;
        ensure!(!before.is_empty(), "it has no policy");
        before.keys().try_for_each(|key| rows.remove(key))?;
        let mut mapped = trie::<20, 24>(&node, "cilium_ipcache_v2")?;
        let prefixes = mapped.rows()?;
        let is_rule = |key: &&Vec<u8>| key[8..11] == [203, 0, 113];
        let key = prefixes.keys().find(is_rule).context("the rule's prefix has no row")?;
        mapped.remove(key)?;
        let said = node.volvox(&format!("endpoint regenerate {id}"))?;
        let all = format!("Repaired cilium_policy_v2: {} missing", before.len());
        ensure!(said.contains(&all) && said.contains("Repaired cilium_ipcache_v2: 1"), "{said}");
        ensure!(trie::<8, 12>(&node, &name)?.rows()? == before, "its policy is another");
        ensure!(mapped.rows()? == prefixes, "the ipcache is another");
        let said = node.volvox(&format!("endpoint regenerate {id}"))?;
        ensure!(said.contains("All rows were as they are to be."), "{said}");
        Ok(())
    });
}
