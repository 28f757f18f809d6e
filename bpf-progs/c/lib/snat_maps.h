/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The rows of address translation, of either family. */
#pragma once

#include "features.h"
#include "maps.h"
#include "nat.h"

union snat_key {
	struct nat4_key v4;
	struct nat6_key v6;
};

/* Rows of both families begin alike. */
union snat_row {
	struct nat4_row v4;
	struct nat6_row v6;
};

/* One end of a packet. */
struct snat_end {
	const union address *address;
	__be16 port;
};

always_inline void snat_key(union snat_key *key, struct snat_end from, struct snat_end to, __u8 protocol,
			    __u8 tuple, int family)
{
	if (family == FAMILY_IPV4) {
		key->v4 = (struct nat4_key){
			.daddr = to.address->v4,
			.saddr = from.address->v4,
			.dport = to.port,
			.sport = from.port,
			.protocol = protocol,
			.flags = tuple,
		};
	} else {
		__builtin_memcpy(key->v6.daddr, to.address, 16);
		__builtin_memcpy(key->v6.saddr, from.address, 16);
		key->v6.dport = to.port;
		key->v6.sport = from.port;
		key->v6.protocol = protocol;
		key->v6.flags = tuple;
	}
}

/* Whether anything stands for others in a family; else its rows have no map. */
always_inline bool snat_is_on(int family)
{
	return family == FAMILY_IPV4 ? ENABLE_NAT_IPV4 : ENABLE_NAT_IPV6;
}

always_inline union snat_row *snat_lookup(const union snat_key *key, int family)
{
	if (!snat_is_on(family))
		return NULL;
	if (family == FAMILY_IPV4)
		return bpf_map_lookup_elem(&cilium_snat_v4_external, key);
	return bpf_map_lookup_elem(&cilium_snat_v6_external, key);
}

always_inline long snat_insert(const union snat_key *key, const union snat_row *row, __u64 flags, int family)
{
	if (!snat_is_on(family))
		return -1;
	if (family == FAMILY_IPV4)
		return bpf_map_update_elem(&cilium_snat_v4_external, key, row, flags);
	return bpf_map_update_elem(&cilium_snat_v6_external, key, row, flags);
}

always_inline long snat_remove(const union snat_key *key, int family)
{
	if (!snat_is_on(family))
		return -1;
	if (family == FAMILY_IPV4)
		return bpf_map_delete_elem(&cilium_snat_v4_external, key);
	return bpf_map_delete_elem(&cilium_snat_v6_external, key);
}

/* Fills a row: what an end becomes. */
always_inline void snat_row(union snat_row *row, struct snat_end to, __u32 now, __u64 needs_ct, int family)
{
	if (family == FAMILY_IPV4) {
		row->v4 = (struct nat4_row){
			.created = now,
			.needs_ct = needs_ct,
			.address = to.address->v4,
			.port = to.port,
		};
	} else {
		row->v6 = (struct nat6_row){.created = now, .needs_ct = needs_ct, .port = to.port};
		__builtin_memcpy(row->v6.address, to.address, 16);
	}
}

/* What a row makes of an end. */
always_inline void snat_read(const union snat_row *row, struct nat *to, int family)
{
	if (family == FAMILY_IPV4) {
		to->address = (union address){.words = {row->v4.address}};
		to->port = row->v4.port;
	} else {
		__builtin_memcpy(&to->address, row->v6.address, 16);
		to->port = row->v6.port;
	}
}

always_inline bool snat_is(const union snat_row *row, struct snat_end end, int family)
{
	struct nat to;

	snat_read(row, &to, family);
	return to.port == end.port && address_equal(&to.address, end.address, family);
}
