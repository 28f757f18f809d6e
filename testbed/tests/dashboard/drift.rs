//! Rows that somebody else changed in the kernel: the page names them.

use anyhow::{Context, Result};
use aya::maps::{HashMap, LpmTrie, Map, MapData, lpm_trie::Key};
use volvox_bpf_progs::layouts::{Direction, LxcKey, LxcRow, PolicyKey, PolicyRow};
use volvox_testbed::{
    lab::{self, Node, Pod, Setup},
    picture as of_readme,
};

use crate::{
    live::POLICY,
    screen::{go, loopback, no_complaints, open, picture},
};

/// An identity that nobody has.
const NOBODY: u32 = 4242;

fn pinned(node: &Node, name: &str) -> Result<MapData> {
    Ok(MapData::from_pin(node.bpf_root().join("tc/globals").join(name))?)
}

/// Says of the pod's address that it is of another identity.
fn change_identity(node: &Node, pod: &Pod) -> Result<()> {
    let mut map: HashMap<_, LxcKey, LxcRow> =
        HashMap::try_from(Map::HashMap(pinned(node, "cilium_lxc")?))?;
    let key = LxcKey::new(pod.address(false)?);
    let row = map.get(&key, 0).context("the pod's address has no row")?;
    Ok(map.insert(key, LxcRow { sec_id: NOBODY, ..row }, 0)?)
}

/// Lets somebody in whom no policy lets in.
fn let_in(node: &Node, endpoint: u64) -> Result<()> {
    let map = pinned(node, &format!("cilium_policy_v2_{endpoint:05}"))?;
    let mut map: LpmTrie<_, [u8; 8], PolicyRow> = LpmTrie::try_from(Map::LpmTrie(map))?;
    let key = PolicyKey::ports(Direction::Ingress, NOBODY, 6, 666, 16);
    let mut data = [0; 8];
    data[..4].copy_from_slice(&NOBODY.to_ne_bytes());
    data[5] = key.protocol;
    data[6..].copy_from_slice(&666_u16.to_be_bytes());
    Ok(map.insert(&Key::new(key.prefix_len, data), PolicyRow::allow(&key, 0), 0)?)
}

#[test]
fn rows_that_somebody_changed_are_named_and_a_restart_puts_them_right() {
    let name = "drift::rows_that_somebody_changed_are_named_and_a_restart_puts_them_right";
    lab::test(name, || {
        loopback()?;
        // The agent itself looks only when this is over.
        let setup = Setup::new().flag("endpoint-gc-interval", "1h").manifest("web.yaml", POLICY);
        let (mut node, [pod]) = setup.pod("shop/web-1", &[("app", "web")]).start()?;
        let id = node.endpoints()?[0]["id"].as_u64().context("no number")?;
        let mut browser = of_readme::browser_apart()?;
        let mut page = browser.page()?;
        page.resize(1280, 800, false)?;
        open(&mut page, of_readme::ADDRESS)?;
        go(&mut page, &format!("endpoints/{id}"))?;
        let says = |text: &str| {
            format!(
                "document.querySelector('[aria-label=\"Map rows\"]')?.textContent.includes('{text}')"
            )
        };
        page.wait(&says("all as desired"))?;

        change_identity(&node, &pod)?;
        let_in(&node, id)?;
        page.wait(&says("2 differ"))?;
        // They stand first, each with what it should be.
        let row = |place: usize, part: &str| {
            format!(
                "document.querySelectorAll('tr.differs')[{place}].textContent.includes('{part}')"
            )
        };
        let rows = [
            row(0, &format!("{}:0", pod.address(false)?)),
            row(0, &format!("sec_id={NOBODY}")),
            row(1, &format!("Ingress: {NOBODY} 666/TCP")),
            row(1, "absent"),
        ];
        page.wait(&rows.join(" && "))?;
        page.eval("document.querySelector('tr.differs').scrollIntoView({ block: 'center' })")?;
        page.picture(&picture("endpoints-drift")?)?;
        no_complaints(&mut page)?;

        node.kill_agent()?;
        node.start_agent()?;
        page.wait(&says("all as desired"))
    });
}
