/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The node itself as an endpoint: a policy says what it may hear, and what it may send. Without a row in
 * volvox_config it has none, and all passes.
 *
 * What it speaks with an endpoint of its own passes two policies. They share the tables of connections but
 * no entry: the opener's is TUPLE_OUT, the other's TUPLE_IN, each end looks up the two that are its own,
 * by the same addresses, and so each permits by what it has let pass itself. Only address translation
 * makes an entry without asking, of what the node sends; CT_ANSWERS marks it where the node answers. */
#pragma once

#include "admit.h"
#include "lookup.h"

/* Nobody is asked about a packet. */
#define HOST_UNASKED 0x200

struct host {
	__u32 policy_slot;
	__u16 ep_id;
	__u16 notify;
};

/* Copies what counts of the node's row, as config_read() does. */
always_inline bool host_read(struct host *host)
{
	__u32 ifindex = HOST_IFINDEX;

	for (int attempt = 0; attempt < 2; attempt++) {
		struct config_row *live = bpf_map_lookup_elem(&volvox_config, &ifindex);

		if (!live)
			continue;
		host->policy_slot = live->policy_slot;
		host->ep_id = live->ep_id;
		host->notify = live->flags;
		keep_apart();
		if (likely(*(volatile __u32 *)&live->ifindex == HOST_IFINDEX))
			return true;
	}
	return false;
}

/* The address by which endpoints are routed: the node's own, and no device's that has a row. It is the source of
 * what the node sends through the overlay, which other nodes know to be behind it. Returns whether it is told. */
always_inline bool host_router(union address *router, int family)
{
	__u32 zero = 0;
	struct node_row *node = bpf_map_lookup_elem(&volvox_node, &zero);

	*router = (union address){};
	if (!node)
		return false;
	if (family == FAMILY_IPV4)
		router->v4 = node->router_ipv4;
	else
		__builtin_memcpy(router, node->router_ipv6, 16);
	return !address_is_zero(router);
}

/* Whether an address is that one. */
subprogram int host_routes(const union address *address, int family)
{
	union address router;

	return address && host_router(&router, family) && address_equal(address, &router, family);
}

/* Whether an address is the node's own. `lxc` is the row of the address; `own` a device's, if
 * one counts. */
always_inline bool host_has(const union address *address, const struct lxc_row *lxc, const union address *own,
			    int family)
{
	if (family == FAMILY_IPV6 && address_is_link_local(address))
		return true;
	if (lxc)
		return lxc->flags & LXC_HOST;
	return (own && address_equal(address, own, family)) || (ENABLE_HOST_FIREWALL && host_routes(address, family));
}

/* The state of the socket that the node's stack has for a packet, in TCP's words; 0 without one. */
subprogram int host_socket(struct __sk_buff *skb, const struct packet *packet, int family)
{
	struct bpf_sock_tuple ends = {};
	struct bpf_sock *sock;
	__u32 size, state;

	if (!packet || (packet->protocol != IPPROTO_TCP && packet->protocol != IPPROTO_UDP))
		return 0;
	if (family == FAMILY_IPV4) {
		ends.ipv4.saddr = packet->saddr.v4;
		ends.ipv4.daddr = packet->daddr.v4;
		ends.ipv4.sport = packet->sport;
		ends.ipv4.dport = packet->dport;
		size = sizeof(ends.ipv4);
	} else {
		__builtin_memcpy(ends.ipv6.saddr, &packet->saddr, 16);
		__builtin_memcpy(ends.ipv6.daddr, &packet->daddr, 16);
		ends.ipv6.sport = packet->sport;
		ends.ipv6.dport = packet->dport;
		size = sizeof(ends.ipv6);
	}
	if (packet->protocol == IPPROTO_UDP) {
		sock = bpf_sk_lookup_udp(skb, &ends, size, BPF_F_CURRENT_NETNS, 0);
		if (!sock)
			return 0;
		bpf_sk_release(sock);
		return BPF_TCP_ESTABLISHED;
	}
	sock = bpf_skc_lookup_tcp(skb, &ends, size, BPF_F_CURRENT_NETNS, 0);
	if (!sock)
		return 0;
	state = sock->state;
	bpf_sk_release(sock);
	return state;
}

