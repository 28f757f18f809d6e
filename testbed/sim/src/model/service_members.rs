//! Who is listed for a service, and who of them serves.

use std::{collections::BTreeSet, fmt};

use serde_json::{Value, json};
use volvox_actors_simulated::model::{L4Address, Transport};

use crate::random::Random;

/// Backends that each service may have, all of the same few.
pub(crate) const BACKENDS: u8 = 6;
/// Those of them that are on the node.
const HERE: u8 = 0b000_111;
/// The name of the node.
const NODE: &str = "here";

/// Who is listed for a service, and how, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    ready: u8,
    /// They end, and serve still.
    ending: u8,
    unready: u8,
    /// Who is for clients of this node, if that is said of each.
    near: Option<u8>,
}

impl Members {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut some = || random.roll(1 << BACKENDS) as u8;
        let (all, ending, unready, near) = (some(), some() & some(), some() & some(), some());
        Self {
            ready: all & !ending & !unready,
            ending: all & ending,
            unready: all & unready & !ending,
            near: (random.roll(3) == 0).then_some(near),
        }
    }

    /// Nobody in particular: all who may be listed.
    pub(crate) fn all() -> Self {
        Self { ready: u8::MAX, ending: 0, unready: 0, near: None }
    }

    /// Everyone.
    pub(crate) fn listed(self) -> u8 {
        self.ready | self.ending | self.unready
    }

    /// Who may have packets.
    pub(crate) fn serving(self, local: bool) -> u8 {
        (self.ready | self.ending) & of_node(local)
    }

    pub(crate) fn unready(self) -> u8 {
        self.unready
    }

    /// Who has new connections, where some are quarantined, and where only those of the node are asked.
    pub(crate) fn chosen(self, quarantined: u8, local: bool) -> u8 {
        let near = |of: u8| match self.near {
            Some(near) if !local && of & near != 0 => of & near,
            _ => of,
        };
        let (ready, ending) = (self.ready & of_node(local), self.ending & of_node(local));
        let choices = [near(ready & !quarantined), near(ready), ending & !quarantined, ending];
        choices.into_iter().find(|it| *it != 0).unwrap_or_default()
    }

    /// How many of the node take new connections, as load balancers hear it.
    pub(crate) fn healthy(self, quarantined: u8) -> usize {
        let open = self.ready & !quarantined;
        let open = if open == 0 { self.ready } else { open };
        (open & HERE).count_ones() as usize
    }

    /// The endpoints of one of the two slices that they are on.
    pub(crate) fn endpoints(self, part: u8) -> Vec<Value> {
        let endpoint = |bit: u8| {
            let is = |set: u8| set >> bit & 1 == 1;
            let mut endpoint = json!({
                "addresses": [place(bit).address],
                "conditions": {
                    "ready": is(self.ready), "serving": is(!self.unready),
                    "terminating": is(self.ending),
                },
            });
            if is(HERE) {
                endpoint["nodeName"] = json!(NODE);
            }
            if let Some(near) = self.near {
                let node = if is(near) { NODE } else { "there" };
                endpoint["hints"] = json!({ "forNodes": [{ "name": node }] });
            }
            endpoint
        };
        bits(self.listed()).filter(|bit| bit % 2 == part).map(endpoint).collect()
    }
}

/// Shows who is ready, and who is not.
impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06b}", self.ready)?;
        for (what, some) in [("ending", self.ending), ("not ready", self.unready)] {
            if some != 0 {
                write!(f, ", {what} {some:06b}")?;
            }
        }
        self.near.map_or(Ok(()), |near| write!(f, ", near {near:06b}"))
    }
}

fn of_node(local: bool) -> u8 {
    if local { HERE } else { u8::MAX }
}

fn bits(some: u8) -> impl Iterator<Item = u8> {
    (0..BACKENDS).filter(move |bit| some >> bit & 1 == 1)
}

/// Where somebody serves.
pub(crate) fn place(bit: u8) -> L4Address {
    let address = std::net::Ipv4Addr::new(10, 1, 0, bit + 1).into();
    L4Address { address, port: 8080, transport: Transport::TCP }
}

pub(crate) fn places(some: u8) -> BTreeSet<L4Address> {
    bits(some).map(place).collect()
}

/// Those who serve at these places.
pub(crate) fn at(these: impl Iterator<Item = L4Address>) -> u8 {
    let these: BTreeSet<_> = these.collect();
    (0..BACKENDS).filter(|bit| these.contains(&place(*bit))).fold(0, |all, bit| all | 1 << bit)
}
