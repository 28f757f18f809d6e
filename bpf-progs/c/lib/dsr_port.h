/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Direct server return, at the node of the backend: one port of a client, two connections.
 *
 * A client may use a port towards two nodes at once. To him these are two connections; to the backend, which
 * hears him by his own address and port, they would be one. So the entry of these ends is of what was asked
 * first, until it is over. What then asks this node itself gets another port of the client's here: each of its
 * packets tells by its destination which connection it is of. What asks another node tells so in its first
 * packet only, which therefore goes back to that node; the node stands in for the client then. */
#pragma once

#include "backend.h"
#include "lb_reverse.h"
#include "node_port.h"

#define DSR_PORT_DROP(reason) DROP_FROM(FILE_DSR_PORT_H, reason)

/* Ports that stand for others of a client: those that systems seldom give who asks for none. */
#define DSR_PORT_MIN 1024
#define DSR_PORTS (32768 - DSR_PORT_MIN)
#define DSR_PORT_ATTEMPTS 8

/* Whether an entry's connection may not go on any more. One that is closed waits: its last packets may come
 * again, and the backend's stack remembers it. */
always_inline bool dsr_is_over(const struct ct_row *row)
{
	return row->lifetime < clock_seconds() || (row->rx_flags_seen | row->tx_flags_seen) & TCP_RST;
}

/* Whether what a connection's client asked is still served, so that he may hear answers. */
always_inline bool dsr_is_served(const struct ct_row *row, int family)
{
	struct nat service;

	return !row->rev_nat_index || reverse_find(row->rev_nat_index, &service, family);
}

/* Has the next connection of the same ends find nothing of the one before. */
always_inline void dsr_forget(struct ct_row *row)
{
	row->rev_nat_index = 0;
	__sync_fetch_and_and((__u32 *)&row->flags, ~(__u32)(CT_DSR | CT_NODE_PORT | CT_MOVED));
}

/* Whether an entry is of a connection that asked this, by whichever node. */
always_inline bool dsr_is_of(const struct ct_row *row, const struct nat *asked, int family)
{
	struct nat service = {};

	if (!row->rev_nat_index)
		return row->flags & CT_DSR && row->nat_port == asked->port &&
		       address_equal((const union address *)row->nat_addr, &asked->address, family);
	return !(row->flags & CT_MOVED) && reverse_find(row->rev_nat_index, &service, family) &&
	       service.port == asked->port && address_equal(&service.address, &asked->address, family);
}

/* The entry of the service that a packet was sent to, which now goes to a backend. */
always_inline struct ct_row *dsr_service_entry(const struct packet *packet, const struct nat *asked, int family)
{
	struct ct_ends ends = ct_ends_of(packet);
	union ct_key key __attribute__((aligned(8)));

	ends.daddr = &asked->address;
	ends.dport = asked->port;
	ct_key_make(&key, &ends, family, TUPLE_SERVICE, false);
	return ct_lookup_both(&key, family, packet->protocol == IPPROTO_TCP);
}

/* Whether an entry is of this client's port by another one, and by this service or one that went. */
always_inline bool dsr_is_moved(const struct ct_row *row, const struct packet *packet, int family)
{
	return row->flags & CT_MOVED && row->nat_port == packet->sport &&
	       (row->rev_nat_index == packet->rev_nat || !dsr_is_served(row, family));
}

/* Whether the backend has not heard the client by a port, or heard it by this one instead of his own; `is_known`
 * asks for nothing else. By itself it leaves nothing in the loop around it: before Linux 6.8, the verifier refuses
 * loops that clang enters in the middle. */
subprogram int dsr_port_serves(const struct packet *packet, __be16 port, bool is_known, int family)
{
	union ct_key key __attribute__((aligned(8)));
	struct ct_ends ends;
	struct ct_row *row;

	if (!packet)
		return false;
	ends = ct_ends_of(packet);
	ends.sport = port;
	if (family == FAMILY_IPV4) {
		ct_key_make(&key, &ends, FAMILY_IPV4, TUPLE_IN, false);
		row = ct_lookup_both(&key, FAMILY_IPV4, packet->protocol == IPPROTO_TCP);
	} else {
		ct_key_make(&key, &ends, FAMILY_IPV6, TUPLE_IN, false);
		row = ct_lookup_both(&key, FAMILY_IPV6, packet->protocol == IPPROTO_TCP);
	}
	if (row && (family == FAMILY_IPV4 ? dsr_is_moved(row, packet, FAMILY_IPV4)
					  : dsr_is_moved(row, packet, FAMILY_IPV6)))
		return true;
	if (is_known)
		return false;
	if (!row)
		return port != packet->sport;
	if (!dsr_is_over(row))
		return false;
	dsr_forget(row);
	return true;
}

