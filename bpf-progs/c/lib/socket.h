/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What load balancing by socket does to an address and port, of whichever hook. */
#pragma once

#include "backend.h"

/* The network namespace of the node itself; 0 is the machine's first one. */
const volatile __u64 HOST_NETNS = 0;

always_inline bool is_of_node(__u64 netns)
{
	return netns == (HOST_NETNS ? HOST_NETNS : bpf_get_netns_cookie(NULL));
}

/* An end of a socket, as a hook shows it. IPv4 may stand within IPv6. */
struct end {
	union address address;
	__be16 port;
	__u8 family;
};

/* From errno.h, which draws in the C library. */
#define EADDRINUSE 98
#define EHOSTUNREACH 113

/* What cgroup hooks return. */
#define REFUSE 0
#define PROCEED 1

always_inline int refuse(int error)
{
	bpf_set_retval(-error);
	return REFUSE;
}

/* IPv4 within IPv6 is IPv4. */
always_inline struct end end_of(__u32 a, __u32 b, __u32 c, __u32 d, __be16 port)
{
	struct end end = {.port = port, .family = FAMILY_IPV6};

	if (!a && !b && c == bpf_htonl(0xffff)) {
		end.family = FAMILY_IPV4;
		end.address.v4 = d;
	} else {
		end.address.words[0] = a;
		end.address.words[1] = b;
		end.address.words[2] = c;
		end.address.words[3] = d;
	}
	return end;
}

always_inline struct end end_of_ipv4(__be32 address, __be16 port)
{
	struct end end = {.port = port, .family = FAMILY_IPV4};

	end.address.v4 = address;
	return end;
}

union reverse_sk_key {
	struct reverse_sk4_key v4;
	struct reverse_sk6_key v6;
};

always_inline void reverse_sk_key(union reverse_sk_key *key, __u64 socket, const struct end *backend, int family)
{
	if (family == FAMILY_IPV4) {
		key->v4 = (struct reverse_sk4_key){
			.cookie = socket,
			.address = backend->address.v4,
			.port = backend->port,
		};
	} else {
		key->v6 = (struct reverse_sk6_key){.cookie = socket, .port = backend->port};
		__builtin_memcpy(key->v6.address, &backend->address, 16);
	}
}

/* Whether that is noted already. */
always_inline bool reverse_sk_is_noted(const union reverse_sk_key *key, const struct end *service, __be16 rev_nat,
				       int family)
{
	union address before;

	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row *row = bpf_map_lookup_elem(&cilium_lb4_reverse_sk, key);

		return row && row->address == service->address.v4 && row->port == service->port &&
		       row->rev_nat == rev_nat;
	} else {
		struct reverse_sk6_row *row = bpf_map_lookup_elem(&cilium_lb6_reverse_sk, key);

		if (!row)
			return false;
		__builtin_memcpy(&before, row->address, 16);
		return address_equal(&before, &service->address, family) && row->port == service->port &&
		       row->rev_nat == rev_nat;
	}
}

/* Notes what a socket asked for, by the backend that it was given. `again` says that it is likely to be
 * noted already, as with datagrams: looking first is cheaper by far then. */
always_inline long reverse_sk_note(__u64 socket, const struct end *service, const struct end *backend,
				   __be16 rev_nat, bool again, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));

	reverse_sk_key(&key, socket, backend, family);
	if (again && reverse_sk_is_noted(&key, service, rev_nat, family))
		return 0;
	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row row = {
			.address = service->address.v4,
			.port = service->port,
			.rev_nat = rev_nat,
		};

		return bpf_map_update_elem(&cilium_lb4_reverse_sk, &key, &row, BPF_ANY);
	} else {
		struct reverse_sk6_row row = {.port = service->port, .rev_nat = rev_nat};

		__builtin_memcpy(row.address, &service->address, 16);
		return bpf_map_update_elem(&cilium_lb6_reverse_sk, &key, &row, BPF_ANY);
	}
}

/* Replaces a backend by the service that the socket asked for. Returns whether there was one. */
always_inline bool reverse_sk_find(__u64 socket, struct end *end, int family)
{
	union reverse_sk_key key __attribute__((aligned(8)));

	reverse_sk_key(&key, socket, end, family);
	if (family == FAMILY_IPV4) {
		struct reverse_sk4_row *row = bpf_map_lookup_elem(&cilium_lb4_reverse_sk, &key);

		if (!row)
			return false;
		end->address.v4 = row->address;
		end->port = row->port;
	} else {
		struct reverse_sk6_row *row = bpf_map_lookup_elem(&cilium_lb6_reverse_sk, &key);

		if (!row)
			return false;
		__builtin_memcpy(&end->address, row->address, 16);
		end->port = row->port;
	}
	return true;
}

always_inline bool socket_restore(__u64 socket, struct end *end)
{
	if (end->family == FAMILY_IPV4)
		return reverse_sk_find(socket, end, FAMILY_IPV4);
	return reverse_sk_find(socket, end, FAMILY_IPV6);
}

/* Whether an address leads back to where it is used. */
always_inline bool address_is_here(const union address *address, int family)
{
	if (family == FAMILY_IPV4)
		return !address->v4 || (address->v4 & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return !address->words[0] && !address->words[1] && !address->words[2] &&
	       (address->words[3] & ~bpf_htonl(1)) == 0;
}

/* Replaces a service by one of its backends, for a connection or, `again` and again, for datagrams.
 * Returns 1 if it did, 0 if this is no service, below zero if it has no backend. */
always_inline int balance_family(struct bpf_sock_addr *ctx, struct end *end, bool again, int family)
{
	union lb_key key __attribute__((aligned(8)));
	struct client client = {.is_cookie = true};
	struct end service = *end;
	struct backend backend;
	struct lb_row *row;
	__be16 rev_nat;

	/* What leads back to the node stands for all its addresses; to a pod, for the pod. */
	if (unlikely(address_is_here(&end->address, family))) {
		const union address all = {};

		if (!is_of_node(bpf_get_netns_cookie(ctx)))
			return 0;
		service_key(&key, &all, end->port, ctx->protocol, family);
	} else {
		service_key(&key, &end->address, end->port, ctx->protocol, family);
	}
	row = service_inside(&key, family);
	if (!row)
		return 0;
	rev_nat = row->rev_nat;
	/* Sockets of a network namespace are one client. */
	if (row->flags & LB_AFFINITY) {
		__u64 netns = bpf_get_netns_cookie(ctx);

		__builtin_memcpy(&client.id, &netns, sizeof(netns));
	}
	if (backend_choose(&key, row, &client, 0, &backend, family) < 0)
		return -1;
	end->address = backend.address;
	end->port = backend.port;
	/* Without the note the socket would not know whom it hears; it may come again. */
	return reverse_sk_note(bpf_get_socket_cookie(ctx), &service, end, rev_nat, again, family) ? -1 : 1;
}

subprogram int balance_ipv4(struct bpf_sock_addr *ctx, struct end *end, bool again)
{
	return end ? balance_family(ctx, end, again, FAMILY_IPV4) : -1;
}

subprogram int balance_ipv6(struct bpf_sock_addr *ctx, struct end *end, bool again)
{
	return end ? balance_family(ctx, end, again, FAMILY_IPV6) : -1;
}

always_inline int socket_balance(struct bpf_sock_addr *ctx, struct end *end, bool again)
{
	return end->family == FAMILY_IPV4 ? balance_ipv4(ctx, end, again) : balance_ipv6(ctx, end, again);
}
