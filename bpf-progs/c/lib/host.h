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

#define HOST_DROP(reason) DROP_FROM(FILE_HOST_H, reason)

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
			return false;
		host->policy_slot = live->policy_slot;
		host->ep_id = live->ep_id;
		host->notify = live->flags;
		keep_apart();
		if (likely(*(volatile __u32 *)&live->ifindex == HOST_IFINDEX))
			return true;
	}
	return false;
}

/* Whether an address is the node's own. `lxc` is the row of the address; `own` a device's, if
 * one counts. */
always_inline bool host_has(const union address *address, const struct lxc_row *lxc, const union address *own,
			    int family)
{
	if (family == FAMILY_IPV6 && address_is_link_local(address))
		return true;
	return lxc ? lxc->flags & LXC_HOST : own && address_equal(address, own, family);
}

/* Whether a packet is one of the overlay's outer ones: policies see what is in it. */
always_inline bool host_carries(const struct packet *packet)
{
	struct node_row *node;
	__u32 zero = 0;

	if (packet->protocol != IPPROTO_UDP || packet->headless)
		return false;
	node = bpf_map_lookup_elem(&volvox_node, &zero);
	return node && node->tunnel_ifindex && node->tunnel_port && packet->dport == node->tunnel_port;
}

/* Whether there is a policy to ask about a packet, and which. Neighbours find each other without one,
 * and what goes to many is free. */
always_inline bool host_asks(const struct packet *packet, struct host *host, int family)
{
	if (!ENABLE_HOST_FIREWALL || address_is_many(&packet->daddr, family))
		return false;
	if (family == FAMILY_IPV6 && nd_is(packet, ND_ROUTER_SOLICITATION, ND_REDIRECT))
		return false;
	return !host_carries(packet) && host_read(host);
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