/* Whether the node's stack has the connection of a TCP packet that opens none. */
always_inline bool host_is_connected(struct __sk_buff *skb, const struct packet *packet, int family)
{
	int state = host_socket(skb, packet, family);

	return state && state != BPF_TCP_LISTEN && state != BPF_TCP_NEW_SYN_RECV;
}

/* Whether a refused packet is of a connection that the node opened before it had a policy, so that no table
 * knows it. Its port tells who opened it, its socket that it is one: nobody gets there without a SYN that
 * a policy let in. What the node sends next makes the entry by which others pass as answers. */
always_inline bool host_had_before(struct __sk_buff *skb, const struct packet *packet, int family)
{
	return packet->protocol == IPPROTO_TCP && !packet->headless && !packet->icmp_error &&
	       !(packet->tcp_flags & TCP_SYN) && bpf_ntohs(packet->dport) >= EPHEMERAL_PORT_MIN &&
	       bpf_ntohs(packet->sport) < EPHEMERAL_PORT_MIN && host_is_connected(skb, packet, family);
}

/* Whether a packet is one of the overlay's outer ones, or an error about one: policies see what is in them. */
subprogram int host_carries(struct __sk_buff *skb, const struct packet *packet, int family)
{
	struct packet inner = {};

	if (!packet || packet->headless)
		return false;
	if (!packet->icmp_error)
		return is_outer(packet->protocol, packet->dport);
	return !inner_read(skb, packet, &inner, family) && is_outer(inner.protocol, inner.dport);
}

/* Whether there is a policy to ask about a packet, and which. Neighbours find each other without one,
 * and what goes to many is free. */
always_inline bool host_asks(struct __sk_buff *skb, const struct packet *packet, struct host *host, int family)
{
	if (!ENABLE_HOST_FIREWALL || address_is_many(&packet->daddr, family))
		return false;
	if (family == FAMILY_IPV6 && nd_is(packet, ND_ROUTER_SOLICITATION, ND_REDIRECT))
		return false;
	return !host_carries(skb, packet, family) && host_read(host);
}

/* Why a packet that could not be read to its end drops; 0 for what the policy can still judge by its
 * addresses. */
always_inline int host_unread(int parsed)
{
	return parsed < 0 && drop_reason_of(parsed) != DROP_UNKNOWN_L4 ? parsed : 0;
}

/* Asks the node's policy about a packet to it. `parsed` is what reading its headers said. Returns a drop,
 * or as admit(). */
always_inline int host_hear(struct __sk_buff *skb, struct flow *flow, struct packet *packet, const struct host *host,
			    int parsed)
{
	int code = host_unread(parsed);

	flow->direction = INGRESS;
	flow->source = flow->dst_ep = host->ep_id;
	flow->notify = host->notify;
	flow->dst_identity = IDENTITY_HOST;
	if (code < 0)
		return code;
	code = admit(skb, flow, packet, host->policy_slot);
	if (code >= 0)
		trace(skb, flow, TRACE_TO_HOST, code, 0);
	return code;
}

/* Asks the node's policy about a packet of its own. */
always_inline int host_speak(struct __sk_buff *skb, struct flow *flow, struct packet *packet, const struct host *host,
			     int parsed)
{
	int code = host_unread(parsed);

	flow->direction = EGRESS;
	flow->source = host->ep_id;
	flow->notify = host->notify;
	flow->src_identity = IDENTITY_HOST;
	return code < 0 ? code : admit(skb, flow, packet, host->policy_slot);
}

/* The same about a packet that leaves, if the node sends it itself. `lxc` is the row of its source, `own` an
 * address of the node beside those that have rows. Returns HOST_UNASKED, or as admit(). */
always_inline int host_sends(struct __sk_buff *skb, struct flow *flow, struct packet *packet,
			     const struct lxc_row *lxc, const union address *own, int parsed)
{
	struct host host;
	int code;

	/* What endpoints send by way of the stack has marks that say so, whatever its source has become. */
	if (!ENABLE_HOST_FIREWALL || flow->src_identity != IDENTITY_HOST ||
	    !host_has(&packet->saddr, lxc, own, flow->family) || !host_asks(skb, packet, &host, flow->family))
		return HOST_UNASKED;
	flow->dst_identity = identity_of(&packet->daddr, flow->family);
	code = host_speak(skb, flow, packet, &host, parsed);
	packet->entry_flags = (code & ~ADMIT_REPORT) == CT_REPLY ? CT_ANSWERS : 0;
	return code;
}
