//! The page of a running agent: it follows what happens, and the agent through a restart.

use std::fs;

use anyhow::{Result, ensure};
use volvox_testbed::{
    lab::{self, Binaries, Node, Page, Pod, Through},
    picture as of_readme,
};

use crate::screen::{filter, go, loopback, no_complaints, open, picture};

/// Pods of the node.
const PODS: usize = 5;

/// Lets nobody but its own app reach a pod.
pub(crate) const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress: [{fromEndpoints: [{matchLabels: {app: web}}]}]
"#;

fn pod(node: &Node, number: usize) -> Result<Pod> {
    Pod::create(node, &format!("shop/web-{number}"), &[("app", "web")], Through::Rest)
}

/// A node whose agent has restarted once.
fn restarted() -> Result<(Node, Vec<Pod>)> {
    loopback()?;
    let mut node = Node::new(Binaries::find()?)?;
    node.write_manifest("web.yaml", POLICY)?;
    node.start_agent()?;
    let pods = (0..PODS).map(|number| pod(&node, number)).collect::<Result<Vec<_>>>()?;
    node.wait_for_ready(PODS)?;
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_ready(PODS)?;
    Ok((node, pods))
}

fn text(page: &mut Page<'_>, selector: &str) -> Result<String> {
    let text = page.eval(&format!("document.querySelector('{selector}')?.textContent ?? ''"))?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_running_agent_is_followed_through_its_restart() {
    lab::test("live::a_running_agent_is_followed_through_its_restart", || {
        let (mut node, _pods) = restarted()?;
        let mut browser = of_readme::browser_apart()?;
        let mut page = browser.page()?;
        page.resize(1280, 800, false)?;
        open(&mut page, of_readme::ADDRESS)?;
        page.wait("document.querySelector('#connection').textContent === 'live'")?;

        // What this life restored, and the boot before it.
        go(&mut page, "restore")?;
        page.wait(&format!(
            "document.querySelector('main .say p').textContent.startsWith('{PODS} of {PODS} ')"
        ))?;
        page.wait("document.querySelectorAll('.boot-list li').length >= 2")?;
        page.picture(&picture("restore-agent")?)?;

        // A pod is made: it shows without anybody asking.
        go(&mut page, "endpoints")?;
        let listed = "document.querySelectorAll('[aria-label=Endpoints] [data-index]').length";
        page.wait(&format!("{listed} === {PODS}"))?;
        let _sixth = pod(&node, PODS)?;
        page.wait(&format!("{listed} === {PODS} + 1"))?;

        // From the request to the rows in the kernel.
        go(&mut page, "causes")?;
        // Newer events, such as questions for it, would move it out of sight.
        filter(&mut page, "PUT /endpoint")?;
        let put = "[...document.querySelectorAll('[role=grid] [data-index]')] \
            .find(row => row.textContent.includes('PUT /endpoint'))";
        page.wait(&format!("Boolean({put})"))?;
        page.eval(&format!("{put}.click()"))?;
        page.wait("document.querySelector('.side h2').textContent.startsWith('PUT /endpoint')")?;
        page.wait(
            "[...document.querySelectorAll('.lifeline')].some(l => l.textContent === 'kernel')",
        )?;
        page.wait("document.querySelectorAll('.sequence .arrow.kernel.head').length >= 1")?;
        page.picture(&picture("causes-agent")?)?;

        // Its rows as they should be against the rows that are there.
        let id = node.endpoints()?[0]["id"].clone();
        go(&mut page, &format!("endpoints/{id}"))?;
        page.wait("document.querySelector('[aria-label=\"Map rows\"]')?.textContent.includes('all as desired')")?;
        let rows = "document.querySelectorAll('[aria-label=\"Map rows\"] tbody tr').length";
        page.wait(&format!("{rows} >= 5"))?;
        page.picture(&picture("endpoints-agent")?)?;

        // What a supervisor shows of itself.
        go(&mut page, "actors")?;
        page.eval("[...document.querySelectorAll('[role=treegrid] [data-index]')].find(row => row.textContent.includes('build-queue')).click()")?;
        page.wait("document.querySelectorAll('.actor .facts dt').length >= 1")?;
        page.picture(&picture("actors-agent")?)?;
        no_complaints(&mut page)?;

        // The agent dies; the page says so, and goes on with the next run.
        let before = text(&mut page, "#life option:checked")?;
        node.kill_agent()?;
        page.wait("document.querySelector('#connection').dataset.state === 'lost'")?;
        node.start_agent()?;
        page.wait("document.querySelector('#told').textContent.startsWith('The agent restarted')")?;
        let chosen = "document.querySelector('#life option:checked')?.textContent";
        page.wait(&format!("{chosen}.startsWith('life 3, current')"))?;
        page.wait("document.querySelector('#connection').textContent === 'live'")?;
        ensure!(before.starts_with("life 2, current"), "{before}");
        // The run before can be looked at, with the pod that was made in it.
        page.eval(
            "(() => { const s = document.querySelector('#life select'); s.value = 'previous'; \
              s.dispatchEvent(new Event('change')); })()",
        )?;
        page.wait("document.body.dataset.ready === 'previous'")?;
        go(&mut page, "causes")?;
        page.wait(&format!("Boolean({put})"))
    });
}

#[test]
fn without_a_free_port_the_agent_does_its_work() {
    lab::test("live::without_a_free_port_the_agent_does_its_work", || {
        loopback()?;
        let taken = std::net::TcpListener::bind("127.0.0.1:9880")?;
        let mut node = Node::new(Binaries::find()?)?;
        node.start_agent()?;
        let log = fs::read_to_string(node.log())?;
        ensure!(log.contains("--dashboard-addr"), "it does not say so: {log}");
        drop(taken);
        node.kill_agent()?;
        node.flags(&["--dashboard-addr="]);
        node.start_agent()?;
        ensure!(std::net::TcpStream::connect("127.0.0.1:9880").is_err(), "it is served");
        Ok(())
    });
}

#[test]
fn the_picture_of_the_readme_can_be_made() {
    lab::test("live::the_picture_of_the_readme_can_be_made", || {
        let file = picture("readme")?;
        of_readme::make(&file, 40)?;
        let bytes = fs::metadata(&file)?.len();
        ensure!((10_000..150_000).contains(&bytes), "{bytes} bytes");
        Ok(())
    });
}
