/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Out to other machines by the node's own routes, past its stack, which would not take a service's
 * address, or another machine's, for the source of what it sends. */
#pragma once

#include "deliver.h"

#define ROUTE_DROP(reason) DROP_FROM(FILE_ROUTE_H, reason)

struct route {
	__u32 ifindex;
	struct bpf_redir_neigh hop;
};

always_inline int route_find_family(struct __sk_buff *skb, const struct packet *packet, struct route *route,
				    int family)
{
	struct bpf_fib_lookup found = {
		.family = family == FAMILY_IPV4 ? AF_INET : AF_INET6,
		.l4_protocol = packet->protocol,
		.sport = packet->sport,
		.dport = packet->dport,
		.ifindex = skb->ifindex,
	};

	if (family == FAMILY_IPV4) {
		found.ipv4_src = packet->saddr.v4;
		found.ipv4_dst = packet->daddr.v4;
	} else {
		__builtin_memcpy(found.ipv6_src, &packet->saddr, 16);
		__builtin_memcpy(found.ipv6_dst, &packet->daddr, 16);
	}
	if (bpf_fib_lookup(skb, &found, sizeof(found), BPF_FIB_LOOKUP_SKIP_NEIGH))
		return ROUTE_DROP(DROP_NO_FIB);
	route->ifindex = found.ifindex;
	/* A gateway of IPv4 may have an address of IPv6. */
	route->hop.nh_family = found.family;
	__builtin_memcpy(route->hop.ipv6_nh, found.ipv6_dst, 16);
	return 0;
}

/* Finds the device and the next machine on the way to the packet's destination. */
subprogram int route_find(struct __sk_buff *skb, const struct packet *packet, struct route *route, int family)
{
	if (!packet || !route)
		return ROUTE_DROP(DROP_INVALID_PACKET);
	return family == FAMILY_IPV4 ? route_find_family(skb, packet, route, FAMILY_IPV4)
				     : route_find_family(skb, packet, route, FAMILY_IPV6);
}

always_inline int route_hop(struct __sk_buff *skb, int family)
{
	__u32 ip_bytes = family == FAMILY_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	void *ip = packet_bytes(skb, ETH_HLEN, ip_bytes);

	if (!ip)
		return ROUTE_DROP(DROP_INVALID_PACKET);
	one_hop(ip, family);
	return 0;
}

/* Sends a packet there, with the source that it has. */
always_inline int route_out(struct __sk_buff *skb, const struct packet *packet, struct route *route, int family)
{
	int code;

	if (packet->hop_limit <= 1)
		return ROUTE_DROP(DROP_TTL_EXCEEDED);
	code = route_hop(skb, family);
	if (code < 0)
		return code;
	skb->mark = MARK_KIND_SNAT_DONE;
	metrics_forwarded(skb, EGRESS);
	return bpf_redirect_neigh(route->ifindex, &route->hop, sizeof(route->hop), 0);
}

/* Sends a packet that has its source on its way. */
subprogram int route(struct __sk_buff *skb, const struct flow *flow, const struct packet *packet, int admitted)
{
	struct route route = {};
	int code;

	if (!flow || !packet)
		return ROUTE_DROP(DROP_INVALID_PACKET);
	code = route_find(skb, packet, &route, flow->family);
	if (code < 0)
		return code;
	trace(skb, flow, TRACE_TO_NETWORK, admitted, route.ifindex);
	return route_out(skb, packet, &route, flow->family);
}
