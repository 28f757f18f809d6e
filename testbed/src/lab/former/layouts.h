/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Maps of Cilium's layout, as far as what stands in for it works over them. */
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define inlined static __attribute__((always_inline))
#define IDENTITY_HOST 1
#define IDENTITY_WORLD 2
#define TCP 6
#define UDP 17
#define ICMP 1
#define ICMPV6 58
/* Flags of a connection's key. */
#define OUT 0
#define IN 1
#define SERVICE 4

/* The endpoint's numbers; of a device only the interface counts. */
volatile const __u32 EP_ID = 0;
volatile const __u32 IDENTITY = 0;
volatile const __u32 IFINDEX = 0;
volatile const __u8 IPV4[16] = {};
volatile const __u8 IPV6[16] = {};
volatile const __u8 MAC[8] = {};
volatile const __u8 NODE_MAC[8] = {};

struct lxc_key {
	__u8 address[16];
	__u8 family;
	__u8 key;
	__u16 cluster;
};

struct lxc_row {
	__u32 ifindex;
	__u16 unused;
	__u16 lxc_id;
	__u32 flags;
	__u32 pad0;
	__u8 mac[8];
	__u8 node_mac[8];
	__u32 identity;
	__u32 parent;
	__u32 pad1[2];
};

struct ct4_key {
	__u8 daddr[4];
	__u8 saddr[4];
	__be16 dport;
	__be16 sport;
	__u8 protocol;
	__u8 flags;
} __attribute__((packed));

struct ct6_key {
	__u8 daddr[16];
	__u8 saddr[16];
	__be16 dport;
	__be16 sport;
	__u8 protocol;
	__u8 flags;
} __attribute__((packed));

struct ct_row {
	__u64 reserved;
	__u64 backend;
	__u64 packets;
	__u64 bytes;
	__u32 lifetime;
	__u16 flags;
	__be16 rev_nat;
	__be16 nat_port;
	__u8 tx_flags;
	__u8 rx_flags;
	__u32 src_identity;
	__u32 last_tx;
	__u32 last_rx;
};

struct policy_key {
	__u32 prefix;
	__u32 identity;
	__u8 egress;
	__u8 protocol;
	__be16 port;
};

struct policy_row {
	__be16 proxy_port;
	__u8 flags;
	__u8 auth;
	__u32 precedence;
	__u32 cookie;
};

struct lb4_key {
	__u8 address[4];
	__be16 port;
	__u16 slot;
	__u8 protocol;
	__u8 scope;
	__u8 pad[2];
};

struct lb6_key {
	__u8 address[16];
	__be16 port;
	__u16 slot;
	__u8 protocol;
	__u8 scope;
	__u8 pad[2];
};

struct lb_row {
	__u32 backend;
	__u16 count;
	__be16 rev_nat;
	__u8 flags;
	__u8 flags2;
	__u16 quarantined;
};

struct backend4 {
	__u8 address[4];
	__be16 port;
	__u8 protocol;
	__u8 flags;
	__u16 cluster;
	__u8 zone;
	__u8 pad;
};

struct backend6 {
	__u8 address[16];
	__be16 port;
	__u8 protocol;
	__u8 flags;
	__u16 cluster;
	__u8 zone;
	__u8 pad;
};

struct reverse4 {
	__u8 address[4];
	__be16 port;
} __attribute__((packed));

struct reverse6 {
	__u8 address[16];
	__be16 port;
} __attribute__((packed));

#define TABLE(name, kind, k, v, entries, its_flags)                                                \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__type(key, k);                                                                    \
		__type(value, v);                                                                  \
		__uint(max_entries, entries);                                                      \
		__uint(map_flags, its_flags);                                                      \
	} name SEC(".maps")
#define HASH(name, k, v) TABLE(name, BPF_MAP_TYPE_HASH, k, v, 65536, 0)
#define CONNECTIONS(name, k) TABLE(name, BPF_MAP_TYPE_LRU_HASH, k, struct ct_row, 20000, 0)

TABLE(cilium_lxc, BPF_MAP_TYPE_HASH, struct lxc_key, struct lxc_row, 65535, 0);
CONNECTIONS(cilium_ct4_global, struct ct4_key);
CONNECTIONS(cilium_ct_any4_global, struct ct4_key);
CONNECTIONS(cilium_ct6_global, struct ct6_key);
CONNECTIONS(cilium_ct_any6_global, struct ct6_key);
TABLE(cilium_policy_v2, BPF_MAP_TYPE_LPM_TRIE, struct policy_key, struct policy_row, 16384,
      BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
TABLE(cilium_call_policy, BPF_MAP_TYPE_PROG_ARRAY, __u32, __u32, 65535, 0);
HASH(cilium_lb4_services_v2, struct lb4_key, struct lb_row);
HASH(cilium_lb6_services_v2, struct lb6_key, struct lb_row);
HASH(cilium_lb4_backends_v3, __u32, struct backend4);
HASH(cilium_lb6_backends_v3, __u32, struct backend6);
HASH(cilium_lb4_reverse_nat, __be16, struct reverse4);
HASH(cilium_lb6_reverse_nat, __be16, struct reverse6);
