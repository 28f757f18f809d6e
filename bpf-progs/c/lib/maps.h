/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps: the twin of src/maps.rs, which the agent creates them from. */
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

TABLE(cilium_lxc, BPF_MAP_TYPE_HASH, struct lxc_key, struct lxc_row, 65535, 0);
TABLE(cilium_ipcache_v2, BPF_MAP_TYPE_LPM_TRIE, struct ipcache_key, struct ipcache_row, 512000,
      BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
TABLE(cilium_ct4_global, BPF_MAP_TYPE_LRU_HASH, struct ct4_key, struct ct_row, 524288, 0);
TABLE(cilium_ct_any4_global, BPF_MAP_TYPE_LRU_HASH, struct ct4_key, struct ct_row, 262144, 0);
TABLE(cilium_ct6_global, BPF_MAP_TYPE_LRU_HASH, struct ct6_key, struct ct_row, 524288, 0);
TABLE(cilium_ct_any6_global, BPF_MAP_TYPE_LRU_HASH, struct ct6_key, struct ct_row, 262144, 0);
TABLE(cilium_metrics, BPF_MAP_TYPE_PERCPU_HASH, struct metrics_key, struct metrics_row, 1024, 0);
TABLE(cilium_policystats, BPF_MAP_TYPE_LRU_PERCPU_HASH, struct policy_stats_key,
      struct policy_stats_row, 65536, BPF_F_NO_COMMON_LRU);
TABLE(volvox_config, BPF_MAP_TYPE_HASH, __u32, struct config_row, 65535, BPF_F_NO_PREALLOC);
TABLE(volvox_endpoint, BPF_MAP_TYPE_HASH, __u32, struct endpoint_row, 65535, BPF_F_NO_PREALLOC);
TABLE(volvox_node, BPF_MAP_TYPE_ARRAY, __u32, struct node_row, 1, 0);

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, 0); /* one per CPU */
} cilium_events SEC(".maps");

/* One endpoint's policy. Sizes, not types: clang gives inner maps incomplete types. */
struct policy_map {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(key_size, sizeof(struct policy_key));
	__uint(value_size, sizeof(struct policy_row));
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
};

/* Everybody's policies, by config_row.policy_slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, 131072);
	__array(values, struct policy_map);
} volvox_policy SEC(".maps");

/* Slots of the maps below. */
enum ct_slot {
	CT_SLOT_TCP = 0,
	CT_SLOT_ANY = 1,
	CT_SLOTS = 2,
};

/* A map of connections that is being replaced by one of another size, whatever its own is. */
#define OLD_CONNECTIONS(name, k)                                                                   \
	struct name##_map {                                                                        \
		__uint(type, BPF_MAP_TYPE_LRU_HASH);                                               \
		__uint(key_size, sizeof(k));                                                       \
		__uint(value_size, sizeof(struct ct_row));                                         \
		__uint(max_entries, 1);                                                            \
	};                                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                                          \
		__type(key, __u32);                                                                \
		__uint(max_entries, CT_SLOTS);                                                     \
		__array(values, struct name##_map);                                                \
	} name SEC(".maps")

OLD_CONNECTIONS(volvox_ct4_old, struct ct4_key);
OLD_CONNECTIONS(volvox_ct6_old, struct ct6_key);

TABLE(cilium_ipv4_frag_datagrams, BPF_MAP_TYPE_LRU_HASH, struct fragment4_key, struct fragment_row,
      8192, 0);
TABLE(cilium_ipv6_frag_datagrams, BPF_MAP_TYPE_LRU_HASH, struct fragment6_key, struct fragment_row,
      8192, 0);

#define LB_ENTRIES 65536
#define LB_HASH(name, k, v) TABLE(name, BPF_MAP_TYPE_HASH, k, v, LB_ENTRIES, BPF_F_NO_PREALLOC)
#define LB_LRU(name, k, v) TABLE(name, BPF_MAP_TYPE_LRU_HASH, k, v, LB_ENTRIES, 0)
#define LB_PREFIXES(name, k)                                                                       \
	TABLE(name, BPF_MAP_TYPE_LPM_TRIE, k, __u8, LB_ENTRIES, BPF_F_NO_PREALLOC)

LB_HASH(cilium_lb4_services_v2, struct lb4_key, struct lb_row);
LB_HASH(cilium_lb6_services_v2, struct lb6_key, struct lb_row);
LB_HASH(cilium_lb4_backends_v3, __u32, struct backend4_row);
LB_HASH(cilium_lb6_backends_v3, __u32, struct backend6_row);
LB_HASH(cilium_lb4_reverse_nat, __be16, struct reverse_nat4_row);
LB_HASH(cilium_lb6_reverse_nat, __be16, struct reverse_nat6_row);
LB_LRU(cilium_lb4_affinity, struct affinity4_key, struct affinity_row);
LB_LRU(cilium_lb6_affinity, struct affinity6_key, struct affinity_row);
LB_HASH(cilium_lb_affinity_match, struct affinity_match_key, __u8);
LB_PREFIXES(cilium_lb4_source_range, struct source_range4_key);
LB_PREFIXES(cilium_lb6_source_range, struct source_range6_key);
LB_LRU(cilium_lb4_reverse_sk, struct reverse_sk4_key, struct reverse_sk4_row);
LB_LRU(cilium_lb6_reverse_sk, struct reverse_sk6_key, struct reverse_sk6_row);
TABLE(volvox_lb, BPF_MAP_TYPE_ARRAY, __u32, struct lb_numbers_row, 1, 0);

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
