//! What an agent holds in its first run on a node, which loads programs, with few endpoints.

use std::{thread, time::Duration};

use anyhow::Result;

use super::{Figure, Unit};
use crate::lab::{Binaries, Node, Pod, Through};

/// Endpoints of a small node.
const ENDPOINTS: usize = 5;
/// By then the agent has given back what only its start needed.
const SETTLED_AFTER: Duration = Duration::from_secs(7);

pub(super) fn run() -> Result<Vec<Figure>> {
    let mut node = Node::new(Binaries::find()?)?;
    node.start_agent()?;
    let create =
        |nth| Pod::create(&node, &format!("few/pod-{nth}"), &[("app", "few")], Through::Rest);
    let _pods = (0..ENDPOINTS).map(create).collect::<Result<Vec<_>>>()?;
    node.wait_for_ready(ENDPOINTS)?;
    thread::sleep(SETTLED_AFTER);
    let mut resident = Figure::new("agent.rss", Unit::Megabytes).below(25.0);
    resident.push(node.agent()?.usage()?.memory as f64 / 1e6);
    Ok(vec![resident])
}
