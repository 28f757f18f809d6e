/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Changes the ends of a packet. */
#pragma once

#include "parse.h"

#define NAT_DROP(reason) DROP_FROM(FILE_NAT_H, reason)

#define TCP_CHECKSUM_OFFSET 16
#define UDP_CHECKSUM_OFFSET 6
#define ICMP_CHECKSUM_OFFSET 2
#define ICMP_IDENTIFIER_OFFSET 4

/* What an end of a packet becomes. */
struct nat {
	union address address;
	__be16 port;
	bool source;
};

/* Where in the layer-4 header the checksum stands that covers addresses; 0 if there is none. */
always_inline __u32 checksum_offset(__u8 protocol, int family)
{
	if (protocol == IPPROTO_TCP)
		return TCP_CHECKSUM_OFFSET;
	if (protocol == IPPROTO_UDP)
		return UDP_CHECKSUM_OFFSET;
	return family == FAMILY_IPV6 && protocol == IPPROTO_ICMPV6 ? ICMP_CHECKSUM_OFFSET : 0;
}

/* The checksum of an IPv4 header one word of which changes (RFC 1624). */
always_inline __u16 checksum_changed(__u16 checksum, __u32 from, __u32 to)
{
	__u32 sum = (__u16)~checksum;

	sum += (~from & 0xffff) + (~from >> 16) + (to & 0xffff) + (to >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* A sum as a checksum says it. */
always_inline __be16 checksum_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Corrects the checksum of layer 4. Addresses count towards its pseudo header, which matters where
 * the sender's kernel leaves the rest to the network card. */
always_inline int nat_checksum(struct __sk_buff *skb, const struct packet *packet, const struct nat *nat,
			       const union address *from, __be16 from_port, int family)
{
	__u32 offset = checksum_offset(packet->protocol, family);
	__u64 flags = packet->protocol == IPPROTO_UDP ? BPF_F_MARK_MANGLED_0 : 0;
	long failed;

	if (!offset)
		return 0;
	offset += packet->l4_offset;
	if (family == FAMILY_IPV4) {
		failed = bpf_l4_csum_replace(skb, offset, from->v4, nat->address.v4,
					     BPF_F_PSEUDO_HDR | flags | sizeof(__be32));
	} else {
		__s64 change = bpf_csum_diff((__be32 *)from, 16, (__be32 *)&nat->address, 16, 0);

		failed = bpf_l4_csum_replace(skb, offset, 0, change, BPF_F_PSEUDO_HDR | flags);
	}
	if (!failed && from_port != nat->port)
		failed = bpf_l4_csum_replace(skb, offset, from_port, nat->port, flags | sizeof(__be16));
	return failed ? NAT_DROP(DROP_L4_CHECKSUM) : 0;
}

always_inline int nat_address(struct __sk_buff *skb, const struct nat *nat, int family)
{
	if (family == FAMILY_IPV4) {
		struct iphdr *ip = packet_bytes(skb, ETH_HLEN, sizeof(*ip));
		__be32 *address;

		if (!ip)
			return NAT_DROP(DROP_INVALID_PACKET);
		address = nat->source ? &ip->saddr : &ip->daddr;
		ip->check = checksum_changed(ip->check, *address, nat->address.v4);
		*address = nat->address.v4;
	} else {
		struct ipv6hdr *ip = packet_bytes(skb, ETH_HLEN, sizeof(*ip));

		if (!ip)
			return NAT_DROP(DROP_INVALID_PACKET);
		__builtin_memcpy(nat->source ? &ip->saddr : &ip->daddr, &nat->address, 16);
	}
	return 0;
}

/* Changes an end of the packet, in its headers and in what was read of them. A checksum of SCTP
 * covers ports only, and all data: where a port would change the packet cannot pass. */
always_inline int nat_family(struct __sk_buff *skb, struct packet *packet, const struct nat *nat, int family)
{
	union address *address = nat->source ? &packet->saddr : &packet->daddr;
	__be16 *port = nat->source ? &packet->sport : &packet->dport, from_port = nat->port;
	int code = 0;

	if (has_ports(packet->protocol))
		from_port = *port;
	if (unlikely(packet->protocol == IPPROTO_SCTP) && from_port != nat->port)
		return NAT_DROP(DROP_L4_CHECKSUM);
	if (likely(!packet->tail))
		code = nat_checksum(skb, packet, nat, address, from_port, family);
	if (code < 0)
		return code;
	code = nat_address(skb, nat, family);
	if (code < 0)
		return code;
	*address = nat->address;
	if (from_port == nat->port)
		return 0;
	*port = nat->port;
	if (!nat->source)
		packet->policy_port = nat->port;
	if (likely(!packet->tail)) {
		__be16 *ports = packet_bytes(skb, packet->l4_offset, 2 * sizeof(*ports));

		if (!ports)
			return NAT_DROP(DROP_INVALID_L4_HEADER);
		ports[nat->source ? 0 : 1] = nat->port;
	}
	return 0;
}

subprogram int nat_ipv4(struct __sk_buff *skb, struct packet *packet, const struct nat *nat)
{
	if (!packet || !nat)
		return NAT_DROP(DROP_INVALID_PACKET);
	return nat_family(skb, packet, nat, FAMILY_IPV4);
}

subprogram int nat_ipv6(struct __sk_buff *skb, struct packet *packet, const struct nat *nat)
{
	if (!packet || !nat)
		return NAT_DROP(DROP_INVALID_PACKET);
	return nat_family(skb, packet, nat, FAMILY_IPV6);
}

/* Changes the identifier of an ICMP echo, which stands for the port of the side that asks. */
always_inline int nat_identifier(struct __sk_buff *skb, struct packet *packet, __be16 to, bool source)
{
	__be16 *identifier = source ? &packet->sport : &packet->dport;
	__u32 offset = packet->l4_offset;

	if (*identifier == to)
		return 0;
	if (likely(!packet->tail) &&
	    (bpf_l4_csum_replace(skb, offset + ICMP_CHECKSUM_OFFSET, *identifier, to, sizeof(to)) ||
	     bpf_skb_store_bytes(skb, offset + ICMP_IDENTIFIER_OFFSET, &to, sizeof(to), 0)))
		return NAT_DROP(DROP_WRITE_ERROR);
	*identifier = to;
	return 0;
}

always_inline int nat(struct __sk_buff *skb, struct packet *packet, const struct nat *nat, int family)
{
	return family == FAMILY_IPV4 ? nat_ipv4(skb, packet, nat) : nat_ipv6(skb, packet, nat);
}
