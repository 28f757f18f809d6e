/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Load balancing: what an endpoint sends to a service goes to one of its backends. */
#pragma once

#include "lb_again.h"
#include "loopback.h"

#define LB_DROP(reason) DROP_FROM(FILE_LB_H, reason)

/* Keeps an entry of a service alive. It hears the client only; of the backend lb_end() tells it, if its answers
 * come by here. When the client has finished it need not be kept for long: it chose by the connection's ends. */
always_inline void ct_touch_service(struct ct_row *row, const struct packet *packet, bool tcp)
{
	__u32 now = clock_seconds(), lifetime = CT_LIFETIME_OTHER;
	bool is_ending = ct_is_ending(row, packet->tcp_flags);

	if (tcp) {
		if (!(packet->tcp_flags & TCP_SYN) && !(row->flags & CT_SEEN_NON_SYN))
			ct_flags_set(row, CT_SEEN_NON_SYN);
		if (row->flags & CT_SEEN_NON_SYN && !(row->flags & CT_TX_CLOSING || packet->tcp_flags & TCP_FIN))
			lifetime = CT_LIFETIME_TCP;
	}
	if (unlikely(is_ending))
		ct_end(row, true, packet->tcp_flags, lifetime, now);
	else if (row->lifetime != now + lifetime)
		row->lifetime = now + lifetime;
}

/* Records which backend a connection has, or without one, in its other direction, that an endpoint speaks
 * with itself. */
always_inline int lb_record_family(const struct packet *packet, __u32 backend, int family)
{
	bool tcp = packet->protocol == IPPROTO_TCP;
	const struct ct_ends ends = ct_ends_of(packet);
	union ct_key key __attribute__((aligned(8)));
	struct ct_row row = {
		.lifetime = clock_seconds() + (tcp ? CT_LIFETIME_SYN : CT_LIFETIME_OTHER),
		.rev_nat_index = packet->rev_nat,
		.flags = backend ? 0 : CT_LOOPBACK,
	};

	if (tcp && !(packet->tcp_flags & TCP_SYN)) {
		row.flags |= CT_SEEN_NON_SYN;
		row.lifetime += CT_LIFETIME_TCP - CT_LIFETIME_SYN;
	}
	*ct_backend(&row) = backend;
	ct_key_make(&key, &ends, family, backend ? TUPLE_SERVICE : TUPLE_IN, false);
	ct_insert_old(&key, &row, family, tcp);
	return ct_insert(&key, &row, family, tcp) ? LB_DROP(DROP_CT_CREATE_FAILED) : 0;
}

subprogram int lb_record(const struct packet *packet, __u32 backend, int family)
{
	if (!packet)
		return LB_DROP(DROP_INVALID_PACKET);
	if (family == FAMILY_IPV4)
		return lb_record_family(packet, backend, FAMILY_IPV4);
	return lb_record_family(packet, backend, FAMILY_IPV6);
}

/* Chooses a backend for a connection, its first or another one. */
always_inline int lb_choose_family(const struct packet *packet, const union lb_key *key, struct lb_row *service,
				   struct backend *backend, int family)
{
	/* Before Linux 6.2, what an argument points to is no key of a map: only what is on the stack. */
	union lb_key own __attribute__((aligned(8)));
	struct client client = {};

	if (!packet || !key || !service || !backend)
		return LB_DROP(DROP_INVALID_PACKET);
	if (family == FAMILY_IPV4)
		own.v4 = key->v4;
	else
		own.v6 = key->v6;
	client.id = packet->saddr;
	return backend_choose(&own, service, &client, connection_hash(packet), backend, family);
}

subprogram int lb_choose_ipv4(const struct packet *packet, const union lb_key *key, struct lb_row *service,
			      struct backend *backend)
{
	return lb_choose_family(packet, key, service, backend, FAMILY_IPV4);
}

subprogram int lb_choose_ipv6(const struct packet *packet, const union lb_key *key, struct lb_row *service,
			      struct backend *backend)
{
	return lb_choose_family(packet, key, service, backend, FAMILY_IPV6);
}

/* Notes that a client keeps using its backend. */
subprogram int lb_keep(const struct packet *packet, const struct lb_row *service, __u32 backend, int family)
{
	struct client client = {};

	if (!packet || !service)
		return 0;
	client.id = packet->saddr;
	if (family == FAMILY_IPV4)
		affinity_note(service, &client, backend, FAMILY_IPV4);
	else
		affinity_note(service, &client, backend, FAMILY_IPV6);
	return 0;
}

/* Finds the backend of the packet's connection. One that the connection has, and that the service at this
 * address lists, serves it on, except that an attempt goes elsewhere if it takes no new ones. */
always_inline int lb_backend(const struct packet *packet, const union lb_key *key, struct lb_row *service,
			     struct backend *backend, int family)
{
	bool tcp = packet->protocol == IPPROTO_TCP;
	struct ct_row *row = ct_find_both(packet, family, TUPLE_SERVICE);
	int code;

