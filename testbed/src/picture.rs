//! The dashboard's picture in the documents, made from a real run.

use std::{
    fs, io,
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
};

use anyhow::{Result, ensure};

use crate::{
    fleet::Fleet,
    lab::{Browser, Netns, Page, Through},
    progress::Progress,
};

/// Where the picture is, from this package.
pub const FILE: &str = "../agent/docs/dashboard.png";

/// Pods of the run that is shown.
pub const PODS: usize = 250;

/// Where the agent serves the page.
pub const ADDRESS: &str = "http://127.0.0.1:9880/";

/// The views, as the page's address names them.
pub const VIEWS: [&str; 9] =
    ["actors", "restore", "waits", "causes", "endpoints", "flows", "map", "events", "compare"];

/// Makes pods, kills the agent, and takes a picture of how the next run restored them.
pub fn make(file: &Path, pods: usize) -> Result<()> {
    loopback()?;
    let mut fleet = Fleet::launch(pods, Through::Rest, &Progress::new(true))?;
    fleet.node.kill_agent()?;
    fleet.node.start_agent()?;
    fleet.node.wait_for_ready(pods)?;
    let mut browser = browser_apart()?;
    let mut page = browser.page()?;
    page.resize(1180, 700, false)?;
    open(&mut page)?;
    page.eval("void (location.hash = '#/restore')")?;
    let ready = format!(
        "document.querySelector('main .say p')?.textContent.replaceAll(',', '').startsWith('{pods} of {pods} ')"
    );
    page.wait(&ready)?;
    page.picture(file)
}

/// A browser in a network namespace of its own, from which the agent's page can be reached. Beside
/// the pods, it would break off what it loads whenever one of their interfaces comes or goes.
pub fn browser_apart() -> Result<Browser> {
    let netns = Netns::create("browser")?;
    let address = ADDRESS.trim_start_matches("http://").trim_end_matches('/');
    let listener = netns.run(|| {
        loopback()?;
        Ok(TcpListener::bind(address)?)
    })?;
    // Ends with the lab.
    thread::spawn(move || {
        for inside in listener.incoming().flatten() {
            // Without an agent there is nobody to connect to: the browser sees that, too.
            if let Ok(outside) = TcpStream::connect(address) {
                relay(inside, outside);
            }
        }
    });
    netns.run(browser)
}

/// Passes on what each side sends, until one has no more to say.
fn relay(one: TcpStream, other: TcpStream) {
    for (from, to) in [(&one, &other), (&other, &one)] {
        let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
        thread::spawn(move || {
            // However it ends, neither side has a connection any more.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
}

/// A browser of the lab.
pub fn browser() -> Result<Browser> {
    let profile = Path::new("/run/browser");
    fs::create_dir_all(profile)?;
    Browser::start(profile)
}

/// The lab begins without a network.
pub fn loopback() -> Result<()> {
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
    ensure!(status.success(), "loopback cannot be brought up: {status}");
    Ok(())
}

/// Opens the agent's page and waits until it is live.
pub fn open(page: &mut Page<'_>) -> Result<()> {
    page.open(ADDRESS)?;
    page.wait("document.querySelector('#connection')?.textContent === 'live'")
}
