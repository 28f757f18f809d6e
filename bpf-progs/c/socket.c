/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Load balancing by socket: a connection to a service is one to a backend from the start, so that its
 * packets need no translation. The programs run for the sockets of a cgroup. */

#include "lib/socket.h"

always_inline int forth_ipv4(struct bpf_sock_addr *ctx)
{
	struct end end = end_of_ipv4(ctx->user_ip4, ctx->user_port);
	int balanced = balance_family(ctx, &end, FAMILY_IPV4);

	if (balanced < 0)
		return refuse(-balanced);
	if (balanced) {
		ctx->user_ip4 = end.address.v4;
		ctx->user_port = end.port;
	}
	return PROCEED;
}

/* The address of a hook of IPv6. */
always_inline struct end end_of_ipv6(struct bpf_sock_addr *ctx)
{
	return end_of(ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3], ctx->user_port);
}

/* IPv4 within IPv6 stays within it. */
always_inline void put_ipv6(struct bpf_sock_addr *ctx, const struct end *end)
{
	if (end->family == FAMILY_IPV4) {
		ctx->user_ip6[3] = end->address.v4;
	} else {
		ctx->user_ip6[0] = end->address.words[0];
		ctx->user_ip6[1] = end->address.words[1];
		ctx->user_ip6[2] = end->address.words[2];
		ctx->user_ip6[3] = end->address.words[3];
	}
	ctx->user_port = end->port;
}

always_inline int forth_ipv6(struct bpf_sock_addr *ctx)
{
	struct end end = end_of_ipv6(ctx);
	int balanced = socket_balance(ctx, &end);

	if (balanced < 0)
		return refuse(-balanced);
	if (balanced)
		put_ipv6(ctx, &end);
	return PROCEED;
}

always_inline int back_ipv4(struct bpf_sock_addr *ctx)
{
	struct end end = end_of_ipv4(ctx->user_ip4, ctx->user_port);

	if (socket_recall(bpf_get_socket_cookie(ctx), &end, FAMILY_IPV4)) {
		ctx->user_ip4 = end.address.v4;
		ctx->user_port = end.port;
	}
	return PROCEED;
}

always_inline int back_ipv6(struct bpf_sock_addr *ctx)
{
	struct end end = end_of_ipv6(ctx);

	if (socket_restore(bpf_get_socket_cookie(ctx), &end))
		put_ipv6(ctx, &end);
	return PROCEED;
}

SEC("cgroup/connect4")
int cil_sock4_connect(struct bpf_sock_addr *ctx)
{
	return forth_ipv4(ctx);
}

SEC("cgroup/connect6")
int cil_sock6_connect(struct bpf_sock_addr *ctx)
{
	return forth_ipv6(ctx);
}

/* A datagram of a socket that is not connected, or to another address. */
SEC("cgroup/sendmsg4")
int cil_sock4_sendmsg(struct bpf_sock_addr *ctx)
{
	return forth_ipv4(ctx);
}

SEC("cgroup/sendmsg6")
int cil_sock6_sendmsg(struct bpf_sock_addr *ctx)
{
	return forth_ipv6(ctx);
}

SEC("cgroup/recvmsg4")
int cil_sock4_recvmsg(struct bpf_sock_addr *ctx)
{
	return back_ipv4(ctx);
}

SEC("cgroup/recvmsg6")
int cil_sock6_recvmsg(struct bpf_sock_addr *ctx)
{
	return back_ipv6(ctx);
}

SEC("cgroup/getpeername4")
int cil_sock4_getpeername(struct bpf_sock_addr *ctx)
{
	return back_ipv4(ctx);
}

SEC("cgroup/getpeername6")
int cil_sock6_getpeername(struct bpf_sock_addr *ctx)
{
	return back_ipv6(ctx);
}

/* Whether a port of the node's that a socket wants to have is a service's: one that is open on the
 * node's addresses has a row with the address that stands for all. */
always_inline bool is_taken(const struct end *end, __u8 protocol, int family)
{
	union lb_key key __attribute__((aligned(8)));
	union address all = {};
	struct lb_row row;

	service_key(&key, &end->address, end->port, protocol, family);
	if (!service_inside(&key, &row, SERVICE_SURE, family)) {
		service_key(&key, &all, end->port, protocol, family);
		if (!service_inside(&key, &row, SERVICE_SURE, family))
			return false;
	}
	return row.flags & (LB_NODE_PORT | LB_HOST_PORT | LB_EXTERNAL_IP | LB_LOAD_BALANCER) &&
	       !(row.flags2 & LB_L7);
}

/* What becomes of a socket at this end. */
always_inline int may_have(const struct end *end, __u8 protocol, __u64 netns)
{
	bool taken;

	if (!is_of_node(netns) || !end->port)
		return PROCEED;
	if (end->family == FAMILY_IPV4)
		taken = is_taken(end, protocol, FAMILY_IPV4);
	else
		taken = is_taken(end, protocol, FAMILY_IPV6);
	return taken ? refuse(EADDRINUSE) : PROCEED;
}

/* A socket of the node asks for a port: if that is a service's, it has it for no moment. */
SEC("cgroup/bind4")
int cil_sock4_bind(struct bpf_sock_addr *ctx)
{
	struct end end = end_of_ipv4(ctx->user_ip4, ctx->user_port);

	return may_have(&end, ctx->protocol, bpf_get_netns_cookie(ctx));
}

SEC("cgroup/bind6")
int cil_sock6_bind(struct bpf_sock_addr *ctx)
{
	struct end end = end_of_ipv6(ctx);

	return may_have(&end, ctx->protocol, bpf_get_netns_cookie(ctx));
}

/* A socket of the node got a port, perhaps one that the kernel chose, which must not be a service's either. */
SEC("cgroup/post_bind4")
int cil_sock4_post_bind(struct bpf_sock *ctx)
{
	struct end end = end_of_ipv4(ctx->src_ip4, bpf_htons(ctx->src_port));

	return may_have(&end, ctx->protocol, bpf_get_netns_cookie(ctx));
}

SEC("cgroup/post_bind6")
int cil_sock6_post_bind(struct bpf_sock *ctx)
{
	struct end end = end_of(ctx->src_ip6[0], ctx->src_ip6[1], ctx->src_ip6[2], ctx->src_ip6[3],
				bpf_htons(ctx->src_port));

	return may_have(&end, ctx->protocol, bpf_get_netns_cookie(ctx));
}

/* A socket is closed: what it asked for is forgotten. */
SEC("cgroup/sock_release")
int cil_sock_release(struct bpf_sock *ctx)
{
	__u64 socket = bpf_get_socket_cookie(ctx);
	struct end end;

	if (ctx->family == AF_INET)
		end = end_of_ipv4(ctx->dst_ip4, ctx->dst_port);
	else if (ctx->family == AF_INET6)
		end = end_of(ctx->dst_ip6[0], ctx->dst_ip6[1], ctx->dst_ip6[2], ctx->dst_ip6[3], ctx->dst_port);
	else
		return PROCEED;
	if (end.family == FAMILY_IPV4)
		socket_forget(socket, &end, FAMILY_IPV4);
	else
		socket_forget(socket, &end, FAMILY_IPV6);
	return PROCEED;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
