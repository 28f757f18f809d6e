/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The short way of connections by a service. Whether the service is still there, and that the opener's
 * entry lives, is looked after with one packet of each second that passes; the others of that second
 * only ask for their backend, and policy. */
#pragma once

#include "lb_reverse.h"

/* Where services were found, by a hash of the address. Others may have the same, which costs them a
 * lookup. */
__u8 SERVED[4096];

always_inline __u8 *lb_served(const union address *address)
{
	__u32 mixed = address->words[0] ^ address->words[1] ^ address->words[2] ^ address->words[3];

	return &SERVED[(mixed * 0x9e3779b1u >> 16) & (sizeof(SERVED) - 1)];
}

/* Where an entry of a service notes the second in which a packet of the opener passed. */
always_inline bool lb_is_noted(const struct ct_row *row)
{
	return *(volatile __u32 *)&row->last_tx_report == clock_seconds();
}

always_inline int lb_again_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	bool tcp = packet->protocol == IPPROTO_TCP;
	const struct ct_ends ends = ct_ends_of(packet);
	union ct_key key __attribute__((aligned(8)));
	struct backend backend;
	struct ct_row *row;
	int code;

	ct_key_make(&key, &ends, family, TUPLE_SERVICE, false);
	row = ct_lookup(&key, family, tcp);
	if (!row || !lb_is_noted(row) || !backend_read(&backend, row->rev_nat_index, *ct_backend(row), family) ||
	    !backend_keeps(&backend, packet->protocol))
		return LB_NONE;
	packet->rev_nat = row->rev_nat_index;
	packet->again = packet->forth = true;
	code = lb_send(skb, packet, &backend, family);
	return code < 0 ? code : LB_TRANSLATED;
}

subprogram int lb_again_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return REVERSE_DROP(DROP_INVALID_PACKET);
	return lb_again_family(skb, packet, FAMILY_IPV4);
}

subprogram int lb_again_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return REVERSE_DROP(DROP_INVALID_PACKET);
	return lb_again_family(skb, packet, FAMILY_IPV6);
}

/* Sends a packet to its backend in the short way, if it may. Returns an enum lb_result, or a drop. */
always_inline int lb_again(struct __sk_buff *skb, struct packet *packet, int family)
{
	if (likely(!*lb_served(&packet->daddr)) || !has_ports(packet->protocol) || packet->headless ||
	    packet->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST))
		return LB_NONE;
	return family == FAMILY_IPV4 ? lb_again_ipv4(skb, packet) : lb_again_ipv6(skb, packet);
}

/* Notes in which second a packet of a client passed by this service; 0 lets the next go the long way.
 * The service tells what it was sent to. */
always_inline int lb_note_family(const struct packet *packet, __be16 rev_nat, __u32 second, int family)
{
	struct ct_ends ends = ct_ends_of(packet);
	union ct_key key __attribute__((aligned(8)));
	struct nat service = {};
	struct ct_row *row;

	if (!reverse_find(rev_nat, &service, family))
		return 0;
	ends.daddr = &service.address;
	ends.dport = service.port;
	ct_key_make(&key, &ends, family, TUPLE_SERVICE, false);
	row = ct_lookup(&key, family, packet->protocol == IPPROTO_TCP);
	if (row) {
		row->last_tx_report = second;
		*lb_served(&service.address) = 1;
	}
	return 0;
}

subprogram int lb_note(const struct packet *packet, __be16 rev_nat, __u32 second, int family)
{
	if (!packet)
		return 0;
	if (family == FAMILY_IPV4)
		return lb_note_family(packet, rev_nat, second, FAMILY_IPV4);
	return lb_note_family(packet, rev_nat, second, FAMILY_IPV6);
}
