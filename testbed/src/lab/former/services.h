/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Services: who asks one by its address is led to a backend, and the answer comes from the service. */
#pragma once

#include "connections.h"

inlined struct lb_row *service_slot(const struct packet *packet, __u16 slot)
{
	if (packet->v6) {
		struct lb6_key key = {.port = packet->dport, .slot = slot, .protocol = packet->protocol};

		__builtin_memcpy(key.address, packet->daddr, 16);
		return bpf_map_lookup_elem(&cilium_lb6_services_v2, &key);
	}
	struct lb4_key key = {.port = packet->dport, .slot = slot, .protocol = packet->protocol};

	__builtin_memcpy(key.address, packet->daddr, 4);
	return bpf_map_lookup_elem(&cilium_lb4_services_v2, &key);
}

/* The backend that the connection has, or one that it gets now; 0 if the service has none. */
inlined __u32 service_backend(const struct packet *packet, const struct lb_row *service)
{
	struct ct_row *row = ct_find(packet, false, SERVICE), fresh = {};
	struct lb_row *slot;

	if (row) {
		touch(row, packet, OUT);
		return row->backend;
	}
	if (!service->count)
		return 0;
	slot = service_slot(packet, 1 + bpf_get_prandom_u32() % service->count);
	if (!slot)
		return 0;
	touch(&fresh, packet, OUT);
	fresh.backend = slot->backend;
	fresh.rev_nat = service->rev_nat;
	ct_put(packet, SERVICE, &fresh);
	return slot->backend;
}

/* Leads what is for a service to a backend. Answers the service's number, 0 for what is for none, or less than
 * that for what cannot be served. */
inlined int to_backend(struct __sk_buff *skb, struct packet *packet)
{
	struct lb_row *service = has_ports(packet) ? service_slot(packet, 0) : NULL;
	__u8 address[16] = {};
	__be16 rev_nat, port;
	__u32 id;

	if (!service)
		return 0;
	rev_nat = service->rev_nat;
	id = service_backend(packet, service);
	if (packet->v6) {
		struct backend6 *backend = bpf_map_lookup_elem(&cilium_lb6_backends_v3, &id);

		if (!backend)
			return -1;
		__builtin_memcpy(address, backend->address, 16);
		port = backend->port;
	} else {
		struct backend4 *backend = bpf_map_lookup_elem(&cilium_lb4_backends_v3, &id);

		if (!backend)
			return -1;
		__builtin_memcpy(address, backend->address, 4);
		port = backend->port;
	}
	if (rewrite(skb, packet, false, address, port))
		return -1;
	packet->policy_port = port;
	return rev_nat;
}

/* Gives an answer the address of the service that was asked. */
inlined int from_service(struct __sk_buff *skb, struct packet *packet, __be16 rev_nat)
{
	__u8 address[16] = {};
	__be16 port;

	if (packet->v6) {
		struct reverse6 *service = bpf_map_lookup_elem(&cilium_lb6_reverse_nat, &rev_nat);

		if (!service)
			return -1;
		__builtin_memcpy(address, service->address, 16);
		port = service->port;
	} else {
		struct reverse4 *service = bpf_map_lookup_elem(&cilium_lb4_reverse_nat, &rev_nat);

		if (!service)
			return -1;
		__builtin_memcpy(address, service->address, 4);
		port = service->port;
	}
	return rewrite(skb, packet, true, address, port);
}
