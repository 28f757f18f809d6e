/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Connection tracking. Each endpoint has an entry of its own for a connection, as the opener
 * (TUPLE_OUT) or as the one connected to (TUPLE_IN). */
#pragma once

#include "begin.h"
#include "clock.h"
#include "features.h"
#include "maps.h"
#include "parse.h"

#define CT_DROP(reason) DROP_FROM(FILE_CONNTRACK_H, reason)

/* Seconds. One side that finished, and is the only one that is heard, leaves as much as an attempt. */
#define CT_LIFETIME_SYN 60
#define CT_LIFETIME_TCP 8000
#define CT_LIFETIME_OTHER 60
#define CT_LIFETIME_CLOSING 10

/* The numbers are those of trace reasons. */
enum ct_state {
	CT_NEW = 0,
	CT_ESTABLISHED = 1,
	CT_REPLY = 2,
	CT_RELATED = 3,
};

union ct_key {
	struct ct4_key v4;
	struct ct6_key v6;
};

/* Addresses and ports of a packet that may belong to a connection. */
struct ct_ends {
	const union address *saddr;
	const union address *daddr;
	__be16 sport;
	__be16 dport;
	__u8 protocol;
};

always_inline struct ct_ends ct_ends_of(const struct packet *packet)
{
	return (struct ct_ends){
		.saddr = &packet->saddr,
		.daddr = &packet->daddr,
		.sport = packet->sport,
		.dport = packet->dport,
		.protocol = packet->protocol,
	};
}

/* The ends of a connection, but for the address that it is to, mixed. Nodes agree on it, as they do on
 * the tables of services. */
