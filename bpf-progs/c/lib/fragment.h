/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Ports of later fragments: those that the first one of their datagram had. */
#pragma once

#include "flow.h"
#include "maps.h"

always_inline bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

always_inline void fragment_know(struct packet *packet, const struct fragment_row *row)
{
	if (!row)
		return;
	packet->sport = row->sport;
	packet->dport = packet->policy_port = row->dport;
	packet->headless = false;
}

/* Notes the ports of a first fragment, gives them to a later one. `id` is the datagram's. */
subprogram int fragment_ipv4(struct packet *packet, __be16 id)
{
	struct fragment4_key key = {.id = id};
	struct fragment_row row = {};

	if (!packet || !has_ports(packet->protocol))
		return 0;
	key.daddr = packet->daddr.v4;
	key.saddr = packet->saddr.v4;
	key.protocol = packet->protocol;
	row.sport = packet->sport;
	row.dport = packet->dport;
	if (packet->tail)
		fragment_know(packet, bpf_map_lookup_elem(&cilium_ipv4_frag_datagrams, &key));
	else
		bpf_map_update_elem(&cilium_ipv4_frag_datagrams, &key, &row, BPF_ANY);
	return 0;
}

subprogram int fragment_ipv6(struct packet *packet, __be32 id)
{
	struct fragment6_key key = {.id = id};
	struct fragment_row row = {};

	if (!packet || !has_ports(packet->protocol))
		return 0;
	__builtin_memcpy(key.daddr, &packet->daddr, 16);
	__builtin_memcpy(key.saddr, &packet->saddr, 16);
	key.protocol = packet->protocol;
	row.sport = packet->sport;
	row.dport = packet->dport;
	if (packet->tail)
		fragment_know(packet, bpf_map_lookup_elem(&cilium_ipv6_frag_datagrams, &key));
	else
		bpf_map_update_elem(&cilium_ipv6_frag_datagrams, &key, &row, BPF_ANY);
	return 0;
}
