/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Ports of later fragments: those that the first one of their datagram had, or the identifier of an echo. */
#pragma once

#include "flow.h"
#include "icmp.h"
#include "maps.h"

always_inline bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

/* Whether later fragments of this protocol may be known by a first one. */
always_inline bool fragment_tells(__u8 protocol, int family)
{
	return has_ports(protocol) || protocol == (family == FAMILY_IPV4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
}

always_inline void fragment_know(struct packet *packet, const struct fragment_row *row, int family)
{
	if (!row)
		return;
	if (has_ports(packet->protocol))
		packet->policy_port = row->dport;
	else if (row->sport || row->dport)
		packet->policy_port = bpf_htons(icmp_echo_type(row->sport, family));
	else
		return;
	packet->sport = row->sport;
	packet->dport = row->dport;
	packet->headless = false;
}

/* Notes the ports of a first fragment, gives them to a later one. `id` is the datagram's. */
subprogram int fragment_ipv4(struct packet *packet, __be16 id)
{
	struct fragment4_key key = {.id = id};
	struct fragment_row row = {};

	if (!packet || !fragment_tells(packet->protocol, FAMILY_IPV4))
		return 0;
	key.daddr = packet->daddr.v4;
	key.saddr = packet->saddr.v4;
	key.protocol = packet->protocol;
	row.sport = packet->sport;
	row.dport = packet->dport;
	if (packet->tail)
		fragment_know(packet, bpf_map_lookup_elem(&cilium_ipv4_frag_datagrams, &key), FAMILY_IPV4);
	else
		bpf_map_update_elem(&cilium_ipv4_frag_datagrams, &key, &row, BPF_ANY);
	return 0;
}

subprogram int fragment_ipv6(struct packet *packet, __be32 id)
{
	struct fragment6_key key = {.id = id};
	struct fragment_row row = {};

	if (!packet || !fragment_tells(packet->protocol, FAMILY_IPV6))
		return 0;
	__builtin_memcpy(key.daddr, &packet->daddr, 16);
	__builtin_memcpy(key.saddr, &packet->saddr, 16);
	key.protocol = packet->protocol;
	row.sport = packet->sport;
	row.dport = packet->dport;
	if (packet->tail)
		fragment_know(packet, bpf_map_lookup_elem(&cilium_ipv6_frag_datagrams, &key), FAMILY_IPV6);
	else
		bpf_map_update_elem(&cilium_ipv6_frag_datagrams, &key, &row, BPF_ANY);
	return 0;
}
