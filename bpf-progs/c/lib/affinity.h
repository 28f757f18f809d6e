/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Clients that keep their backend. */
#pragma once

#include "clock.h"
#include "service.h"

/* A client: its address, or the cookie of its network namespace in the first eight bytes. */
struct client {
	union address id;
	bool is_cookie;
};

union affinity_key {
	struct affinity4_key v4;
	struct affinity6_key v6;
};

always_inline void affinity_key(union affinity_key *key, const struct client *client, __be16 rev_nat, int family)
{
	if (family == FAMILY_IPV4) {
		key->v4 = (struct affinity4_key){.rev_nat = rev_nat, .netns_cookie = client->is_cookie};
		__builtin_memcpy(key->v4.client, &client->id, 8);
	} else {
		key->v6 = (struct affinity6_key){.rev_nat = rev_nat, .netns_cookie = client->is_cookie};
		__builtin_memcpy(key->v6.client, &client->id, 16);
	}
}

always_inline struct affinity_row *affinity_lookup(const union affinity_key *key, int family)
{
	if (family == FAMILY_IPV4)
		return bpf_map_lookup_elem(&cilium_lb4_affinity, key);
	return bpf_map_lookup_elem(&cilium_lb6_affinity, key);
}

always_inline __u32 affinity_timeout(const struct lb_row *service)
{
	return service->backend & 0xffffff;
}

/* The backend that a client had not too long ago and that the service still has; 0 if there is
 * none. */
always_inline __u32 affinity_find(const struct lb_row *service, const struct client *client, int family)
{
	union affinity_key key __attribute__((aligned(8)));
	struct affinity_match_key match = {.rev_nat = service->rev_nat};
	struct affinity_row *row;

	affinity_key(&key, client, service->rev_nat, family);
	row = affinity_lookup(&key, family);
	if (!row || row->last_used + affinity_timeout(service) <= clock_seconds())
		return 0;
	match.backend = row->backend;
	return row_find(&cilium_lb_affinity_match, &match) ? match.backend : 0;
}

/* A client uses a backend of a service. */
always_inline void affinity_note(const struct lb_row *service, const struct client *client, __u32 backend,
				 int family)
{
	union affinity_key key __attribute__((aligned(8)));
	struct affinity_row now = {.last_used = clock_seconds(), .backend = backend}, *row;

	affinity_key(&key, client, service->rev_nat, family);
	row = affinity_lookup(&key, family);
	if (row && row->backend == backend && row->last_used == now.last_used)
		return;
	if (family == FAMILY_IPV4)
		bpf_map_update_elem(&cilium_lb4_affinity, &key, &now, BPF_ANY);
	else
		bpf_map_update_elem(&cilium_lb6_affinity, &key, &now, BPF_ANY);
}
