//! Interfaces that the agent makes for itself: the VXLAN overlay and the veth pair of the host. A
//! group number tells them from others of the same name.

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NlasIterator};
use netlink_packet_route::{
    RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{
        InfoData, InfoKind, InfoVeth, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
    },
};
use volvox_actors::model::Mac;

use super::{
    NetlinkError, Socket,
    address::family,
    message::{array, text},
    socket::Call,
};

/// Group of interfaces that marks those of ours from the moment they are made; `ip link` shows it.
pub const DEVICE_GROUP: u32 = 155;

/// `IFLA_VXLAN_PORT` and `IFLA_VXLAN_COLLECT_METADATA`.
const VXLAN_PORT: u16 = 15;
const VXLAN_EXTERNAL: u16 = 25;

/// An interface as it is told from one that only has the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its number.
    pub ifindex: u32,
    /// Whether it has [`DEVICE_GROUP`].
    pub ours: bool,
    /// `vxlan`, `veth`, …
    pub kind: String,
    /// Its neighbours are not asked for their Ethernet addresses.
    pub noarp: bool,
    /// Number of the other side of a pair.
    pub peer_ifindex: u32,
    /// The UDP port of a VXLAN.
    pub port: u16,
    /// Whether each packet says where its tunnel leads.
    pub external: bool,
}

impl Socket {
    /// The interface of that name.
    pub fn device(&mut self, name: &str) -> Result<Option<Device>, NetlinkError> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let call = Call::new("find", name);
        match self.get(&call, RouteNetlinkMessage::GetLink(request), parse) {
            Err(error) if error.is_absent() => Ok(None),
            result => result,
        }
    }

    /// Makes a VXLAN interface of ours, down: each packet says where its tunnel leads.
    pub fn create_overlay(
        &mut self,
        name: &str,
        port: u16,
        mtu: u32,
        mac: Mac,
    ) -> Result<(), NetlinkError> {
        let mut request = device(name, mtu, mac);
        request.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Vxlan),
            LinkInfo::Data(InfoData::Vxlan(vec![
                InfoVxlan::CollectMetadata(true),
                InfoVxlan::Port(port),
                InfoVxlan::Learning(false),
                // A route by which the node itself sends asks for no checksum.
                InfoVxlan::UDPZeroCsumTX(true),
                InfoVxlan::UDPZeroCsumRX(true),
            ])),
        ]));
        self.create(name, request)
    }

    /// Makes a veth pair of ours, both sides in this namespace and down.
    pub fn create_pair(
        &mut self,
        [name, peer]: [&str; 2],
        mtu: u32,
        [mac, peer_mac]: [Mac; 2],
    ) -> Result<(), NetlinkError> {
        let mut request = device(name, mtu, mac);
        request.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(device(peer, mtu, peer_mac)))),
        ]));
        self.create(name, request)
    }

    /// Gives an interface that another agent made the mark of ours, and has it ask nobody for Ethernet
    /// addresses.
    pub fn adopt_device(&mut self, ifindex: u32) -> Result<(), NetlinkError> {
        let mut request = LinkMessage::default();
        request.header.index = ifindex;
        request.header.flags = LinkFlags::Noarp;
        request.header.change_mask = LinkFlags::Noarp;
        request.attributes.push(LinkAttribute::Group(DEVICE_GROUP));
        let call = Call::new("take over", format!("interface {ifindex}"));
        let changed = self.change(&call, RouteNetlinkMessage::SetLink(request), 0);
        self.with_name(changed, ifindex)
    }

    /// Takes an address from an interface. False if it had it not.
    pub fn remove_address(&mut self, ifindex: u32, address: IpNet) -> Result<bool, NetlinkError> {
        let mut request = AddressMessage::default();
        request.header.family = family(address.addr());
        request.header.prefix_len = address.prefix_len();
        request.header.index = ifindex;
        request.attributes.push(AddressAttribute::Local(address.addr()));
        let call = Call::new("take", format!("{address} from interface {ifindex}"));
        match self.change(&call, RouteNetlinkMessage::DelAddress(request), 0) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => self.with_name(Err(error), ifindex),
        }
    }

    fn create(&mut self, name: &str, request: LinkMessage) -> Result<(), NetlinkError> {
        let call = Call::new("create the interface", name);
        self.change(&call, RouteNetlinkMessage::NewLink(request), NLM_F_CREATE | NLM_F_EXCL)
    }
}

/// An interface of ours that asks nobody for Ethernet addresses: all its packets have one way.
fn device(name: &str, mtu: u32, mac: Mac) -> LinkMessage {
    let mut request = LinkMessage::default();
    request.header.flags = LinkFlags::Noarp;
    request.header.change_mask = LinkFlags::Noarp;
    request.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::Address(mac.0.to_vec()),
        LinkAttribute::Group(DEVICE_GROUP),
    ];
    request
}

pub(super) fn parse(kind: u16, bytes: &[u8]) -> Option<Device> {
    if kind != libc::RTM_NEWLINK {
        return None;
    }
    // struct ifinfomsg: family, type, index@4, flags@8, change.
    let flags = LinkFlags::from_bits_retain(u32::from_ne_bytes(array(bytes, 8)?));
    let mut device = Device {
        ifindex: u32::from_ne_bytes(array(bytes, 4)?),
        noarp: flags.contains(LinkFlags::Noarp),
        ..Device::default()
    };
    for nla in NlasIterator::new(bytes.get(16..)?).map_while(Result::ok) {
        let value = nla.value();
        let number = || array(value, 0).map(u32::from_ne_bytes).unwrap_or_default();
        match nla.kind() {
            libc::IFLA_GROUP => device.ours = number() == DEVICE_GROUP,
            libc::IFLA_LINK => device.peer_ifindex = number(),
            libc::IFLA_LINKINFO => device.read_info(value),
            _ => {}
        }
    }
    Some(device)
}

impl Device {
    fn read_info(&mut self, attributes: &[u8]) {
        for nla in NlasIterator::new(attributes).map_while(Result::ok) {
            match nla.kind() {
                libc::IFLA_INFO_KIND => self.kind = text(nla.value()),
                libc::IFLA_INFO_DATA => self.read_data(nla.value()),
                _ => {}
            }
        }
    }

    /// Numbers of other kinds mean something else: nobody asks for them there.
    fn read_data(&mut self, attributes: &[u8]) {
        for nla in NlasIterator::new(attributes).map_while(Result::ok) {
            match nla.kind() {
                VXLAN_PORT => {
                    self.port = array(nla.value(), 0).map(u16::from_be_bytes).unwrap_or_default();
                }
                VXLAN_EXTERNAL => self.external = nla.value() == [1],
                _ => {}
            }
        }
    }
}
