/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What comes back from a service: the client hears the address that it asked. */
#pragma once

#include "backend.h"
#include "inner.h"

#define REVERSE_DROP(reason) DROP_FROM(FILE_LB_REVERSE_H, reason)

enum lb_result {
	/* The packet is not for a service. */
	LB_NONE = 0,
	/* It now goes to a backend. */
	LB_TRANSLATED = 1,
	/* It now goes to the endpoint that sent it. */
	LB_LOOPBACK = 2,
};

/* Where a connection's entry says which backend it has. */
always_inline __u32 *ct_backend(struct ct_row *row)
{
	return (__u32 *)(row->nat_addr + 8);
}

/* Has a packet go to a backend. */
always_inline int lb_send(struct __sk_buff *skb, struct packet *packet, const struct backend *backend, int family)
{
	struct nat to = {};

	to.address = backend->address;
	to.port = backend->port;
	return nat(skb, packet, &to, family);
}

/* The address and port of a service. */
always_inline bool reverse_find(__be16 rev_nat, struct nat *nat, int family)
{
	if (family == FAMILY_IPV4) {
		struct reverse_nat4_row *row = row_find(&cilium_lb4_reverse_nat, &rev_nat);

		if (!row)
			return false;
		nat->address.v4 = row->address;
		nat->port = row->port;
	} else {
		struct reverse_nat6_row *row = row_find(&cilium_lb6_reverse_nat, &rev_nat);

		if (!row)
			return false;
		__builtin_memcpy(&nat->address, row->address, 16);
		nat->port = row->port;
	}
	return true;
}

/* A backend ends a client's connection: its entry of the service hears it, too. The service tells what the client
 * has sent to. */
always_inline int lb_end_family(const struct packet *answer, __be16 client_port, int family)
{
	struct nat service = {};
	struct ct_ends ends;
	struct ct_row *row;

	if (!reverse_find(answer->rev_nat, &service, family))
		return 0;
	ends = (struct ct_ends){
		.saddr = &answer->daddr,
		.daddr = &service.address,
		.sport = client_port,
		.dport = service.port,
		.protocol = answer->protocol,
	};
	row = ct_between(&ends, family, TUPLE_SERVICE, false);
	/* Not by the function: one more on the way is more stack than kernels before 6.12 have. */
	if (row)
		ct_end_here(row, false, answer->tcp_flags, CT_LIFETIME_TCP, clock_seconds());
	return 0;
}

subprogram int lb_end(const struct packet *answer, __be16 client_port, int family)
{
	if (!answer)
		return 0;
	return family == FAMILY_IPV4 ? lb_end_family(answer, client_port, FAMILY_IPV4)
				     : lb_end_family(answer, client_port, FAMILY_IPV6);
}

/* The entry of the connection from outside that a packet, or the packet inside an error, answers. */
always_inline struct ct_row *reverse_entry(const struct packet *packet, const struct packet *inner, int family)
{
	const struct ct_ends ends = ct_ends_of(packet->icmp_error ? inner : packet);

	return ct_between(&ends, family, TUPLE_IN, !packet->icmp_error);
}

/* What the client of a backend behind this node has asked another node. */
always_inline bool reverse_remote(const struct ct_row *row, struct nat *nat)
{
	if (!row || !(row->flags & CT_DSR))
		return false;
	__builtin_memcpy(&nat->address, row->nat_addr, 16);
	nat->port = row->nat_port;
	return true;
}

/* Gives a client his own port back, as whom an answer, or an error about what he sent, is to reach him. */
always_inline int reverse_port(struct __sk_buff *skb, struct packet *packet, const struct packet *inner, __be16 port,
			       int family)
{
	struct nat client = {.port = port};

	if (likely(!packet->icmp_error)) {
		client.address = packet->daddr;
		return nat(skb, packet, &client, family);
	}
	client.address = inner->saddr;
	client.source = true;
	return nat_inner(skb, packet, &client, family);
}

/* A reply of a backend, or an error about what was sent to it. What the error is about has been sent
 * to the service, as the client knows; it may also come from a router on the way. Of a service that
 * went nothing is known any more, and the client knows no other address. */
always_inline int lb_reverse_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	struct ct_row *row = NULL;
	struct packet inner = {};
	struct nat nat_to = {};
	int code = 0;

	if (unlikely(packet->icmp_error) && inner_read(skb, packet, &inner, family))
		return REVERSE_DROP(DROP_INVALID_PACKET);
	if (ENABLE_DSR && packet->node_port)
		row = reverse_entry(packet, &inner, family);
	if (packet->rev_nat ? !reverse_find(packet->rev_nat, &nat_to, family) : !reverse_remote(row, &nat_to))
		return REVERSE_DROP(DROP_NO_SERVICE);
	if (row && packet->rev_nat && row->flags & CT_MOVED)
		code = reverse_port(skb, packet, &inner, row->nat_port, family);
	if (code < 0)
		return code;
	if (unlikely(packet->icmp_error)) {
		code = nat_inner(skb, packet, &nat_to, family);
		if (code < 0 || !address_equal(&inner.daddr, &packet->saddr, family))
			return code;
	}
	nat_to.source = true;
	return nat(skb, packet, &nat_to, family);
}

