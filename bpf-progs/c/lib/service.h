/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which service is at an address. */
#pragma once

#include "features.h"
#include "lb_maps.h"

union lb_key {
	struct lb4_key v4;
	struct lb6_key v6;
};

/* The key of slot 0 of what clients reach there. */
always_inline void service_key(union lb_key *key, const union address *address, __be16 port, __u8 protocol,
			       int family)
{
	if (family == FAMILY_IPV4) {
		key->v4 = (struct lb4_key){.address = address->v4, .port = port, .protocol = protocol};
	} else {
		key->v6 = (struct lb6_key){.port = port, .protocol = protocol};
		__builtin_memcpy(key->v6.address, address, 16);
	}
}

always_inline void service_slot(union lb_key *key, __u16 slot, int family)
{
	if (family == FAMILY_IPV4)
		key->v4.slot = slot;
	else
		key->v6.slot = slot;
}

always_inline struct lb_row *service_lookup(const union lb_key *key, int family)
{
	if (family == FAMILY_IPV4)
		return bpf_map_lookup_elem(&cilium_lb4_services_v2, key);
	return bpf_map_lookup_elem(&cilium_lb6_services_v2, key);
}

/* The same for who must not miss one that is just replaced. */
always_inline struct lb_row *service_find(const union lb_key *key, int family)
{
	if (family == FAMILY_IPV4)
		return row_find(&cilium_lb4_services_v2, key);
	return row_find(&cilium_lb6_services_v2, key);
}

/* What clients inside the cluster see of a service whose row was found; the key then says so. */
always_inline struct lb_row *service_scoped(struct lb_row *row, union lb_key *key, int family)
{
	if (likely(!row || !(row->flags2 & LB_TWO_SCOPES)))
		return row;
	if (family == FAMILY_IPV4)
		key->v4.scope = LB_SCOPE_INTERNAL;
	else
		key->v6.scope = LB_SCOPE_INTERNAL;
	return service_find(key, family);
}

/* The service of a key, as clients inside the cluster see it. */
always_inline struct lb_row *service_inside(union lb_key *key, int family)
{
	return service_scoped(service_find(key, family), key, family);
}

/* Whether an address is a service's: such have a row for the ports that are not served. */
always_inline bool service_has(const union address *address, int family)
{
	union lb_key key __attribute__((aligned(8)));

	service_key(&key, address, 0, 0, family);
	return service_lookup(&key, family) != NULL;
}

/* Whether a client from outside the cluster may use a service. */
always_inline bool service_admits(const struct lb_row *service, const union address *client, int family)
{
	void *range;

	if (!(service->flags & LB_SOURCE_RANGE))
		return true;
	if (family == FAMILY_IPV4) {
		struct source_range4_key key = {
			.prefix_len = 32 + 32,
			.rev_nat = service->rev_nat,
			.address = client->v4,
		};

		range = bpf_map_lookup_elem(&cilium_lb4_source_range, &key);
	} else {
		struct source_range6_key key = {.prefix_len = 32 + 128, .rev_nat = service->rev_nat};

		__builtin_memcpy(key.address, client, 16);
		range = bpf_map_lookup_elem(&cilium_lb6_source_range, &key);
	}
	return service->flags2 & LB_DENY_RANGE ? !range : range != NULL;
}
