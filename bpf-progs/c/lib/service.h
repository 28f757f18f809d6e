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

/* How a row is read that may just be replaced. */
enum service_look {
	/* Once: most that is looked for is none. */
	SERVICE_ONCE,
	/* Twice, as row_find() does. */
	SERVICE_SURE,
	/* Twice, and what it says is proved by the slots that it leads to. */
	SERVICE_UNPROVED,
};

/* Copies a row. Its memory may be another's while it is read: the copy counts if the row is still
 * where it was. */
always_inline bool service_read(const union lb_key *key, struct lb_row *row, enum service_look how, int family)
{
	for (int look = how == SERVICE_ONCE; look < 2; look++) {
		struct lb_row *live = service_lookup(key, family);

		if (!live)
			continue;
		*row = *live;
		if (how == SERVICE_UNPROVED)
			return true;
		keep_apart();
		if (likely(service_lookup(key, family) == live))
			return true;
	}
	return false;
}

/* The service of a key, as clients inside the cluster see it; the key then says so. */
always_inline bool service_inside(union lb_key *key, struct lb_row *row, enum service_look how, int family)
{
	if (!service_read(key, row, how, family))
		return false;
	if (likely(!(row->flags2 & LB_TWO_SCOPES)))
		return true;
	if (family == FAMILY_IPV4)
		key->v4.scope = LB_SCOPE_INTERNAL;
	else
		key->v6.scope = LB_SCOPE_INTERNAL;
	return service_read(key, row, how == SERVICE_ONCE ? SERVICE_SURE : how, family);
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
