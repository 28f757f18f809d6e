/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The packet inside an ICMP error. */
#pragma once

#include "conntrack.h"
#include "nat.h"

/* From the ICMP header to the packet inside. */
#define INNER_OFFSET 8

/* Steps over the header by which a node of ours told what a client asked: it is still there when the backend
 * complains. `offset` is where layer 4 would be otherwise. */
always_inline int inner_step(struct __sk_buff *skb, __u32 *offset, __u8 *protocol)
{
	__u8 header[2];

	if (!ENABLE_DSR || likely(*protocol != IPPROTO_DSTOPTS))
		return 0;
	if (bpf_skb_load_bytes(skb, *offset, header, sizeof(header)))
		return -1;
	*protocol = header[0];
	*offset += (header[1] + 1) * 8;
	return 0;
}

/* Reads the ends of the packet inside an ICMP error. Returns 0, or -1 if it does not tell them. */
subprogram int inner_read(struct __sk_buff *skb, const struct packet *packet, struct packet *inner, int family)
{
	__u32 offset;
	__be16 l4[4];

	if (!packet || !inner)
		return -1;
	offset = packet->l4_offset + INNER_OFFSET;
	if (family == FAMILY_IPV4) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) || ip.ihl < 5 ||
		    ip.frag_off & bpf_htons(IPV4_FRAGMENT_OFFSET))
			return -1;
		inner->saddr.v4 = ip.saddr;
		inner->daddr.v4 = ip.daddr;
		inner->protocol = ip.protocol;
		offset += ip.ihl * 4;
	} else {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
			return -1;
		__builtin_memcpy(&inner->saddr, &ip.saddr, 16);
		__builtin_memcpy(&inner->daddr, &ip.daddr, 16);
		inner->protocol = ip.nexthdr;
		offset += sizeof(ip);
		if (inner_step(skb, &offset, &inner->protocol))
			return -1;
	}
	if (bpf_skb_load_bytes(skb, offset, l4, sizeof(l4)))
		return -1;
	if (inner->protocol == (family == FAMILY_IPV4 ? IPPROTO_ICMP : IPPROTO_ICMPV6)) {
		icmp_ports(*(__u8 *)l4, l4[2], family, &inner->sport, &inner->dport);
	} else {
		inner->sport = l4[0];
		inner->dport = l4[1];
	}
	return 0;
}

/* Changes an end of the packet inside an error, which has ports or is an echo. An IPv4 header sums to
 * the same before and after, so that only ports change the checksum of the error; nobody looks at the
 * inner packet's own. */
always_inline int nat_inner_family(struct __sk_buff *skb, const struct packet *packet, const struct nat *nat,
				   int family)
{
	__u32 checksum = packet->l4_offset + ICMP_CHECKSUM_OFFSET, offset = packet->l4_offset + INNER_OFFSET;
	__u8 protocol;
	__be16 port;
	long failed;

	if (family == FAMILY_IPV4) {
		struct iphdr ip;
		__be32 *address = nat->source ? &ip.saddr : &ip.daddr;

		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
			return NAT_DROP(DROP_INVALID_PACKET);
		ip.check = checksum_changed(ip.check, *address, nat->address.v4);
		*address = nat->address.v4;
		failed = bpf_skb_store_bytes(skb, offset, &ip, sizeof(ip), 0);
		protocol = ip.protocol;
		offset += ip.ihl * 4;
	} else {
		struct ipv6hdr ip;
		struct in6_addr *address = nat->source ? &ip.saddr : &ip.daddr;
		__s64 change;

		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
			return NAT_DROP(DROP_INVALID_PACKET);
		change = bpf_csum_diff((__be32 *)address, 16, (__be32 *)&nat->address, 16, 0);
		__builtin_memcpy(address, &nat->address, 16);
		failed = bpf_skb_store_bytes(skb, offset, &ip, sizeof(ip), 0) ||
			 bpf_l4_csum_replace(skb, checksum, 0, change, 0);
		protocol = ip.nexthdr;
		offset += sizeof(ip);
		failed = failed || inner_step(skb, &offset, &protocol);
	}
	if (failed)
		return NAT_DROP(DROP_WRITE_ERROR);
	if (has_ports(protocol))
		offset += nat->source ? 0 : sizeof(port);
	else
		offset += ICMP_IDENTIFIER_OFFSET;
	if (bpf_skb_load_bytes(skb, offset, &port, sizeof(port)))
		return NAT_DROP(DROP_INVALID_PACKET);
	if (port != nat->port && (bpf_l4_csum_replace(skb, checksum, port, nat->port, sizeof(port)) ||
				  bpf_skb_store_bytes(skb, offset, &nat->port, sizeof(port), 0)))
		return NAT_DROP(DROP_WRITE_ERROR);
	return 0;
}

subprogram int nat_inner_ipv4(struct __sk_buff *skb, const struct packet *packet, const struct nat *nat)
{
	if (!packet || !nat)
		return NAT_DROP(DROP_INVALID_PACKET);
	return nat_inner_family(skb, packet, nat, FAMILY_IPV4);
}

subprogram int nat_inner_ipv6(struct __sk_buff *skb, const struct packet *packet, const struct nat *nat)
{
	if (!packet || !nat)
		return NAT_DROP(DROP_INVALID_PACKET);
	return nat_inner_family(skb, packet, nat, FAMILY_IPV6);
}

always_inline int nat_inner(struct __sk_buff *skb, const struct packet *packet, const struct nat *nat, int family)
{
	return family == FAMILY_IPV4 ? nat_inner_ipv4(skb, packet, nat) : nat_inner_ipv6(skb, packet, nat);
}
