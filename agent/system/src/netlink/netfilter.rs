//! Whether a chain or a table of nf_tables is there, `linux/netfilter/nf_tables.h`: one is asked for by its name,
//! so it costs the same however many there are.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST};
use netlink_sys::{Socket as RawSocket, SocketAddr, protocols::NETLINK_NETFILTER};

use super::message::{Body, Messages};

/// Messages of the subsystem of nf_tables.
const GET_TABLE: u16 = 10 << 8 | 1;
const GET_CHAIN: u16 = 10 << 8 | 4;
/// The name of a table, in a message about one; and of the table of a chain.
const TABLE: u16 = 1;
/// The name of a chain.
const CHAIN: u16 = 3;
/// Bytes of a message's header, and of what all messages of netfilter begin with.
const HEADER: usize = 16;
/// A datagram of one object.
const BUFFER: usize = 16 * 1024;

/// Of which packets a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFamily {
    /// `ip`
    Ipv4 = 2,
    /// `ip6`
    Ipv6 = 10,
}

/// A socket that speaks of the rules of the namespace in which it was opened.
pub struct Netfilter {
    raw: RawSocket,
    sequence: u32,
}

impl Netfilter {
    /// Opens it in the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let mut raw = RawSocket::new(NETLINK_NETFILTER)?;
        raw.bind_auto()?;
        raw.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { raw, sequence: 0 })
    }

    /// Whether there is a table of that name.
    pub fn has_table(&mut self, family: TableFamily, table: &str) -> io::Result<bool> {
        self.has(GET_TABLE, family, &[(TABLE, table)])
    }

    /// Whether a table has a chain of that name.
    pub fn has_chain(&mut self, family: TableFamily, table: &str, chain: &str) -> io::Result<bool> {
        self.has(GET_CHAIN, family, &[(TABLE, table), (CHAIN, chain)])
    }

    fn has(&mut self, kind: u16, family: TableFamily, names: &[(u16, &str)]) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        self.raw.send(&request(kind, family, self.sequence, names), 0)?;
        let mut found = false;
        loop {
            let mut buffer = Vec::with_capacity(BUFFER);
            match self.raw.recv(&mut buffer, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received?,
            };
            for message in Messages(&buffer).flatten().filter(|it| it.sequence == self.sequence) {
                match message.body {
                    Body::Object(..) => found = true,
                    Body::End(0, _) => return Ok(found),
                    Body::End(code, _) => {
                        let error = io::Error::from_raw_os_error(code.abs());
                        let is_absent = error.kind() == io::ErrorKind::NotFound;
                        return if is_absent { Ok(false) } else { Err(error) };
                    }
                    Body::Empty => {}
                }
            }
        }
    }
}

fn request(kind: u16, family: TableFamily, sequence: u32, names: &[(u16, &str)]) -> Vec<u8> {
    let mut body = vec![family as u8, 0, 0, 0];
    for (attribute, name) in names {
        // A text of C.
        let length = u16::try_from(4 + name.len() + 1).unwrap_or(u16::MAX);
        body.extend(length.to_ne_bytes());
        body.extend(attribute.to_ne_bytes());
        body.extend(name.as_bytes());
        body.push(0);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::netns::Netns;

    #[test]
    fn chains_and_tables_are_found_by_name_and_family() {
        let test = || {
            let rules = |arguments: &[&str]| {
                let status = Command::new("iptables-nft").args(arguments).status();
                assert!(status.expect("iptables is installed").success(), "{arguments:?}");
            };
            let mut netfilter = Netfilter::open().unwrap();
            let has = |it: &mut Netfilter, family| it.has_chain(family, "nat", "KUBE-SERVICES");
            assert!(!has(&mut netfilter, TableFamily::Ipv4).unwrap());
            assert!(!netfilter.has_table(TableFamily::Ipv4, "nat").unwrap());
            rules(&["-t", "nat", "-N", "KUBE-SERVICE"]);
            assert!(netfilter.has_table(TableFamily::Ipv4, "nat").unwrap());
            assert!(!has(&mut netfilter, TableFamily::Ipv4).unwrap(), "another name");
            rules(&["-t", "nat", "-N", "KUBE-SERVICES"]);
            assert!(has(&mut netfilter, TableFamily::Ipv4).unwrap());
            assert!(!has(&mut netfilter, TableFamily::Ipv6).unwrap(), "another family");
            rules(&["-t", "nat", "-X", "KUBE-SERVICES"]);
            assert!(!has(&mut netfilter, TableFamily::Ipv4).unwrap());
        };
        Netns::create().unwrap().run(test).unwrap();
    }
}
