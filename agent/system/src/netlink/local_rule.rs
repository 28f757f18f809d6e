//! Routing rules that look up the node's own addresses: read, made and removed, for each family.

use std::collections::BTreeMap;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::RouteProtocol,
    rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage},
};
use rustix::io::Errno;
use volvox_actors::ports::{LocalRule, LocalRules};

use super::{
    NetlinkError, Socket,
    socket::{Call, decode},
};

/// What the kernel says where a rule does not look at the length of prefixes.
const ANY_LENGTH: u32 = u32::MAX;

impl Socket {
    /// Rules that look up every packet in the table of the node's own addresses, by family; none of
    /// one that has no rules at all.
    pub fn local_rules(&mut self) -> Result<BTreeMap<bool, LocalRules>, NetlinkError> {
        let mut rules = BTreeMap::new();
        for (ipv6, family) in [(false, AddressFamily::Inet), (true, AddressFamily::Inet6)] {
            let mut request = RuleMessage::default();
            request.header.family = family;
            let call = Call::new("list", "routing rules");
            match self.dump(&call, &RouteNetlinkMessage::GetRule(request), parse) {
                Ok(found) if found.is_empty() => {}
                Ok(found) => {
                    let local = rules.entry(ipv6).or_insert_with(LocalRules::default);
                    found.into_iter().flatten().for_each(
                        |(priority, is_kernels)| match is_kernels {
                            true => drop(local.priorities.insert(priority)),
                            false => local.others = true,
                        },
                    );
                }
                Err(error) if is_unknown(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rules)
    }

    /// Makes such a rule, of the kernel's origin. One that is there stays.
    pub fn put_local_rule(&mut self, rule: LocalRule) -> Result<(), NetlinkError> {
        let call = Call::new("make", words(rule));
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        match self.change(&call, RouteNetlinkMessage::NewRule(message(rule)), flags) {
            Err(error) if error.is_taken() => Ok(()),
            result => result,
        }
    }

    /// Removes such a rule of the kernel's origin. False if there was none.
    pub fn delete_local_rule(&mut self, rule: LocalRule) -> Result<bool, NetlinkError> {
        let call = Call::new("remove", words(rule));
        match self.change(&call, RouteNetlinkMessage::DelRule(message(rule)), 0) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn words(LocalRule { ipv6, priority }: LocalRule) -> String {
    let family = if ipv6 { "IPv6" } else { "IPv4" };
    format!("routing rule {priority} of {family}, `lookup local`")
}

/// Whether the kernel has no rules of a family.
fn is_unknown(error: &NetlinkError) -> bool {
    error.is_absent() || matches!(error.errno(), Some(Errno::AFNOSUPPORT | Errno::OPNOTSUPP))
}

fn message(LocalRule { ipv6, priority }: LocalRule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.table = libc::RT_TABLE_LOCAL;
    message.header.action = RuleAction::ToTable;
    message.attributes.push(RuleAttribute::Priority(priority));
    message.attributes.push(RuleAttribute::Protocol(RouteProtocol::Kernel));
    message
}

/// A rule; of one that looks up all packets there its priority, and whether it is of the kernel's
/// origin.
pub(super) fn parse(kind: u16, bytes: &[u8]) -> Option<Option<(u32, bool)>> {
    let Some(RouteNetlinkMessage::NewRule(rule)) = decode(kind, bytes) else { return None };
    let header = &rule.header;
    let is_for_all = (header.src_len, header.dst_len, header.tos) == (0, 0, 0)
        && !header.flags.contains(RuleFlags::Invert);
    if header.action != RuleAction::ToTable || header.table != libc::RT_TABLE_LOCAL || !is_for_all {
        return Some(None);
    }
    let (mut priority, mut is_kernels) = (0, false);
    for attribute in &rule.attributes {
        match *attribute {
            RuleAttribute::Priority(number) => priority = number,
            RuleAttribute::Protocol(protocol) => is_kernels = protocol == RouteProtocol::Kernel,
            RuleAttribute::Table(_)
            | RuleAttribute::L3MDev(false)
            | RuleAttribute::SuppressPrefixLen(ANY_LENGTH) => {}
            _ => return Some(None),
        }
    }
    Some(Some((priority, is_kernels)))
}
