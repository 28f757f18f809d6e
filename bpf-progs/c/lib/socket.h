/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What load balancing by socket does to an address and port, of whichever hook. */
#pragma once

#include "backend.h"
#include "socket_note.h"

/* The network namespace of the node itself; 0 is the machine's first one. */
const volatile __u64 HOST_NETNS = 0;

always_inline bool is_of_node(__u64 netns)
{
	return netns == (HOST_NETNS ? HOST_NETNS : bpf_get_netns_cookie(NULL));
}

/* From errno.h, which draws in the C library. */
#define EADDRINUSE 98
#define ECONNREFUSED 111
#define EHOSTUNREACH 113

/* What cgroup hooks return. */
#define REFUSE 0
#define PROCEED 1

always_inline int refuse(int error)
{
	bpf_set_retval(-error);
	return REFUSE;
}

always_inline bool socket_restore(__u64 socket, struct end *end)
{
	if (end->family == FAMILY_IPV4)
		return socket_recall(socket, end, FAMILY_IPV4);
	return socket_recall(socket, end, FAMILY_IPV6);
}

/* Whether an address leads back to where it is used. */
always_inline bool address_is_here(const union address *address, int family)
{
	if (family == FAMILY_IPV4)
		return !address->v4 || (address->v4 & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return !address->words[0] && !address->words[1] && !address->words[2] &&
	       (address->words[3] & ~bpf_htonl(1)) == 0;
}

/* What a socket hears that asks for what nobody serves. */
always_inline int unserved_error(void)
{
	return REFUSE_UNSERVED ? -ECONNREFUSED : -EHOSTUNREACH;
}

/* Replaces a service by one of its backends, for a connection or for a datagram. Returns 1 if it did, 0 if
 * this is no service, else an error below zero: nobody serves it, or nobody was found. No function of its own: where returns are guarded
 * against speculation, a call costs as much as a search in a map. */
always_inline int balance_family(struct bpf_sock_addr *ctx, struct end *end, int family)
{
	union lb_key key __attribute__((aligned(8)));
	struct client client = {.is_cookie = true};
	struct end service = *end;
	struct socket_set *set;
	struct backend backend;
	struct lb_row row;
	__u64 socket;
	int code;

	/* What leads back to the node stands for all its addresses; to a pod, for the pod. */
	if (unlikely(address_is_here(&end->address, family))) {
		const union address all = {};

		if (!is_of_node(bpf_get_netns_cookie(ctx)))
			return 0;
		service_key(&key, &all, end->port, ctx->protocol, family);
	} else {
		service_key(&key, &end->address, end->port, ctx->protocol, family);
	}
	if (!service_inside(&key, &row, SERVICE_UNPROVED, family))
		return service_has(&end->address, family) ? unserved_error() : 0;
	/* No slot proves that there are none, nor who is whose client. */
	if (unlikely(!row.count || row.flags & LB_AFFINITY) && !service_inside(&key, &row, SERVICE_SURE, family))
		return 0;
	/* The set of the first of some neighbours is in no cache: it comes while the backend is chosen. */
	socket = bpf_get_socket_cookie(ctx);
	set = socket_set(socket);
	if (set)
		note_socket(set, 0);
	/* Sockets of a network namespace are one client. */
	if (row.flags & LB_AFFINITY) {
		__u64 netns = bpf_get_netns_cookie(ctx);

		__builtin_memcpy(&client.id, &netns, sizeof(netns));
	}
	code = backend_choose(&key, &row, &client, 0, &backend, family);
	if (code < 0)
		return drop_file_of(code) == FILE_REFUSE_H ? unserved_error() : -EHOSTUNREACH;
	end->address = backend.address;
	end->port = backend.port;
	/* Without the note the socket would not know whom it hears; it may come again. */
	return socket_note(set, socket, &service, end, row.rev_nat, family) ? -EHOSTUNREACH : 1;
}

always_inline int socket_balance(struct bpf_sock_addr *ctx, struct end *end)
{
	if (end->family == FAMILY_IPV4)
		return balance_family(ctx, end, FAMILY_IPV4);
	return balance_family(ctx, end, FAMILY_IPV6);
}