subprogram int lb_reverse_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return REVERSE_DROP(DROP_INVALID_PACKET);
	return lb_reverse_family(skb, packet, FAMILY_IPV4);
}

subprogram int lb_reverse_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return REVERSE_DROP(DROP_INVALID_PACKET);
	return lb_reverse_family(skb, packet, FAMILY_IPV6);
}

always_inline int lb_reverse(struct __sk_buff *skb, struct packet *packet, int family)
{
	return family == FAMILY_IPV4 ? lb_reverse_ipv4(skb, packet) : lb_reverse_ipv6(skb, packet);
}

/* Translates what comes to an endpoint back, after admit(). What comes by a service from outside is on
 * its way there. */
always_inline int lb_to_endpoint(struct __sk_buff *skb, struct packet *packet, int family)
{
	if (likely(!packet->rev_nat || packet->node_port))
		return 0;
	return lb_reverse(skb, packet, family);
}

/* An endpoint complains about a reply of a service: its backend is told. */
always_inline int lb_error_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	struct backend backend;
	struct packet inner = {};
	struct nat nat_to = {};
	struct ct_ends ends;
	struct ct_row *row;
	int code;

	if (inner_read(skb, packet, &inner, family) ||
	    !address_equal(&inner.saddr, &packet->daddr, family) || !has_ports(inner.protocol))
		return LB_NONE;
	ends = ct_ends_of(&inner);
	row = ct_between(&ends, family, TUPLE_SERVICE, true);
	/* Its own answers to itself need no complaints. */
	if (!row || !backend_read(&backend, row->rev_nat_index, *ct_backend(row), family) ||
	    address_equal(&backend.address, &packet->saddr, family))
		return LB_NONE;
	nat_to.address = backend.address;
	nat_to.port = backend.port;
	code = nat(skb, packet, &nat_to, family);
	nat_to.source = true;
	if (code >= 0)
		code = nat_inner(skb, packet, &nat_to, family);
	/* The backend knows its client by another port. */
	if (ENABLE_DSR && code >= 0 && row->nat_port) {
		nat_to.address = inner.daddr;
		nat_to.port = row->nat_port;
		nat_to.source = false;
		code = nat_inner(skb, packet, &nat_to, family);
	}
	return code < 0 ? code : LB_TRANSLATED;
}

subprogram int lb_error_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return REVERSE_DROP(DROP_INVALID_PACKET);
	return lb_error_family(skb, packet, FAMILY_IPV4);
}

subprogram int lb_error_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return REVERSE_DROP(DROP_INVALID_PACKET);
	return lb_error_family(skb, packet, FAMILY_IPV6);
}

/* What an endpoint sends to the loopback address: it answers itself, or complains about what it sent
 * itself. Both ends are what they were before. */
always_inline int lb_answer_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	struct nat service = {}, self = {.address = packet->saddr};
	struct packet inner = {};
	struct ct_ends ends = ct_ends_of(packet);
	bool error = packet->icmp_error;
	struct ct_row *row;
	int code = 0;

	if (packet->headless || (!error && !packet_may_answer(packet)))
		return LB_NONE;
	if (error) {
		if (inner_read(skb, packet, &inner, family))
			return LB_NONE;
		ends = ct_ends_of(&inner);
	}
	row = ct_between(&ends, family, TUPLE_IN, !error);
	if (!row || !(row->flags & CT_LOOPBACK) || !reverse_find(row->rev_nat_index, &service, family))
		return LB_NONE;
	if (!error)
		ct_touch(row, packet, true, ends.protocol == IPPROTO_TCP);
	self.port = error ? ends.sport : packet->dport;
	if (error) {
		code = nat_inner(skb, packet, &service, family);
		self.source = true;
		if (code >= 0)
			code = nat_inner(skb, packet, &self, family);
		self.source = false;
	}
	service.source = true;
	if (code >= 0)
		code = nat(skb, packet, &service, family);
	if (code >= 0)
		code = nat(skb, packet, &self, family);
	packet->rev_nat = row->rev_nat_index;
	return code < 0 ? code : LB_LOOPBACK;
}

subprogram int lb_answer_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return REVERSE_DROP(DROP_INVALID_PACKET);
	return lb_answer_family(skb, packet, FAMILY_IPV4);
}

subprogram int lb_answer_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return REVERSE_DROP(DROP_INVALID_PACKET);
	return lb_answer_family(skb, packet, FAMILY_IPV6);
}
