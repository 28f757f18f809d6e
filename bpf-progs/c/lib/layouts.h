/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Keys, values and records: the twin of src/layouts. A test compares the two, field by field. */
#pragma once

#include "layouts_lb.h"

struct config_row {
	__u32 generation;
	__u16 ep_id;
	__u16 flags; /* enum config_flags */
	__u32 identity;
	__u32 policy_slot;
	__u32 ifindex;
	__be32 ipv4;
	__u8 ipv6[16];
	__u8 mac[6];
	__u16 pad0;
	__u8 node_mac[6];
	__u16 pad1;
	__u64 reserved;
};

/* Where the row of the node itself stands: the index of its loopback interface, at which no program
 * runs. Its endpoint has no interface, and of the row only numbers, flags and policy count. */
#define HOST_IFINDEX 1

enum config_flags {
	CONFIG_SOURCE_CHECK = 1,
	CONFIG_TRACE_NOTIFY = 2,
	CONFIG_VERDICT_NOTIFY = 4,
	CONFIG_DROP_NOTIFY = 8,
	/* No trace records of packets that come in, only of those that go on. */
	CONFIG_AGGREGATE_ARRIVALS = 16,
	/* Trace records of a connection now and then, not of every packet. */
	CONFIG_AGGREGATE_CONNECTIONS = 32,
	/* Its interface is of another plugin, which resolves neighbours and delivers. */
	CONFIG_CHAINED = 64,
};

struct node_row {
	__be32 router_ipv4;
	__u8 router_ipv6[16];
	__u8 router_mac[6];
	__u16 pad;
	__u32 flags;
	__u8 build_hash[32];
	__u64 features;
	__u64 sockets;
	__u32 tunnel_ifindex; /* of the overlay's device; 0 without an overlay */
	__u32 tunnel_flags; /* of enum device_flags, those of records */
	__be16 tunnel_port; /* of the overlay's outer packets, UDP; 0 if it is not told */
	__u16 pad1;
	__u32 reserved[9];
};

/* A device of the node that leads to other machines. */
struct device_row {
	/* Stand for others behind the device; zero if nothing does. */
	__be32 ipv4;
	__u8 ipv6[16];
	__u8 mac[6];
	__u16 flags; /* enum device_flags */
	__u32 ifindex;
	__u32 reserved[4];
};

enum device_flags {
	DEVICE_MASQUERADE_IPV4 = 1,
	DEVICE_MASQUERADE_IPV6 = 2,
	DEVICE_TRACE_NOTIFY = 4,
	DEVICE_DROP_NOTIFY = 8,
};

struct endpoint_row {
	__u8 container_id[80];
	__u8 container_ifname[16];
	__u8 host_ifname[16];
	__u32 ifindex;
	__u32 identity;
	__u64 netns_cookie;
	__be32 ipv4;
	__u8 ipv6[16];
	__u8 mac[6];
	__u8 node_mac[6];
	__u8 namespace[64];
	__u8 pod_name[200];
	__u8 uid[40];
	__u32 own_options;
	__u8 unsaved;
	__u8 chained;
	__u8 reserved[38];
	__u32 crc32;
};

struct lxc_key {
	__u8 address[16];
	__u8 family;
	__u8 key;
	__u16 cluster_id;
};

struct lxc_row {
	__u32 ifindex;
	__u16 unused;
	__u16 lxc_id;
	__u32 flags; /* enum lxc_flags */
	__u32 pad0;
	__u8 mac[8];
	__u8 node_mac[8];
	__u32 sec_id;
	__u32 parent_ifindex;
	__u32 pad1[2];
};

enum lxc_flags {
	LXC_HOST = 1,
	LXC_SKIP_MASQUERADE_V4 = 4,
	LXC_SKIP_MASQUERADE_V6 = 8,
};

struct ipcache_key {
	__u32 prefix_len;
	__u16 cluster_id;
	__u8 pad;
	__u8 family;
	__u8 address[16];
};

struct ipcache_row {
	__u32 identity;
	__u8 tunnel_endpoint[16];
	__u8 pad[2];
	__u8 key;
	__u8 flags; /* enum ipcache_flags */
};

enum ipcache_flags {
	IPCACHE_SKIP_TUNNEL = 1,
	IPCACHE_HAS_TUNNEL = 2,
	IPCACHE_IPV6_TUNNEL = 4,
};

struct policy_key {
	__u32 prefix_len;
	__u32 identity;
	__u8 egress;
	__u8 protocol;
	__be16 port;
};

struct policy_row {
	__be16 proxy_port;
	__u8 flags; /* bit 0 deny, bits 3 to 7 protocol and port bits of the key */
	__u8 auth;
	__u32 precedence;
	__u32 cookie;
};

#define POLICY_STATIC_BITS 40
#define POLICY_PROTOCOL_BITS 48
#define POLICY_FULL_BITS 64
#define POLICY_DENY 1
#define POLICY_AUTH_TYPE 0x7f

struct policy_stats_key {
	__u16 ep_id;
	__u8 pad;
	__u8 prefix_len;
	__u32 identity;
	__u8 egress;
	__u8 protocol;
	__be16 port;
};

struct policy_stats_row {
	__u64 packets;
	__u64 bytes;
};

typedef __u8 ipv6_bytes[16];

