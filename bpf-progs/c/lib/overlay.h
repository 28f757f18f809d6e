/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The overlay: packets to other nodes' endpoints within packets to those nodes, with the sender's
 * identity. */
#pragma once

#include "events.h"
#include "lookup.h"

#define OVERLAY_DROP(reason) DROP_FROM(FILE_OVERLAY_H, reason)

#define OVERLAY_HOP_LIMIT 64

/* Whether other nodes are reached through the overlay, and know no way to endpoints beside it. */
always_inline bool node_has_tunnel(void)
{
	__u32 zero = 0;
	struct node_row *node = bpf_map_lookup_elem(&volvox_node, &zero);

	return node && node->tunnel_ifindex;
}

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

/* The node that sent a packet through the overlay: the source of the outer one. */
struct carrier {
	union address node;
	int family;
};

/* Who is told by the tunnel to have sent a packet, and by which node: an identity, or -1 if nothing is told. */
subprogram int carried_identity(struct __sk_buff *skb, struct carrier *by)
{
	struct bpf_tunnel_key key = {};

	if (!by)
		return -1;
	if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), 0)) {
		by->family = FAMILY_IPV4;
		by->node = (union address){.v4 = bpf_htonl(key.remote_ipv4)};
	} else if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), BPF_F_TUNINFO_IPV6)) {
		by->family = FAMILY_IPV6;
		__builtin_memcpy(&by->node, key.remote_ipv6, 16);
	} else {
		return -1;
	}
	return key.tunnel_id;
}

/* Whether something lives behind a node, by the address that the cluster knows of that node. */
always_inline bool is_behind(const struct ipcache_row *row, const union address *node, int family)
{
	union address endpoint;

	if (!(row->flags & IPCACHE_HAS_TUNNEL) || (family == FAMILY_IPV6) != !!(row->flags & IPCACHE_IPV6_TUNNEL))
		return false;
	__builtin_memcpy(&endpoint, row->tunnel_endpoint, 16);
	return address_equal(&endpoint, node, family);
}

/* Whether another node of the cluster speaks, and it is the one behind which the source of its packet lives, where
 * one is known. A node may speak from any of its addresses, whose rows name the same one. */
subprogram int carrier_may(const struct carrier *by, const struct ipcache_row *source)
{
	union address endpoint = {};
	struct ipcache_row *node;
	int family;

	if (!by || !source)
		return false;
	node = by->family == FAMILY_IPV4 ? ipcache_find(&by->node, FAMILY_IPV4) : ipcache_find(&by->node, FAMILY_IPV6);
	if (!node || !identity_is_node(node->identity))
		return false;
	if (!(source->flags & IPCACHE_HAS_TUNNEL))
		return true;
	__builtin_memcpy(&endpoint, source->tunnel_endpoint, 16);
	family = source->flags & IPCACHE_IPV6_TUNNEL ? FAMILY_IPV6 : FAMILY_IPV4;
	return is_behind(node, &endpoint, family);
}

/* Whom a packet of the overlay is from, or a drop. Only nodes of the cluster speak there, each for what lives behind
 * it. They tell of endpoints that are not known here yet, of clients for whom they stand, and of the world; of an
 * endpoint that is known it counts what is known. A node is never this one. */
subprogram int overlay_sender(__u32 carried, const struct carrier *by, const struct packet *packet, int family)
{
	struct ipcache_row *row, source = {};
	__u32 known;

	if (!by || !packet)
		return OVERLAY_DROP(DROP_INVALID_PACKET);
	row = family == FAMILY_IPV4 ? ipcache_find(&packet->saddr, FAMILY_IPV4)
				    : ipcache_find(&packet->saddr, FAMILY_IPV6);
	if (row)
		source = *row;
	if (!is_behind(&source, &by->node, by->family) && !carrier_may(by, &source))
		return OVERLAY_DROP(DROP_INVALID_SOURCE_IP);
	known = identity_in(&source, family);
	if (identity_is_outside(carried))
		/* A client's packet has its own source. */
		return ENABLE_DSR && identity_is_outside(known) ? known : carried;
	if (identity_is_endpoint(known))
		return known;
	return carried && carried != IDENTITY_HOST ? carried : IDENTITY_REMOTE_NODE;
}
