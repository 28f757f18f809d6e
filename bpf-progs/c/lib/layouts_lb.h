/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Keys and values of load balancing, and of fragments: part of the twin of src/layouts. */
#pragma once

#include "common.h"

/* Slot 0 is the service, the others are its backends. Service ids are in network order. */
struct lb4_key {
	__be32 address;
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

#define LB_SCOPE_EXTERNAL 0
#define LB_SCOPE_INTERNAL 1

struct lb_row {
	__u32 backend; /* in slot 0: algorithm, and in the lower 24 bits how long affinity lasts */
	__u16 count;
	__be16 rev_nat;
	__u8 flags; /* enum lb_flags */
	__u8 flags2; /* enum lb_flags2 */
	__u16 qcount;
};

enum lb_flags {
	LB_EXTERNAL_IP = 1,
	LB_NODE_PORT = 2,
	LB_HOST_PORT = 8,
	LB_AFFINITY = 16,
	LB_LOAD_BALANCER = 32,
	LB_ROUTABLE = 64,
	LB_SOURCE_RANGE = 128,
};

enum lb_flags2 {
	LB_L7 = 4,
	LB_TWO_SCOPES = 32,
	LB_DENY_RANGE = 64,
	LB_DSR = 128,
};

#define LB_MAGLEV 2

struct backend4_row {
	__be32 address;
	__be16 port;
	__u8 protocol;
	__u8 state; /* enum backend_state */
	__u16 cluster_id;
	__u8 zone;
	__u8 tag; /* backend_tag() of its id; zero if somebody else wrote the row */
};

struct backend6_row {
	__u8 address[16];
	__be16 port;
	__u8 protocol;
	__u8 state;
	__u16 cluster_id;
	__u8 zone;
	__u8 tag; /* backend_tag() of its id; zero if somebody else wrote the row */
};

/* Of a backend, or of how a service uses one. */
enum backend_state {
	BACKEND_ACTIVE = 0,
	/* It has no new connections. */
	BACKEND_TERMINATING = 1,
	/* It has new ones only where there is nobody else. */
	BACKEND_QUARANTINED = 2,
	/* It has none but those that would break. */
	BACKEND_MAINTENANCE = 3,
};

/* A backend that a service lists. */
struct member_key {
	__u32 backend;
	__be16 rev_nat;
	__u16 pad;
};

/* Where that is, and how the service uses it. The row names its key, as its memory may be another's while it
 * is read. */
struct member4_row {
	__be32 address;
	__be16 port;
	__u8 protocol;
	__u8 state; /* enum backend_state */
	struct member_key key;
};

struct member6_row {
	__u8 address[16];
	__be16 port;
	__u8 protocol;
	__u8 state;
	struct member_key key;
};

struct reverse_nat4_row {
	__be32 address;
	__be16 port;
} __attribute__((packed));

struct reverse_nat6_row {
	__u8 address[16];
	__be16 port;
} __attribute__((packed));

struct affinity4_key {
	__u8 client[8];
	__be16 rev_nat;
	__u8 netns_cookie; /* bit 0: the client is one */
	__u8 pad1;
	__u32 pad2;
};

struct affinity6_key {
	__u8 client[16];
	__be16 rev_nat;
	__u8 netns_cookie;
	__u8 pad1;
	__u32 pad2;
};

struct affinity_row {
	__u64 last_used; /* second of the monotonic clock */
	__u32 backend;
	__u32 pad;
};

struct affinity_match_key {
	__u32 backend;
	__be16 rev_nat;
	__u16 pad;
};

struct source_range4_key {
	__u32 prefix_len;
	__be16 rev_nat;
	__u16 pad;
	__be32 address;
};

struct source_range6_key {
	__u32 prefix_len;
	__be16 rev_nat;
	__u16 pad;
	__u8 address[16];
};

struct reverse_sk4_key {
	__u64 cookie;
	__be32 address;
	__be16 port;
	__u16 pad;
};

struct reverse_sk6_key {
	__u64 cookie;
	__u8 address[16];
	__be16 port;
	__u8 pad[6];
};

struct reverse_sk4_row {
	__be32 address;
	__be16 port;
	__be16 rev_nat;
};

struct reverse_sk6_row {
	__u8 address[16];
	__be16 port;
	__be16 rev_nat;
};

/* What a socket asked for. */
struct socket_note {
	__u8 backend[16];
	__u8 service[16];
	__be16 backend_port;
	__be16 service_port;
	__be16 rev_nat;
	__u8 family;
	__u8 pad;
};

#define SOCKET_NOTES 8

/* Stands for a socket while its note is written. */
#define NOTE_CLAIMED (1ULL << 63)

/* Notes of sockets with numbers next to each other, and of those that many numbers later share their set. Who
 * looks for one reads a single line of the processor's cache unless it is there. */
struct socket_set {
	__u64 sockets[SOCKET_NOTES]; /* whose the note is, by its cookie; 0 if it is free */
	struct socket_note notes[SOCKET_NOTES];
};

/* A datagram that comes in fragments. */
struct fragment4_key {
	__be32 daddr;
	__be32 saddr;
	__be16 id;
	__u8 protocol;
	__u8 pad;
};

struct fragment6_key {
	__be32 id;
	__u8 protocol;
	__u8 pad[3];
	__u8 daddr[16];
	__u8 saddr[16];
};

struct fragment_row {
	__be16 sport;
	__be16 dport;
};

/* For the agent. */
struct lb_numbers_row {
	__u32 next_backend;
	__u32 next_service;
	__u32 reserved[6];
};
