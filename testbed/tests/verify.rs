//! `volvox verify` at a living node: nothing differs in its ordinary life, and what somebody damages is named
//! by its guarantee, whether an agent runs or not.

use std::{fs, net::SocketAddr};

use anyhow::{Context, Result, ensure};
use aya::maps::{HashMap, LpmTrie, Map, MapData, lpm_trie::Key};
use serde_json::Value;
use volvox_testbed::{
    fleet::wait_for_links,
    lab::{
        self, Node, Pod, Setup, ip,
        objects::{list, service, slice},
    },
    progress::Progress,
};

const PORT: u16 = 7000;

/// What the command says, and its exit code.
fn verify(node: &Node, words: &str) -> Result<(i32, String)> {
    let lib = node.path("lib").display().to_string();
    let output = node.client(&format!("verify --lib-dir={lib}{words}")).output()?;
    let text = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
    Ok((output.status.code().context("it was killed")?, text))
}

fn is_well(node: &Node) -> Result<()> {
    let (code, text) = verify(node, "")?;
    ensure!(code == 0, "exit code {code}: {text}");
    Ok(())
}

fn breaks(node: &Node, guarantee: i32, words: &[&str]) -> Result<()> {
    let (code, text) = verify(node, "")?;
    ensure!(code == 10 + guarantee, "exit code {code}, not of guarantee {guarantee}: {text}");
    for word in words {
        ensure!(text.contains(word), "it does not say {word:?}: {text}");
    }
    Ok(())
}

fn id_of(node: &Node, pod: &str) -> Result<u64> {
    let endpoints = node.endpoints()?;
    let is_its = |it: &&Value| it["status"]["external-identifiers"]["pod-name"] == pod;
    endpoints.iter().find(is_its).and_then(|it| it["id"].as_u64()).context("it has no endpoint")
}

fn pin(node: &Node, name: &str) -> Result<MapData> {
    let path = node.bpf_root().join("tc/globals").join(name);
    MapData::from_pin(path).with_context(|| format!("open {name}"))
}

/// Takes the first row of a pod's policy away; what gives it back.
fn lose_policy_row(node: &Node, id: u64) -> Result<impl FnOnce() -> Result<()>> {
    let map = Map::LpmTrie(pin(node, &format!("cilium_policy_v2_{id:05}"))?);
    let mut policy: LpmTrie<MapData, [u8; 8], [u8; 12]> = LpmTrie::try_from(map)?;
    let (key, row) = policy.iter().next().context("no row")??;
    let key = Key::new(key.prefix_len(), key.data());
    policy.remove(&key)?;
    Ok(move || Ok(policy.insert(&key, row, 0)?))
}

/// Gives the address of a pod to another identity.
fn change_identity(node: &Node, pod: &Pod) -> Result<()> {
    let map = Map::HashMap(pin(node, "cilium_lxc")?);
    let mut rows: HashMap<MapData, [u8; 20], [u8; 48]> = HashMap::try_from(map)?;
    let std::net::IpAddr::V4(address) = pod.address(false)? else { unreachable!() };
    let all = rows.iter().collect::<Result<Vec<_>, _>>()?;
    let (key, mut row) = all
        .into_iter()
        .find(|(key, _)| key[..4] == address.octets())
        .context("its address has no row")?;
    row[8] ^= 0x40;
    Ok(rows.insert(key, row, 0)?)
}

#[test]
fn what_somebody_damages_is_named_by_its_guarantee_and_nothing_else_is() {
    lab::test("what_somebody_damages_is_named_by_its_guarantee_and_nothing_else_is", || {
        let setup = Setup::new()
            // Else rows come back before they are looked at.
            .flag("endpoint-bpf-prog-watchdog-interval", "0s")
            .pod("shop/web", &[("app", "web")])
            .pod("shop/client", &[("app", "client")]);
        let (mut node, [web, client]) = setup.start()?;
        let frontend = SocketAddr::new("10.96.0.1".parse()?, PORT);
        let objects = [
            service("web", frontend, "TCP"),
            slice("web", "web", "TCP", PORT, &[web.address(false)?]),
        ];
        node.write_manifest("services.yaml", &list(&objects))?;
        node.wait("the service is not there", |node| Ok(node.served()?.len() == 1))?;
        is_well(&node)?;
        let verdict = node.json(&format!("verify --lib-dir={}", node.path("lib").display()))?;
        ensure!(verdict["endpoints"] == 2 && verdict["services"] == 1, "{verdict}");

        let id = id_of(&node, "shop/web")?;
        // Links come a little after the pods.
        wait_for_links(&mut node, 2, Progress::new(true))?;
        let give_back = lose_policy_row(&node, id)?;
        breaks(&node, 2, &["shop/web", "its policy map has"])?;
        give_back()?;
        is_well(&node)?;

        ip("link add lxcidle type veth peer tmpidle")?;
        breaks(&node, 10, &["lxcidle"])?;
        node.kill_agent()?;
        // A route that goes while an agent lives comes back at once.
        let [_, own] = web.links()?;
        let address = web.address(false)?;
        ip(&format!("route del {address}/32 dev {}", own.name))?;
        // The worst is the exit code, and all are told.
        let route = format!("no route leads to {address}");
        breaks(&node, 3, &["No agent says", "shop/web", &route, "lxcidle"])?;
        let (code, text) = verify(&node, " --agent")?;
        ensure!(code == 1 && text.contains("start the agent"), "{code}: {text}");
        node.start_agent()?;
        node.wait_until_restored()?;
        is_well(&node)?;

        node.kill_agent()?;
        is_well(&node)?;
        let links = node.bpf_root().join("cilium/endpoints").join(id.to_string()).join("links");
        for link in fs::read_dir(&links).with_context(|| links.display().to_string())? {
            fs::remove_file(link?.path())?;
        }
        change_identity(&node, &client)?;
        breaks(&node, 1, &["no program of ours runs", "shop/client", "cilium_lxc has"])?;
        node.start_agent()?;
        node.wait_until_restored()?;
        is_well(&node)?;

        node.kill_agent()?;
        let state = node.path("cilium").join("state").join(id.to_string());
        for name in ["ep_config.json", "ep_config.h"] {
            fs::write(state.join(name), "torn")?;
        }
        breaks(&node, 5, &[&format!("endpoint {id}")])?;
        node.start_agent()?;
        node.wait_until_restored()?;
        is_well(&node)
    });
}