	if (likely(row && backend_read(backend, service->rev_nat, *ct_backend(row), family) &&
		   (packet->tcp_flags & TCP_SYN ? backend_takes(backend, service)
						: backend_keeps(backend, packet->protocol)))) {
		if (unlikely(row->rev_nat_index != service->rev_nat))
			row->rev_nat_index = service->rev_nat;
		ct_touch_service(row, packet, tcp);
		if (unlikely(service->flags & LB_AFFINITY))
			lb_keep(packet, service, backend->id, family);
		return 0;
	}
	code = family == FAMILY_IPV4 ? lb_choose_ipv4(packet, key, service, backend)
				     : lb_choose_ipv6(packet, key, service, backend);
	if (code < 0)
		return code;
	if (!packet_opens(packet) && !packet_resumes(packet))
		return 0;
	return lb_record(packet, backend->id, family);
}

/* An endpoint that is its own backend: it sees the loopback address, and this entry, found by what
 * it answers, leads back to the service. */
always_inline int lb_loopback_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	bool tcp = packet->protocol == IPPROTO_TCP;
	struct nat from = {.port = packet->sport, .source = true};
	union ct_key key __attribute__((aligned(8)));
	struct ct_ends ends;
	struct ct_row *row;
	int code;

	loopback_address(&from.address, family);
	code = nat(skb, packet, &from, family);
	if (code < 0)
		return code;
	ends = ct_ends_of(packet);
	ct_key_make(&key, &ends, family, TUPLE_IN, false);
	row = ct_find(&key, packet, family, tcp);
	if (row && row->rev_nat_index == packet->rev_nat) {
		ct_touch(row, packet, false, tcp);
		return LB_LOOPBACK;
	}
	if (!packet_opens(packet) && !packet_resumes(packet))
		return LB_LOOPBACK;
	code = lb_record(packet, 0, family);
	return code < 0 ? code : LB_LOOPBACK;
}

subprogram int lb_loopback_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return LB_DROP(DROP_INVALID_PACKET);
	return lb_loopback_family(skb, packet, FAMILY_IPV4);
}

subprogram int lb_loopback_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return LB_DROP(DROP_INVALID_PACKET);
	return lb_loopback_family(skb, packet, FAMILY_IPV6);
}

always_inline int lb_forward_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	union lb_key key __attribute__((aligned(8)));
	struct backend backend;
	struct lb_row service;
	int code;

	service_key(&key, &packet->daddr, packet->dport, packet->protocol, family);
	/* Most packets are for none, so one look is enough: admit() looks again if the packet is its
	 * connection's first. */
	packet->unserved = !service_inside(&key, &service, SERVICE_ONCE, family);
	if (packet->unserved)
		return LB_NONE;
	packet->rev_nat = service.rev_nat;
	code = lb_backend(packet, &key, &service, &backend, family);
	if (code < 0)
		return code;
	code = lb_send(skb, packet, &backend, family);
	if (code < 0)
		return code;
	return unlikely(address_equal(&packet->daddr, &packet->saddr, family)) ? LB_LOOPBACK : LB_TRANSLATED;
}

subprogram int lb_forward_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return LB_DROP(DROP_INVALID_PACKET);
	return lb_forward_family(skb, packet, FAMILY_IPV4);
}

subprogram int lb_forward_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return LB_DROP(DROP_INVALID_PACKET);
	return lb_forward_family(skb, packet, FAMILY_IPV6);
}

/* Sends what an endpoint sends to a service to a backend, and what it answers itself by one back to
 * it. Returns an enum lb_result, or a drop. */
always_inline int lb_from_endpoint(struct __sk_buff *skb, struct packet *packet, int family)
{
	int code;

	if (unlikely(address_is_loopback(&packet->daddr, family))) {
		code = family == FAMILY_IPV4 ? lb_answer_ipv4(skb, packet) : lb_answer_ipv6(skb, packet);
		/* Not there: on the way it would be more stack than kernels before 6.12 have. */
		if (code == LB_LOOPBACK && !packet->icmp_error && packet->tcp_flags & (TCP_FIN | TCP_RST))
			lb_end(packet, packet->dport, family);
		/* Nobody else has that address, so nothing for it leaves. */
		return code == LB_NONE && has_ports(packet->protocol) ? LB_DROP(DROP_CT_CANNOT_CREATE) : code;
	}
	if (unlikely(packet->icmp_error))
		return family == FAMILY_IPV4 ? lb_error_ipv4(skb, packet) : lb_error_ipv6(skb, packet);
	if (!has_ports(packet->protocol))
		return LB_NONE;
	if (unlikely(packet->headless))
		return service_has(&packet->daddr, family) ? LB_DROP(DROP_FRAGMENT_NOT_SUPPORTED) : LB_NONE;
	code = family == FAMILY_IPV4 ? lb_forward_ipv4(skb, packet) : lb_forward_ipv6(skb, packet);
	if (likely(code != LB_LOOPBACK))
		return code;
	return family == FAMILY_IPV4 ? lb_loopback_ipv4(skb, packet) : lb_loopback_ipv6(skb, packet);
}
