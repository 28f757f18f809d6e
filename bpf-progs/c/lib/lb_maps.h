/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps of load balancing, which packets and sockets share: part of the twin of src/maps.rs. */
#pragma once

#include "layouts.h"

#define TABLE(name, kind, k, v, entries, bits)                                                     \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__type(key, k);                                                                    \
		__type(value, v);                                                                  \
		__uint(max_entries, entries);                                                      \
		__uint(map_flags, bits);                                                           \
	} name SEC(".maps")

#define LB_ENTRIES 65536
#define LB_HASH(name, k, v) TABLE(name, BPF_MAP_TYPE_HASH, k, v, LB_ENTRIES, BPF_F_NO_PREALLOC)
#define LB_LRU(name, k, v) TABLE(name, BPF_MAP_TYPE_LRU_HASH, k, v, LB_ENTRIES, 0)
#define LB_PREFIXES(name, k)                                                                       \
	TABLE(name, BPF_MAP_TYPE_LPM_TRIE, k, __u8, LB_ENTRIES, BPF_F_NO_PREALLOC)

LB_HASH(cilium_lb4_services_v2, struct lb4_key, struct lb_row);
LB_HASH(cilium_lb6_services_v2, struct lb6_key, struct lb_row);
LB_HASH(cilium_lb4_backends_v3, __u32, struct backend4_row);
LB_HASH(cilium_lb6_backends_v3, __u32, struct backend6_row);
LB_HASH(volvox_lb4_members, struct member_key, struct member4_row);
LB_HASH(volvox_lb6_members, struct member_key, struct member6_row);
LB_HASH(cilium_lb4_reverse_nat, __be16, struct reverse_nat4_row);
LB_HASH(cilium_lb6_reverse_nat, __be16, struct reverse_nat6_row);
LB_LRU(cilium_lb4_affinity, struct affinity4_key, struct affinity_row);
LB_LRU(cilium_lb6_affinity, struct affinity6_key, struct affinity_row);
LB_HASH(cilium_lb_affinity_match, struct affinity_match_key, __u8);
LB_PREFIXES(cilium_lb4_source_range, struct source_range4_key);
LB_PREFIXES(cilium_lb6_source_range, struct source_range6_key);
LB_LRU(cilium_lb4_reverse_sk, struct reverse_sk4_key, struct reverse_sk4_row);
LB_LRU(cilium_lb6_reverse_sk, struct reverse_sk6_key, struct reverse_sk6_row);

#define SOCKET_SETS 8192
/* Sockets with numbers next to each other that have one set. Each CPU gives its numbers in turn, so the set of
 * most new ones is in its cache; many that stay open leave room in it for others. */
#define SOCKET_NEIGHBOURS 4
TABLE(volvox_sockets, BPF_MAP_TYPE_ARRAY, __u32, struct socket_set, SOCKET_SETS, BPF_F_MMAPABLE);

/* A service's Maglev table: its one value is MAGLEV_SIZE backend ids. */
struct maglev_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 16381 * sizeof(__u32));
	__uint(max_entries, 1);
};

#define MAGLEV_TABLES(name)                                                                        \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);                                           \
		__type(key, __be16);                                                               \
		__uint(max_entries, LB_ENTRIES);                                                   \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                              \
		__array(values, struct maglev_table);                                              \
	} name SEC(".maps")

MAGLEV_TABLES(cilium_lb4_maglev);
MAGLEV_TABLES(cilium_lb6_maglev);
