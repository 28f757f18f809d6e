/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Packets of both families: how they are read, and how an end of one is given another address and port. */
#pragma once

#include <linux/ip.h>
#include <linux/ipv6.h>

#include "layouts.h"

/* An IPv4 address stands in the first four bytes. */
struct packet {
	__u8 saddr[16];
	__u8 daddr[16];
	__be16 sport;
	__be16 dport;
	__be16 policy_port;
	__u8 protocol;
	__u8 tcp_flags;
	bool v6;
};

inlined void *bytes(struct __sk_buff *skb, __u32 length)
{
	if (skb->data + length > skb->data_end)
		bpf_skb_pull_data(skb, length);
	void *data = (void *)(long)skb->data;

	return data + length <= (void *)(long)skb->data_end ? data : NULL;
}

/* Where the transport header begins; packets with options or extension headers are not served. */
inlined __u32 transport(const struct packet *packet)
{
	return ETH_HLEN + (packet->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
}

inlined int parse_ports(struct __sk_buff *skb, struct packet *packet)
{
	__u8 request = packet->v6 ? 128 : 8, answer = packet->v6 ? 129 : 0, type[8];
	__u32 at = transport(packet);
	__be16 ports[2];

	if (packet->protocol == ICMP || packet->protocol == ICMPV6) {
		if (bpf_skb_load_bytes(skb, at, type, 8))
			return -1;
		packet->policy_port = bpf_htons(type[0]);
		if (type[0] == request)
			__builtin_memcpy(&packet->sport, type + 4, 2);
		else if (type[0] == answer)
			__builtin_memcpy(&packet->dport, type + 4, 2);
		return 0;
	}
	if (bpf_skb_load_bytes(skb, at, ports, 4))
		return -1;
	packet->sport = ports[0];
	packet->dport = packet->policy_port = ports[1];
	if (packet->protocol == TCP && bpf_skb_load_bytes(skb, at + 13, &packet->tcp_flags, 1))
		return -1;
	return 0;
}

inlined int parse(struct __sk_buff *skb, struct packet *packet)
{
	__builtin_memset(packet, 0, sizeof(*packet));
	packet->v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
	if (packet->v6) {
		struct ipv6hdr *ip = bytes(skb, ETH_HLEN + sizeof(*ip));

		if (!ip)
			return -1;
		ip = (void *)ip + ETH_HLEN;
		packet->protocol = ip->nexthdr;
		__builtin_memcpy(packet->saddr, &ip->saddr, 16);
		__builtin_memcpy(packet->daddr, &ip->daddr, 16);
	} else {
		struct iphdr *ip = bytes(skb, ETH_HLEN + sizeof(*ip));

		if (!ip)
			return -1;
		ip = (void *)ip + ETH_HLEN;
		if (ip->ihl != 5)
			return -1;
		packet->protocol = ip->protocol;
		__builtin_memcpy(packet->saddr, &ip->saddr, 4);
		__builtin_memcpy(packet->daddr, &ip->daddr, 4);
	}
	return parse_ports(skb, packet);
}

inlined bool has_ports(const struct packet *packet)
{
	return packet->protocol == TCP || packet->protocol == UDP;
}

/* Gives the source or the destination of a packet with ports another address, in 16 bytes, and port. */
inlined int rewrite(struct __sk_buff *skb, struct packet *packet, bool source, const __u8 *address, __be16 port)
{
	__u32 length = packet->v6 ? 16 : 4, at = transport(packet);
	__u32 sum_at = at + (packet->protocol == TCP ? 16 : 6);
	__u64 mangled = packet->protocol == UDP ? BPF_F_MARK_MANGLED_0 : 0;
	__u8 *own = source ? packet->saddr : packet->daddr;
	__be16 *own_port = source ? &packet->sport : &packet->dport;
	__u32 address_at, port_at = at + (source ? 0 : 2);
	__s64 sum;

	if (packet->v6)
		address_at = ETH_HLEN + (source ? offsetof(struct ipv6hdr, saddr) : offsetof(struct ipv6hdr, daddr));
	else
		address_at = ETH_HLEN + (source ? offsetof(struct iphdr, saddr) : offsetof(struct iphdr, daddr));
	sum = bpf_csum_diff((__be32 *)own, length, (__be32 *)address, length, 0);
	if (!packet->v6 && bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), 0, sum, 0))
		return -1;
	if (bpf_l4_csum_replace(skb, sum_at, 0, sum, BPF_F_PSEUDO_HDR | mangled) ||
	    bpf_l4_csum_replace(skb, sum_at, *own_port, port, 2 | mangled) ||
	    bpf_skb_store_bytes(skb, address_at, address, length, 0) ||
	    bpf_skb_store_bytes(skb, port_at, &port, 2, 0))
		return -1;
	__builtin_memcpy(own, address, 16);
	*own_port = port;
	return 0;
}
