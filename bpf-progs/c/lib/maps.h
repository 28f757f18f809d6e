/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps: the twin of src/maps.rs, which the agent creates them from. */
#pragma once

#include "lb_maps.h"

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
TABLE(volvox_device, BPF_MAP_TYPE_HASH, __u32, struct device_row, 1024, BPF_F_NO_PREALLOC);
TABLE(cilium_snat_v4_external, BPF_MAP_TYPE_LRU_HASH, struct nat4_key, struct nat4_row, 524288, 0);
TABLE(cilium_snat_v6_external, BPF_MAP_TYPE_LRU_HASH, struct nat6_key, struct nat6_row, 524288, 0);
TABLE(cilium_ipmasq_v4, BPF_MAP_TYPE_LPM_TRIE, struct prefix4_key, __u8, 16384, BPF_F_NO_PREALLOC);
TABLE(cilium_ipmasq_v6, BPF_MAP_TYPE_LPM_TRIE, struct prefix6_key, __u8, 16384, BPF_F_NO_PREALLOC);

/* Rings of whoever listens. */
#define RINGS(name)                                                                                \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);                                       \
		__uint(key_size, sizeof(__u32));                                                   \
		__uint(value_size, sizeof(__u32));                                                 \
		__uint(max_entries, 0); /* one per CPU */                                          \
	} name SEC(".maps")

RINGS(cilium_events);
RINGS(cilium_signals);

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

TABLE(volvox_lb, BPF_MAP_TYPE_ARRAY, __u32, struct lb_numbers_row, 1, 0);
