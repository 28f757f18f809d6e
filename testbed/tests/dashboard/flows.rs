//! Flows of a running node: found by words and by click, over a restart; who talks to whom; an endpoint's page.

use std::net::{SocketAddr, UdpSocket};

use anyhow::{Result, ensure};
use serde_json::json;
use volvox_testbed::{
    lab::{self, Browser, Node, Page, Pod, Setup},
    picture as of_readme,
};

use crate::{
    checks::{fits, usable_by_all},
    screen::{go, loopback, open, picture},
};

/// Web never lets anybody bad in.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress:
  - fromEndpoints: [{matchLabels: {app: client, "k8s:io.kubernetes.pod.namespace": bank}}]
  ingressDeny:
  - fromEndpoints: [{matchLabels: {app: bad}}]
"#;
/// Where packets go.
const PORT: u16 = 9;

/// A node whose flows are kept, with pods of which one may not talk to another.
fn talking() -> Result<(Node, [Pod; 3])> {
    loopback()?;
    let socket = lab::path("hubble.sock").display().to_string();
    Setup::new()
        .flag("enable-hubble", "true")
        .flag("hubble-socket-path", &socket)
        .manifest("web.yaml", POLICY)
        .pod("shop/web", &[("app", "web")])
        .pod("shop/bad", &[("app", "bad")])
        .pod("bank/client", &[("app", "client")])
        .start()
}

fn send(from: &Pod, to: &Pod) -> Result<()> {
    let target = SocketAddr::new(to.address(false)?, PORT);
    from.netns.run(move || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.send_to(b"hello", target)?;
        Ok(())
    })
}

/// Rows of the list of flows that have these words.
fn rows(words: &[&str]) -> String {
    let all = words.iter().map(|word| format!("row.textContent.includes('{word}')"));
    let all: Vec<_> = all.collect();
    format!(
        "[...document.querySelectorAll('[aria-label=Flows] [data-index]')].filter(row => {}).length",
        if all.is_empty() { "true".to_owned() } else { all.join(" && ") }
    )
}

/// Writes into the filter, as a person does.
fn write(page: &mut Page<'_>, filter: &str) -> Result<()> {
    page.eval(&format!(
        "(() => {{ const input = document.querySelector('main .flow-filter input'); \
           input.value = {}; input.dispatchEvent(new Event('input')); }})()",
        json!(filter)
    ))
    .map(drop)
}