/* A port that the backend has not heard the client by; 0 if none is found. It follows from the ends, so that a
 * connection whose service entry was evicted finds its own again; `is_known` asks for nothing else. */
always_inline __be16 dsr_port_find(const struct packet *packet, bool is_known, int family)
{
	__u32 attempts = is_known ? 1 : DSR_PORT_ATTEMPTS, mixed = connection_hash(packet);

	for (__u32 attempt = 0; attempt < attempts; attempt++) {
		__be16 port = bpf_htons(DSR_PORT_MIN + mixed % DSR_PORTS);

		if (dsr_port_serves(packet, port, is_known, family))
			return port;
		mixed = mixed * 1664525 + 1013904223;
	}
	return 0;
}

/* The port that a packet's connection has at the backend, or a drop. */
always_inline int dsr_port_family(const struct packet *packet, int family)
{
	struct ct_ends ends = ct_ends_of(packet);
	union ct_key key __attribute__((aligned(8)));
	struct ct_row *row, *service, *moved;
	struct nat asked = {};
	bool is_free;
	__be16 port;

	ct_key_make(&key, &ends, family, TUPLE_IN, false);
	row = ct_lookup_both(&key, family, packet->protocol == IPPROTO_TCP);
	if (likely(row && row->rev_nat_index == packet->rev_nat && !(row->flags & CT_MOVED)))
		return packet->sport;
	service = reverse_find(packet->rev_nat, &asked, family) ? dsr_service_entry(packet, &asked, family) : NULL;
	if (!service)
		return packet->sport;
	if (service->nat_port) {
		ends.sport = service->nat_port;
		ct_key_make(&key, &ends, family, TUPLE_IN, false);
		moved = ct_lookup_both(&key, family, packet->protocol == IPPROTO_TCP);
		/* The client may have come to use that port himself. */
		if (likely(!moved || (moved->flags & CT_MOVED && moved->nat_port == packet->sport)))
			return service->nat_port;
	}
	if (row && dsr_is_of(row, &asked, family))
		return packet->sport;
	is_free = !row || dsr_is_over(row) || !dsr_is_served(row, family);
	port = is_free && packet->tcp_flags & TCP_SYN ? 0 : dsr_port_find(packet, is_free, family);
	service->nat_port = port;
	if (port)
		return port;
	if (!is_free)
		return DSR_PORT_DROP(DROP_NAT_NO_MAPPING);
	if (row)
		dsr_forget(row);
	return packet->sport;
}

subprogram int dsr_port_ipv4(const struct packet *packet)
{
	return packet ? dsr_port_family(packet, FAMILY_IPV4) : DSR_PORT_DROP(DROP_INVALID_PACKET);
}

subprogram int dsr_port_ipv6(const struct packet *packet)
{
	return packet ? dsr_port_family(packet, FAMILY_IPV6) : DSR_PORT_DROP(DROP_INVALID_PACKET);
}

/* Gives a packet another source port, which the entry that it makes will tell. Returns 0, or a drop. */
subprogram int dsr_come_from(struct __sk_buff *skb, struct packet *packet, __be16 port, int family)
{
	struct nat from = {.port = port, .source = true};

	if (!packet)
		return DSR_PORT_DROP(DROP_INVALID_PACKET);
	from.address = packet->saddr;
	packet->own_port = packet->sport;
	packet->entry_flags = CT_MOVED;
	return nat(skb, packet, &from, family);
}

/* Gives what a client sends to a backend of this node by a service of this node another source port, if he uses
 * his own otherwise. Returns 0, or a drop. No port of SCTP can change, and errors have been translated. */
always_inline int dsr_move(struct __sk_buff *skb, struct packet *packet, int family)
{
	int port;

	if (!ENABLE_DSR || packet->icmp_error || packet->protocol == IPPROTO_SCTP)
		return 0;
	port = family == FAMILY_IPV4 ? dsr_port_ipv4(packet) : dsr_port_ipv6(packet);
	if (likely(port < 0 || port == packet->sport))
		return port < 0 ? port : 0;
	return dsr_come_from(skb, packet, port, family);
}
