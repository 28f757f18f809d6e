/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The overlay: packets to other nodes' endpoints within packets to those nodes, with the sender's
 * identity. */
#pragma once

#include "events.h"
#include "lookup.h"

#define OVERLAY_DROP(reason) DROP_FROM(FILE_OVERLAY_H, reason)

#define OVERLAY_HOP_LIMIT 64

/* The overlay's device, if that is the way to the packet's receiver; else 0. */
always_inline __u32 overlay_to(const struct packet *packet)
{
	struct node_row *node;
	__u32 zero = 0;

	if (likely((packet->reach & (IPCACHE_HAS_TUNNEL | IPCACHE_SKIP_TUNNEL)) != IPCACHE_HAS_TUNNEL))
		return 0;
	node = bpf_map_lookup_elem(&volvox_node, &zero);
	return node ? node->tunnel_ifindex : 0;
}

/* What other nodes are told of a sender: identities that mean something here only are the world. */
always_inline __u32 overlay_identity(__u32 identity, int family)
{
	return identity < IDENTITY_LOCAL ? identity : identity_world(family);
}

/* Sends a packet by the overlay's device to the node of its receiver. */
subprogram int overlay_out(struct __sk_buff *skb, const struct flow *flow, const struct packet *packet, __u32 ifindex,
			   int admitted)
{
	struct bpf_tunnel_key key = {.tunnel_ttl = OVERLAY_HOP_LIMIT};
	__u64 flags = BPF_F_ZERO_CSUM_TX;
	struct ipcache_row *row;

	if (!flow || !packet)
		return OVERLAY_DROP(DROP_INVALID_PACKET);
	row = ipcache_find(&packet->daddr, flow->family);
	if (!row)
		return OVERLAY_DROP(DROP_NO_TUNNEL);
	key.tunnel_id = overlay_identity(flow->src_identity, flow->family);
	if (row->flags & IPCACHE_IPV6_TUNNEL) {
		__builtin_memcpy(key.remote_ipv6, row->tunnel_endpoint, 16);
		flags = BPF_F_TUNINFO_IPV6;
	} else {
		__builtin_memcpy(&key.remote_ipv4, row->tunnel_endpoint, 4);
		key.remote_ipv4 = bpf_ntohl(key.remote_ipv4);
	}
	if (bpf_skb_set_tunnel_key(skb, &key, sizeof(key), flags))
		return OVERLAY_DROP(DROP_WRITE_ERROR);
	skb->mark = MARK_KIND_OVERLAY;
	trace(skb, flow, TRACE_TO_OVERLAY, admitted, ifindex);
	metrics_forwarded(skb, EGRESS);
	return bpf_redirect(ifindex, 0);
}

/* Names the sender of a packet that the stack sends by the overlay's device: its route says of all that it is
 * the node. */
subprogram int overlay_tell(struct __sk_buff *skb, __u32 identity)
{
	struct bpf_tunnel_key key = {.tunnel_id = identity, .tunnel_ttl = OVERLAY_HOP_LIMIT}, routed = {};
	__u64 flags = BPF_F_ZERO_CSUM_TX;

	/* Of what leaves, the kernel shows the far end in the place of this one. */
	if (!bpf_skb_get_tunnel_key(skb, &routed, sizeof(routed), 0)) {
		key.remote_ipv4 = routed.local_ipv4;
	} else if (!bpf_skb_get_tunnel_key(skb, &routed, sizeof(routed), BPF_F_TUNINFO_IPV6)) {
		__builtin_memcpy(key.remote_ipv6, routed.local_ipv6, sizeof(key.remote_ipv6));
		flags = BPF_F_TUNINFO_IPV6;
	} else {
		return OVERLAY_DROP(DROP_NO_TUNNEL);
	}
	if (bpf_skb_set_tunnel_key(skb, &key, sizeof(key), flags))
		return OVERLAY_DROP(DROP_WRITE_ERROR);
	skb->mark = MARK_KIND_OVERLAY;
	return 0;
}

/* Who outside the cluster an address is: this node may know it more closely than the one that sent the
 * packet. */
subprogram int overlay_client(__u32 carried, const struct packet *packet, int family)
{
	__u32 known;

	if (!packet)
		return carried;
	known = family == FAMILY_IPV4 ? identity_of(&packet->saddr, FAMILY_IPV4)
				      : identity_of(&packet->saddr, FAMILY_IPV6);
	return identity_is_outside(known) ? known : carried;
}

/* Whom a packet of the overlay is from. Other nodes speak for their endpoints and for the world; a node
 * is never this one. */
always_inline __u32 overlay_sender(__u32 carried, const struct packet *packet, int family)
{
	if (!carried || carried == IDENTITY_HOST)
		return IDENTITY_REMOTE_NODE;
	if (carried >= IDENTITY_LOCAL)
		return identity_of(&packet->saddr, family);
	/* A client's packet has its own source. */
	if (ENABLE_DSR && identity_is_outside(carried))
		return overlay_client(carried, packet, family);
	return carried;
}
