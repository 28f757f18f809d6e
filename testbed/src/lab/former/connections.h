/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which connections are known, and which policy allows. */
#pragma once

#include "packet.h"

union ct_key {
	struct ct4_key v4;
	struct ct6_key v6;
};

/* The key of a packet's connection, or of the one that it answers. */
inlined void ct_key_make(union ct_key *key, const struct packet *packet, bool answers, __u8 flags)
{
	const __u8 *daddr = answers ? packet->daddr : packet->saddr, *saddr = answers ? packet->saddr : packet->daddr;
	__be16 dport = answers ? packet->sport : packet->dport, sport = answers ? packet->dport : packet->sport;

	__builtin_memset(key, 0, sizeof(*key));
	if (packet->v6) {
		key->v6 = (struct ct6_key){.dport = dport, .sport = sport, .protocol = packet->protocol, .flags = flags};
		__builtin_memcpy(key->v6.daddr, daddr, 16);
		__builtin_memcpy(key->v6.saddr, saddr, 16);
	} else {
		key->v4 = (struct ct4_key){.dport = dport, .sport = sport, .protocol = packet->protocol, .flags = flags};
		__builtin_memcpy(key->v4.daddr, daddr, 4);
		__builtin_memcpy(key->v4.saddr, saddr, 4);
	}
}

inlined struct ct_row *ct_find(const struct packet *packet, bool answers, __u8 flags)
{
	union ct_key key;

	ct_key_make(&key, packet, answers, flags);
	if (packet->v6)
		return packet->protocol == TCP ? bpf_map_lookup_elem(&cilium_ct6_global, &key)
					       : bpf_map_lookup_elem(&cilium_ct_any6_global, &key);
	return packet->protocol == TCP ? bpf_map_lookup_elem(&cilium_ct4_global, &key)
				       : bpf_map_lookup_elem(&cilium_ct_any4_global, &key);
}

inlined void ct_put(const struct packet *packet, __u8 flags, const struct ct_row *row)
{
	union ct_key key;

	ct_key_make(&key, packet, false, flags);
	if (packet->v6 && packet->protocol == TCP)
		bpf_map_update_elem(&cilium_ct6_global, &key, row, BPF_ANY);
	else if (packet->v6)
		bpf_map_update_elem(&cilium_ct_any6_global, &key, row, BPF_ANY);
	else if (packet->protocol == TCP)
		bpf_map_update_elem(&cilium_ct4_global, &key, row, BPF_ANY);
	else
		bpf_map_update_elem(&cilium_ct_any4_global, &key, row, BPF_ANY);
}

/* Says of each way which flags it was heard with, as Cilium does: who answers an attempt is asked for it. */
inlined void touch(struct ct_row *row, const struct packet *packet, __u8 way)
{
	__u32 now = bpf_ktime_get_ns() / 1000000000;

	if (packet->protocol == TCP && !(packet->tcp_flags & 2))
		row->flags |= 16;
	if (packet->tcp_flags & 2)
		row->flags &= ~3;
	if (way == IN)
		row->rx_flags |= packet->tcp_flags;
	else
		row->tx_flags |= packet->tcp_flags;
	row->lifetime = now + (packet->protocol == TCP && row->flags & 16 ? 8000 : 60);
}

inlined bool allows(const struct packet *packet, __u32 identity, __u8 egress)
{
	struct policy_key key = {
		.prefix = 64,
		.identity = identity,
		.egress = egress,
		.protocol = packet->protocol,
		.port = packet->policy_port,
	};
	struct policy_row *peer = bpf_map_lookup_elem(&cilium_policy_v2, &key), *any;

	key.identity = 0;
	any = bpf_map_lookup_elem(&cilium_policy_v2, &key);
	if (peer && any && any->precedence > peer->precedence)
		peer = any;
	if (!peer)
		peer = any;
	return peer && !(peer->flags & 1);
}

/* Whether the connection is known or may be, from the endpoint's point of view. `rev_nat` is the number of the
 * service by which the packet goes; afterwards that by which what it answers went. */
inlined bool admits(const struct packet *packet, __u8 way, __u32 identity, __be16 *rev_nat)
{
	struct ct_row *row = ct_find(packet, true, way == OUT ? IN : OUT), fresh = {};

	if (row) {
		touch(row, packet, way);
		*rev_nat = row->rev_nat;
		return true;
	}
	fresh.rev_nat = *rev_nat;
	*rev_nat = 0;
	if (!allows(packet, identity, way == OUT))
		return false;
	row = ct_find(packet, false, way);
	if (row) {
		touch(row, packet, way);
		row->rev_nat = fresh.rev_nat;
		return true;
	}
	touch(&fresh, packet, way);
	fresh.src_identity = way == OUT ? IDENTITY : identity;
	ct_put(packet, way, &fresh);
	return true;
}