always_inline __u32 connection_hash(const struct packet *packet)
{
	__u64 hash = (__u64)packet->protocol << 32 | (__u32)packet->sport << 16 | packet->dport;

	for (int i = 0; i < 4; i++) {
		hash = (hash ^ packet->saddr.words[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 32;
	}
	hash *= 0xd6e8feb86659fd93ULL;
	return hash >> 32;
}

/* The key of the connection that a packet of these ends belongs to: in the direction of the
 * opener, or as its reply. Stored addresses are reversed, ports are not. */
always_inline void ct_key_make(union ct_key *key, const struct ct_ends *ends, int family, __u8 tuple,
			       bool reply)
{
	const union address *opener = reply ? ends->daddr : ends->saddr;
	const union address *other = reply ? ends->saddr : ends->daddr;

	if (family == FAMILY_IPV4) {
		key->v4.daddr = opener->v4;
		key->v4.saddr = other->v4;
		key->v4.dport = reply ? ends->sport : ends->dport;
		key->v4.sport = reply ? ends->dport : ends->sport;
		key->v4.protocol = ends->protocol;
		key->v4.flags = tuple;
	} else {
		__builtin_memcpy(key->v6.daddr, opener, 16);
		__builtin_memcpy(key->v6.saddr, other, 16);
		key->v6.dport = reply ? ends->sport : ends->dport;
		key->v6.sport = reply ? ends->dport : ends->sport;
		key->v6.protocol = ends->protocol;
		key->v6.flags = tuple;
	}
}

always_inline struct ct_row *ct_lookup(const union ct_key *key, int family, bool tcp)
{
	struct ct_row *row;

	if (family == FAMILY_IPV4 && tcp) {
		row = bpf_map_lookup_elem(&cilium_ct4_global, key);
		keep_apart();
	} else if (family == FAMILY_IPV4) {
		row = bpf_map_lookup_elem(&cilium_ct_any4_global, key);
	} else if (tcp) {
		row = bpf_map_lookup_elem(&cilium_ct6_global, key);
		keep_apart();
	} else {
		row = bpf_map_lookup_elem(&cilium_ct_any6_global, key);
	}
	return row;
}

always_inline long ct_update(const union ct_key *key, const struct ct_row *row, __u64 flags, int family, bool tcp)
{
	if (family == FAMILY_IPV4)
		return tcp ? bpf_map_update_elem(&cilium_ct4_global, key, row, flags)
			   : bpf_map_update_elem(&cilium_ct_any4_global, key, row, flags);
	return tcp ? bpf_map_update_elem(&cilium_ct6_global, key, row, flags)
		   : bpf_map_update_elem(&cilium_ct_any6_global, key, row, flags);
}

always_inline long ct_insert(const union ct_key *key, const struct ct_row *row, int family, bool tcp)
{
	return ct_update(key, row, BPF_ANY, family, tcp);
}

/* The map before, while the size of connection tracking changes. */
always_inline void *ct_old(__u32 slot, int family)
{
	return family == FAMILY_IPV4 ? bpf_map_lookup_elem(&volvox_ct4_old, &slot)
				     : bpf_map_lookup_elem(&volvox_ct6_old, &slot);
}

/* Some hooks still run programs that use the map before: what those track is brought over from there when
 * it is looked for. Returns whether there was anything. */
always_inline bool ct_bring_family(const union ct_key *key, __u32 slot, int family)
{
	void *old = ct_old(slot, family);
	struct ct_row *row;

	if (likely(!old))
		return false;
	row = bpf_map_lookup_elem(old, key);
	if (!row)
		return false;
	/* Another CPU may have been quicker. */
	ct_update(key, row, BPF_NOEXIST, family, slot == CT_SLOT_TCP);
	return true;
}

path_subprogram int ct_bring_ipv4(const struct ct4_key *key, __u32 slot)
{
	return ct_bring_family((const union ct_key *)key, slot, FAMILY_IPV4);
}

path_subprogram int ct_bring_ipv6(const struct ct6_key *key, __u32 slot)
{
	return ct_bring_family((const union ct_key *)key, slot, FAMILY_IPV6);
}

always_inline __u32 ct_slot_of(bool tcp)
{
	return tcp ? CT_SLOT_TCP : CT_SLOT_ANY;
}

/* Whether the map is being replaced, so that connections may be in the one before only. */
always_inline bool ct_is_replaced(bool tcp, int family)
{
	return ct_old(ct_slot_of(tcp), family) != NULL;
}

/* The entry of a connection that the current map does not have. */
always_inline struct ct_row *ct_lookup_old(const union ct_key *key, int family, bool tcp)
{
	if (family == FAMILY_IPV4 ? ct_bring_ipv4(&key->v4, ct_slot_of(tcp))
				  : ct_bring_ipv6(&key->v6, ct_slot_of(tcp)))
		return ct_lookup(key, family, tcp);
	return NULL;
}

/* The entry of a connection in either map. */
always_inline struct ct_row *ct_lookup_both(const union ct_key *key, int family, bool tcp)
{
	struct ct_row *row = ct_lookup(key, family, tcp);

	return row ? row : ct_lookup_old(key, family, tcp);
}

/* The entry of the connection between these ends, in either map. Loops have a key of their own: with one for each
 * turn the verifier looks at more states. */
always_inline struct ct_row *ct_between(const struct ct_ends *ends, int family, __u8 tuple, bool reply)
{
	union ct_key key __attribute__((aligned(8)));

	ct_key_make(&key, ends, family, tuple, reply);
	return ct_lookup_both(&key, family, ends->protocol == IPPROTO_TCP);
}

always_inline void ct_remove(const union ct_key *key, int family, bool tcp)
{
	if (family == FAMILY_IPV4 && tcp)
		bpf_map_delete_elem(&cilium_ct4_global, key);
	else if (family == FAMILY_IPV4)
		bpf_map_delete_elem(&cilium_ct_any4_global, key);
	else if (tcp)
		bpf_map_delete_elem(&cilium_ct6_global, key);
	else
		bpf_map_delete_elem(&cilium_ct_any6_global, key);
}

/* Lets hooks that still run programs of the map before know of a connection too. */
always_inline void ct_insert_old(const union ct_key *key, const struct ct_row *row, int family, bool tcp)
{
	__u32 slot = ct_slot_of(tcp);
	void *old;

	if (family == FAMILY_IPV4) {
		old = bpf_map_lookup_elem(&volvox_ct4_old, &slot);
		if (unlikely(old))
			bpf_map_update_elem(old, key, row, BPF_ANY);
		keep_apart();
	} else {
		old = bpf_map_lookup_elem(&volvox_ct6_old, &slot);
		if (unlikely(old))
			bpf_map_update_elem(old, key, row, BPF_ANY);
	}
}

/* Sets flags that another CPU may be setting too: flags share their word with rev_nat_index. */
always_inline void ct_flags_set(struct ct_row *row, __u32 flags)
{
	__sync_fetch_and_or((__u32 *)&row->flags, flags);
}

/* The connection is by the packet's service from now on, or by none. */
always_inline void ct_serve(struct ct_row *row, const struct packet *packet)
{
	row->rev_nat_index = packet->rev_nat;
	if (ENABLE_DSR && packet->own_port)
		row->nat_port = packet->own_port;
	if (packet->node_port)
		ct_flags_set(row, CT_NODE_PORT | packet->entry_flags);
	else
		__sync_fetch_and_and((__u32 *)&row->flags, ~(__u32)CT_NODE_PORT);
}

always_inline bool ct_alive(const struct ct_row *row)
{
	return (row->flags & (CT_RX_CLOSING | CT_TX_CLOSING)) != (CT_RX_CLOSING | CT_TX_CLOSING);
}

/* Notes with which flags a side was heard, and when it was last reported. Returns whether it is to
 * be again. CPUs that carry the same connection at once may each report it: a record too many. */
always_inline bool ct_report(struct ct_row *row, bool egress, __u8 tcp_flags, __u32 now)
{
	__u8 *seen = egress ? &row->tx_flags_seen : &row->rx_flags_seen;
	__u32 *last = egress ? &row->last_tx_report : &row->last_rx_report;
	__u8 unseen = tcp_flags & ~*seen;

	if (unlikely(unseen))
		*seen |= unseen;
	if (likely(*last + REPORT_INTERVAL >= now && !(unseen & REPORT_FLAGS)))
		return false;
	*last = now;
	return true;
}

/* A packet that ends a connection, or one of a connection that ends. It is over when both sides have finished, or
 * one has reset it. Whoever resets says no more: of a side that speaks on it was not the reset, and the connection
 * lives as long as before. What the other side still has on its way proves nothing. */
always_inline void ct_end_here(struct ct_row *row, bool egress, __u8 tcp_flags, __u32 lifetime, __u32 now)
{
	__u16 closing = egress ? CT_TX_CLOSING : CT_RX_CLOSING;
	__u8 ends = tcp_flags & (TCP_FIN | TCP_RST), *seen = egress ? &row->tx_flags_seen : &row->rx_flags_seen;

	if (ends) {
		*seen |= ends;
		ct_flags_set(row, closing);
	} else if (*seen & TCP_RST) {
		*seen &= ~TCP_RST;
		if (!(*seen & TCP_FIN))
			__sync_fetch_and_and((__u32 *)&row->flags, ~(__u32)closing);
	}
	if (ct_alive(row) && !((row->tx_flags_seen | row->rx_flags_seen) & TCP_RST))
		row->lifetime = now + lifetime;
	else if (ends)
		row->lifetime = now + CT_LIFETIME_CLOSING;
}

subprogram int ct_end(struct ct_row *row, bool egress, __u8 tcp_flags, __u32 lifetime, __u32 now)
{
	if (row)
		ct_end_here(row, egress, tcp_flags, lifetime, now);
	return 0;
}

/* Whether a packet needs that function. */
always_inline bool ct_is_ending(const struct ct_row *row, __u8 tcp_flags)
{
	return row->flags & (CT_RX_CLOSING | CT_TX_CLOSING) || tcp_flags & (TCP_FIN | TCP_RST);
}

/* Keeps an entry alive. In the long run it is written once a second; a packet that changes nothing
 * only reads it, so that CPUs do not fight over its cache line. Returns as ct_report() does. */
always_inline bool ct_touch(struct ct_row *row, const struct packet *packet, bool egress, bool tcp)
{
	__u32 now = clock_seconds(), lifetime = CT_LIFETIME_OTHER;
	__u8 tcp_flags = packet->tcp_flags;
	bool due;

	if (tcp) {
		if (!(tcp_flags & TCP_SYN) && !(row->flags & CT_SEEN_NON_SYN))
			ct_flags_set(row, CT_SEEN_NON_SYN);
		lifetime = row->flags & CT_SEEN_NON_SYN ? CT_LIFETIME_TCP : CT_LIFETIME_SYN;
	}
	due = ct_report(row, egress, tcp_flags, now);
	if (unlikely(ct_is_ending(row, tcp_flags)))
		ct_end(row, egress, tcp_flags, lifetime, now);
	else if (row->lifetime != now + lifetime)
		row->lifetime = now + lifetime;
	return due;
}

/* The entry, unless it is that of a former connection which this SYN begins anew. */
always_inline struct ct_row *ct_unless_former(struct ct_row *row, const struct packet *packet)
{
	if (row && unlikely(packet->tcp_flags & TCP_SYN) &&
	    row->flags & (CT_RX_CLOSING | CT_TX_CLOSING))
		return NULL;
	return row;
}

/* The same, unless the entry only keeps a port of the node's own. The answer to an attempt is no opener's. */
always_inline struct ct_row *ct_that_permits(struct ct_row *row, const struct packet *packet)
{
	if (ENABLE_HOST_FIREWALL && row && row->flags & CT_ANSWERS)
		return NULL;
	if (row && unlikely(packet->tcp_flags & TCP_SYN) && packet->tcp_flags & TCP_ACK)
		return NULL;
	return ct_unless_former(row, packet);
}

/* The entry, if it permits a packet as an answer. Only an attempt is answered by one of those. */
always_inline struct ct_row *ct_that_is_answered(struct ct_row *row, const struct packet *packet, bool egress)
{
	if (ENABLE_HOST_FIREWALL && row && row->flags & CT_ANSWERS)
		return NULL;
	if (row && unlikely(packet->tcp_flags & TCP_SYN) &&
	    !((egress ? row->rx_flags_seen : row->tx_flags_seen) & TCP_SYN))
		return NULL;
	return row;
}

always_inline struct ct_row *ct_find(const union ct_key *key, const struct packet *packet, int family,
				     bool tcp)
{
	return ct_that_permits(ct_lookup(key, family, tcp), packet);
}

always_inline struct ct_row *ct_find_old(const union ct_key *key, const struct packet *packet, int family,
					 bool tcp)
{
	return ct_that_permits(ct_lookup_old(key, family, tcp), packet);
}

/* The same in either map, of the packet's own ends. */
always_inline struct ct_row *ct_find_both(const struct packet *packet, int family, __u8 tuple)
{
	const struct ct_ends ends = ct_ends_of(packet);
	bool tcp = packet->protocol == IPPROTO_TCP;
	union ct_key key __attribute__((aligned(8)));
	struct ct_row *row;

	ct_key_make(&key, &ends, family, tuple, false);
	row = ct_find(&key, packet, family, tcp);
	return likely(row) ? row : ct_find_old(&key, packet, family, tcp);
}

/* Records a connection that this packet opens. */
subprogram int ct_create(const struct flow *flow, const struct packet *packet)
{
	union ct_key key __attribute__((aligned(8)));
	struct ct_row row = {};
	__u32 now = clock_seconds();
	struct ct_ends ends;
	bool tcp, egress;

	if (!flow || !packet)
		return CT_DROP(DROP_CT_CREATE_FAILED);
	tcp = packet->protocol == IPPROTO_TCP;
	egress = flow->direction == EGRESS;
	row.lifetime = now + (tcp ? CT_LIFETIME_SYN : CT_LIFETIME_OTHER);
	row.src_sec_id = flow->src_identity;
	row.rev_nat_index = packet->rev_nat;
	row.flags = (packet->node_port ? CT_NODE_PORT : 0) | packet->entry_flags;
	row.nat_port = packet->own_port;
	ct_report(&row, egress, packet->tcp_flags, now);
	/* Not before: what is read early lies on the stack until then. */
	ends = ct_ends_of(packet);
	if (flow->family == FAMILY_IPV4)
		ct_key_make(&key, &ends, FAMILY_IPV4, egress ? TUPLE_OUT : TUPLE_IN, false);
	else
		ct_key_make(&key, &ends, FAMILY_IPV6, egress ? TUPLE_OUT : TUPLE_IN, false);
	ct_insert_old(&key, &row, flow->family, tcp);
	return ct_insert(&key, &row, flow->family, tcp) ? CT_DROP(DROP_CT_CREATE_FAILED) : CT_NEW;
}

/* Removes the entry of the other direction, which only an answer can have made whose opener's was evicted. */
subprogram int ct_forget_opposite(const struct flow *flow, const struct packet *packet)
{
	union ct_key key __attribute__((aligned(8)));
	struct ct_ends ends;
	bool tcp, egress;

	if (!flow || !packet)
		return 0;
	tcp = packet->protocol == IPPROTO_TCP;
	egress = flow->direction == EGRESS;
	ends = ct_ends_of(packet);
	if (flow->family == FAMILY_IPV4)
		ct_key_make(&key, &ends, FAMILY_IPV4, egress ? TUPLE_IN : TUPLE_OUT, true);
	else
		ct_key_make(&key, &ends, FAMILY_IPV6, egress ? TUPLE_IN : TUPLE_OUT, true);
	ct_remove(&key, flow->family, tcp);
	return 0;
}