/* Ends and protocol of a connection or of a packet. */
#define TUPLE_KEY(name, address)                                                                   \
	struct name {                                                                              \
		address daddr;                                                                     \
		address saddr;                                                                     \
		__be16 dport;                                                                      \
		__be16 sport;                                                                      \
		__u8 protocol;                                                                     \
		__u8 flags;                                                                        \
	} __attribute__((packed))

TUPLE_KEY(ct4_key, __be32);
TUPLE_KEY(ct6_key, ipv6_bytes);

/* Flags of such a key. */
#define TUPLE_OUT 0
#define TUPLE_IN 1
#define TUPLE_SERVICE 4

struct ct_row {
	__u8 nat_addr[16];
	__u64 packets;
	__u64 bytes;
	__u32 lifetime;
	__u16 flags; /* enum ct_flags */
	__be16 rev_nat_index;
	__be16 nat_port;
	__u8 tx_flags_seen;
	__u8 rx_flags_seen;
	__u32 src_sec_id;
	__u32 last_tx_report;
	__u32 last_rx_report;
};

enum ct_flags {
	CT_RX_CLOSING = 1,
	CT_TX_CLOSING = 2,
	CT_LOOPBACK = 8,
	CT_SEEN_NON_SYN = 16,
	CT_NODE_PORT = 32,
	/* The client sees another node's service: in the entry of who sends, that the backend answers him
	 * itself; in the backend's, that nat_addr and nat_port are what he asked. */
	CT_DSR = 128,
	/* The client's own port is another, which nat_port says. */
	CT_MOVED = 16384,
	/* Of the node's own: it only answers, and the entry keeps its port from others. It is not the opener's
	 * entry, and permits nothing. */
	CT_ANSWERS = 32768,
};

/* A packet as address translation sees it, unlike a connection with its ends in their own places. Of TUPLE_OUT the
 * source is translated, of TUPLE_IN the destination. */
TUPLE_KEY(nat4_key, __be32);
TUPLE_KEY(nat6_key, ipv6_bytes);

/* What the end becomes. */
struct nat4_row {
	__u64 created; /* second of the monotonic clock */
	__u64 needs_ct;
	__u64 checked; /* second in which the row of the other direction was last seen */
	__u64 rev_nat; /* of TUPLE_IN: the service by which the opener asked; 0 if by none */
	__be32 address;
	__be16 port;
	__u16 pad1;
};

struct nat6_row {
	__u64 created;
	__u64 needs_ct;
	__u64 checked;
	__u64 rev_nat;
	__u8 address[16];
	__be16 port;
	__u8 pad1[6];
};

/* Destinations whose packets keep their source. */
struct prefix4_key {
	__u32 prefix_len;
	__be32 address;
};

struct prefix6_key {
	__u32 prefix_len;
	__u8 address[16];
};

struct metrics_key {
	__u8 reason;
	__u8 direction;
	__u16 line;
	__u8 file;
	__u8 reserved[3];
};

struct metrics_row {
	__u64 packets;
	__u64 bytes;
};

/* Direction in metrics keys and verdict records, from the endpoint. */
#define INGRESS 1
#define EGRESS 2

struct event_header {
	__u8 kind; /* enum event_kind */
	__u8 subtype;
	__u16 source;
	__u32 hash;
	__u32 len_orig;
	__u16 len_cap;
	__u8 version;
	__u8 ext_version;
};

enum event_kind {
	EVENT_DROP = 1,
	EVENT_TRACE = 4,
	EVENT_VERDICT = 5,
};

struct trace_record {
	struct event_header header;
	__u32 src_identity;
	__u32 dst_identity;
	__u16 dst_ep;
	__u8 reason;
	__u8 flags;
	__u32 ifindex;
	__u8 orig_ip[16];
	__u64 trace_id;
};

struct drop_record {
	struct event_header header;
	__u32 src_identity;
	__u32 dst_identity;
	__u32 dst_ep;
	__u16 line;
	__u8 file;
	__s8 ext_error;
	__u32 ifindex;
	__u8 flags;
	__u8 pad[3];
	__u64 trace_id;
};

struct verdict_record {
	struct event_header header;
	__u32 remote_identity;
	__s32 verdict;
	__u16 dport;
	__u8 protocol;
	__u8 bits;
	__u8 auth;
	__u8 pad[3];
	__u32 cookie;
	__u32 pad1;
};

/* A record of cilium_signals. */
struct signal_record {
	__u32 signal; /* enum signal */
	__u32 data; /* 0 IPv4, 1 IPv6 */
};

/* Reserved identities. */
#define IDENTITY_HOST 1
#define IDENTITY_WORLD 2
#define IDENTITY_HEALTH 4
#define IDENTITY_REMOTE_NODE 6
#define IDENTITY_KUBE_APISERVER 7
#define IDENTITY_WORLD_IPV4 9
#define IDENTITY_WORLD_IPV6 10
/* Where those begin that the whole cluster knows, and those that mean something on this node only. */
#define IDENTITY_GLOBAL 256
#define IDENTITY_LOCAL (1 << 24)
/* Of those, the upper bits that other nodes have. */
#define IDENTITY_SCOPE_SHIFT 24
#define IDENTITY_SCOPE_NODE 2