/// Sends until the page shows it.
fn until(page: &mut Page<'_>, shown: &str, pairs: &[(&Pod, &Pod)]) -> Result<()> {
    for _ in 0..200 {
        for (from, to) in pairs {
            send(from, to)?;
        }
        if page.eval(shown)? == true {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    page.wait(shown)
}

fn opened(browser: &mut Browser) -> Result<Page<'_>> {
    let mut page = browser.page()?;
    page.resize(1280, 800, false)?;
    open(&mut page, of_readme::ADDRESS)?;
    Ok(page)
}

#[test]
fn a_drop_is_found_by_words_and_by_click_and_outlives_a_kill() {
    let name = "flows::a_drop_is_found_by_words_and_by_click_and_outlives_a_kill";
    lab::test(name, || {
        let (mut node, [web, bad, client]) = talking()?;
        let mut browser = of_readme::browser_apart()?;
        let mut page = opened(&mut browser)?;
        // They come by themselves, with the names of pods.
        go(&mut page, "flows")?;
        let both = format!(
            "{} > 0 && {} > 0",
            rows(&["shop/bad", "shop/web", "DROPPED"]),
            rows(&["bank/client", "shop/web", "FORWARDED"])
        );
        until(&mut page, &both, &[(&bad, &web), (&client, &web)])?;
        // By words: what is left is what they say.
        write(&mut page, "dropped to-pod:shop/web -type:policy-verdict")?;
        let only = format!("{} === {} && {} > 0", rows(&["DROPPED"]), rows(&[]), rows(&[]));
        page.wait(&only)?;
        page.wait("document.querySelectorAll('.chips li').length === 3")?;
        page.wait("new URLSearchParams(location.hash.split('?')[1]).get('filter') === 'dropped to-pod:shop/web -type:policy-verdict'")?;
        page.picture(&picture("flows-agent")?)?;
        // The flow that is chosen says why, and what to ask.
        page.eval(
            "document.querySelector('[aria-label=Flows] [data-index] > :last-child').click()",
        )?;
        let asks = "document.querySelector('.flow code')?.textContent";
        page.wait(&format!("{asks} === 'volvox why shop/bad --to shop/web:9/udp'"))?;
        page.wait("document.querySelector('[aria-label=\"The flow\"]').textContent.includes('CiliumNetworkPolicy shop/web')")?;
        page.eval("[...document.querySelectorAll('.flow button')].find(b => b.textContent === 'All that is known').click()")?;
        page.wait(
            "document.querySelector('.flow pre')?.textContent.includes('\"destination_port\": 9')",
        )?;
        usable_by_all(&mut page, "flows of an agent")?;
        // By click: of everything, what that pod sent; then not to that port.
        write(&mut page, "")?;
        page.wait(&format!("{} > {}", rows(&[]), rows(&["shop/bad"])))?;
        let sender = "[...document.querySelectorAll('[aria-label=Flows] button.link')] \
            .find(b => b.textContent === 'shop/bad' && b.title.startsWith('Only from'))";
        page.wait(&format!("Boolean({sender})"))?;
        page.eval(&format!("{sender}.click()"))?;
        page.wait(
            "document.querySelector('.chips button')?.textContent.startsWith('from-pod:shop/bad')",
        )?;
        page.wait(&format!("{} === {} && {} > 0", rows(&["shop/bad"]), rows(&[]), rows(&[])))?;
        page.eval("document.querySelector('[aria-label=\"Not port 9\"]').click()")?;
        page.wait(&format!("{} === 0", rows(&[])))?;
        page.eval(
            "document.querySelector('[aria-label=\"Take -port:9 out of the filter\"]').click()",
        )?;
        page.wait(&format!("{} > 0", rows(&["shop/bad"])))?;
        ensure!(page.complaints().is_empty(), "the page complains");
        // What is no filter is said, with what there is.
        write(&mut page, "fro-pod:shop/bad")?;
        page.wait(
            "document.querySelector('.flow-filter [role=alert]').textContent.includes('from-pod')",
        )?;
        ensure!(page.complaints().iter().all(|it| it.contains("400")), "the page complains");

        // A link to the drops shows them; the next life of the agent knows those of before.
        write(&mut page, "dropped")?;
        page.wait("location.hash.includes('filter=dropped')")?;
        page.wait(&format!("{} > 0", rows(&["shop/bad", "DROPPED"])))?;
        let before = page.eval(&rows(&["shop/bad", "DROPPED"]))?;
        node.kill_agent()?;
        page.wait("document.querySelector('#connection').dataset.state === 'lost'")?;
        node.start_agent()?;
        page.wait("document.querySelector('#connection').textContent === 'live'")?;
        page.wait(&format!("{} >= {before} && {before} > 0", rows(&["shop/bad", "DROPPED"])))?;
        // The life before is among the killed; at its beginning nothing had been dropped.
        page.wait("document.querySelector('#life optgroup[label=\"Killed or crashed\"] option')?.value === 'previous'")?;
        page.eval(
            "(() => { const s = document.querySelector('#life select'); s.value = 'previous'; \
              s.dispatchEvent(new Event('change')); })()",
        )?;
        page.wait("document.body.dataset.ready === 'previous'")?;
        page.wait(&format!("{} > 0", rows(&["shop/bad", "DROPPED"])))?;
        page.eval("document.getElementById('time-first').click()")?;
        page.wait(&format!("{} === 0 && document.querySelector('main .say p').textContent.startsWith('Up to the moment')", rows(&[])))?;
        page.eval("document.getElementById('time-now').click()")?;
        page.wait(&format!("{} > 0", rows(&["shop/bad", "DROPPED"])))
    });
}

#[test]
fn who_talks_to_whom_is_seen_and_an_endpoint_says_who_it_is() {
    let name = "flows::who_talks_to_whom_is_seen_and_an_endpoint_says_who_it_is";
    lab::test(name, || {
        let (_node, [web, bad, client]) = talking()?;
        let mut browser = of_readme::browser_apart()?;
        let mut page = opened(&mut browser)?;
        go(&mut page, "map")?;
        let pair = |from: &str, to: &str, kind: &str| {
            format!(
                "[...document.querySelectorAll('.map .talk{kind} title')].some(it => it.textContent.startsWith('{from} → {to},'))"
            )
        };
        let both = format!(
            "{} && {}",
            pair("shop/bad", "shop/web", ".dropped"),
            pair("bank/client", "shop/web", ":not(.dropped)")
        );
        until(&mut page, &both, &[(&bad, &web), (&client, &web)])?;
        page.picture(&picture("map-agent")?)?;
        usable_by_all(&mut page, "map of an agent")?;
        // By namespace, then the flows of the pair with drops, by keyboard.
        page.eval(
            "(() => { const s = document.querySelector('main .tools select'); s.value = 'namespace'; \
              s.dispatchEvent(new Event('change')); })()",
        )?;
        page.wait(&pair("shop", "shop", ".dropped"))?;
        page.wait("location.hash.includes('by=namespace')")?;
        page.eval(
            "document.querySelector('[aria-label=\"Who talks to whom, drops first\"]').focus()",
        )?;
        page.press("ArrowDown")?;
        page.press("Enter")?;
        page.wait("location.hash.startsWith('#/flows')")?;
        page.wait("document.querySelectorAll('.chips li').length === 3")?;
        page.wait(&format!("{} === {} && {} > 0", rows(&["shop/bad"]), rows(&[]), rows(&[])))?;

        go(&mut page, "endpoints/shop/web")?;
        let says = |panel: &str, text: &str| {
            format!(
                "document.querySelector('[aria-label=\"{panel}\"]')?.textContent.includes('{text}')"
            )
        };
        for (panel, text) in [
            ("Who it is", "k8s:app=web"),
            ("Who it is", &web.address(false)?.to_string()),
            ("Who it is", "ingress"),
            ("Policies", "CiliumNetworkPolicy shop/web"),
            ("Recent drops", "volvox why shop/bad --to shop/web:9/udp"),
            ("Map rows", "all as desired"),
        ] {
            page.wait(&says(panel, text))?;
        }
        page.picture(&picture("endpoint-agent")?)?;
        usable_by_all(&mut page, "endpoint of an agent")?;
        page.resize(360, 740, true)?;
        for view in ["endpoints/shop/web", "flows", "map"] {
            go(&mut page, view)?;
            fits(&mut page, view)?;
        }
        page.resize(1280, 800, false)?;
        // What the page asked for this is no news, unless somebody wants to see it.
        go(&mut page, "causes")?;
        let asked = "[...document.querySelectorAll('main [data-index]')].filter(row => row.textContent.startsWith('GET ')).length";
        page.wait("document.querySelectorAll('main [data-index]').length > 0")?;
        page.wait(&format!("{asked} === 0"))?;
        page.eval("document.querySelector('main .check input').click()")?;
        page.wait(&format!("{asked} > 0 && location.hash.includes('questions=1')"))?;
        ensure!(page.complaints().is_empty(), "the page complains");
        Ok(())
    });
}
