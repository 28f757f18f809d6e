/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is known of the packet in hand: its headers, and who it is from and to. */
#pragma once

#include "layouts.h"

struct packet {
	union address saddr;
	union address daddr;
	__u32 l4_offset;
	/* Ports, network order. An ICMP echo has its identifier as the port of the asking side. */
	__be16 sport;
	__be16 dport;
	/* What policy looks at: the destination port, or the ICMP type. */
	__be16 policy_port;
	/* The client's own port, where another stands for it at the backend; of an answer, the service that was asked
	 * by what it answers; else 0. */
	__be16 own_port;
	__u8 protocol;
	__u8 tcp_flags;
	__u8 hop_limit;
	/* A later fragment: there is no layer-4 header. */
	bool tail : 1;
	/* One of a datagram whose first fragment was not seen: neither ports nor connection. */
	bool headless : 1;
	/* An ICMP error: it belongs to the connection of the packet inside. */
	bool icmp_error : 1;
	/* Nothing has its address and port, but its address may be a service's. */
	bool unserved : 1;
	/* Another packet of its connection has done what this one need not. */
	bool again : 1;
	/* The end that has passed it knows that it is the opener's: */
	bool forth : 1;
	/* or, of what address translation sends back, that it answers. */
	bool answer : 1;
	/* Backends of the service by which it came may answer the client directly. */
	bool direct : 1;
	/* How its receiver is reached: enum ipcache_flags. */
	__u8 reach;
	/* Its connection came from outside by that service: */
	bool node_port;
	/* What an entry gets that it makes: enum ct_flags. */
	__u16 entry_flags;
	/* The service that the packet belongs to, as the opener of a connection or as the reply. */
	__be16 rev_nat;
};

/* For records and metrics; filled in as the packet is understood. */
struct flow {
	__u32 src_identity;
	__u32 dst_identity;
	__u16 source; /* endpoint that reports */
	__u16 dst_ep;
	__u16 notify; /* enum config_flags */
	__u8 direction;
	__u8 family;
};
