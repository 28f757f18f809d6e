/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* ICMP errors about flows for which an address of the node stands. */
#pragma once

#include "inner.h"
#include "snat.h"

/* Reads what became of an end of the packet inside an error: its row is that of the packets that come back. */
always_inline bool snat_find_inner(const struct packet *inner, struct nat *to, __u8 tuple, int family)
{
	union snat_key key __attribute__((aligned(8)));
	const union snat_row *row;

	snat_key(&key, destination_of(inner), source_of(inner), inner->protocol, tuple, family);
	row = snat_lookup(&key, family);
	if (!row)
		return false;
	snat_read(row, to, family);
	return true;
}

/* Somebody here complains about an answer: out there it was sent to the address that stood for him. */
always_inline int snat_error_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	struct packet inner = {};
	struct nat to = {};
	int code;

	if (inner_read(skb, packet, &inner, family) || !snat_find_inner(&inner, &to, TUPLE_OUT, family))
		return SNAT_NONE;
	code = nat_inner(skb, packet, &to, family);
	/* A router on the way, the node itself, keeps its own address. */
	if (code < 0 || !address_equal(&inner.daddr, &packet->saddr, family))
		return code < 0 ? code : SNAT_DONE;
	to.source = true;
	code = nat(skb, packet, &to, family);
	return code < 0 ? code : SNAT_DONE;
}

/* Somebody out there complains about what the address sent: the one for whom it stood is told. */
always_inline int snat_error_back_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	struct packet inner = {};
	struct nat to = {};
	int code;

	if (inner_read(skb, packet, &inner, family) || !address_equal(&inner.saddr, &packet->daddr, family) ||
	    !snat_find_inner(&inner, &to, TUPLE_IN, family))
		return SNAT_NONE;
	to.source = true;
	code = nat_inner(skb, packet, &to, family);
	to.source = false;
	if (code >= 0)
		code = nat(skb, packet, &to, family);
	return code < 0 ? code : SNAT_DONE;
}

subprogram int snat_error_ipv4(struct __sk_buff *skb, struct packet *packet, bool back)
{
	if (!packet)
		return SNAT_DROP(DROP_INVALID_PACKET);
	return back ? snat_error_back_family(skb, packet, FAMILY_IPV4)
		    : snat_error_family(skb, packet, FAMILY_IPV4);
}

subprogram int snat_error_ipv6(struct __sk_buff *skb, struct packet *packet, bool back)
{
	if (!packet)
		return SNAT_DROP(DROP_INVALID_PACKET);
	return back ? snat_error_back_family(skb, packet, FAMILY_IPV6)
		    : snat_error_family(skb, packet, FAMILY_IPV6);
}

/* Translates an error on its way out, or back. Returns an enum snat_result, or a drop. */
always_inline int snat_error(struct __sk_buff *skb, struct packet *packet, int family, bool back)
{
	return family == FAMILY_IPV4 ? snat_error_ipv4(skb, packet, back) : snat_error_ipv6(skb, packet, back);
}

/* Sends an answer, or an error, to whom the node's address stood for. Returns an enum snat_result, or
 * a drop. */
always_inline int snat_back(struct __sk_buff *skb, struct packet *packet, int family)
{
	if (packet->headless || !snat_is_on(family))
		return SNAT_NONE;
	if (packet->icmp_error)
		return snat_error(skb, packet, family, true);
	if (!snat_in_range(packet->dport))
		return SNAT_NONE;
	return family == FAMILY_IPV4 ? snat_back_ipv4(skb, packet) : snat_back_ipv6(skb, packet);
}
