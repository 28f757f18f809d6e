/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Who is behind an interface or an address. */
#pragma once

#include "features.h"
#include "flow.h"
#include "maps.h"

/* Copies the row of an interface. A row may be freed and reused for another interface while it is
 * read; then its ifindex tells, and the row that took its place is read. So is one that was missed
 * because it was just replaced, as row_find() tells. */
always_inline bool config_read(__u32 ifindex, struct config_row *row)
{
	for (int attempt = 0; attempt < 2; attempt++) {
		struct config_row *live = bpf_map_lookup_elem(&volvox_config, &ifindex);

		if (!live)
			continue;
		*row = *live;
		keep_apart();
		if (likely(*(volatile __u32 *)&live->ifindex == ifindex))
			return true;
	}
	return false;
}

always_inline struct lxc_key lxc_key(const union address *address, int family)
{
	struct lxc_key key = {.family = family};

	__builtin_memcpy(key.address, address, sizeof(key.address));
	return key;
}

/* The local endpoint, or the node itself, behind an address. */
always_inline struct lxc_row *lxc_find(const union address *address, int family)
{
	struct lxc_key key = lxc_key(address, family);

	return row_find(&cilium_lxc, &key);
}

/* The same where there mostly is none, and little is lost if one is missed that is just replaced. */
always_inline struct lxc_row *lxc_lookup(const union address *address, int family)
{
	struct lxc_key key = lxc_key(address, family);

	return bpf_map_lookup_elem(&cilium_lxc, &key);
}

always_inline __u32 identity_world(int family)
{
	if (ENABLE_IPV4 && ENABLE_IPV6)
		return family == FAMILY_IPV4 ? IDENTITY_WORLD_IPV4 : IDENTITY_WORLD_IPV6;
	return IDENTITY_WORLD;
}

/* Whether an identity is of somebody outside the cluster. */
always_inline bool identity_is_outside(__u32 identity)
{
	return identity == IDENTITY_WORLD || identity == IDENTITY_WORLD_IPV4 || identity == IDENTITY_WORLD_IPV6 ||
	       identity >= IDENTITY_LOCAL;
}

/* Whether an identity is another node's, by whichever labels. */
always_inline bool identity_is_node(__u32 identity)
{
	return identity == IDENTITY_REMOTE_NODE || identity == IDENTITY_KUBE_APISERVER ||
	       identity >> IDENTITY_SCOPE_SHIFT == IDENTITY_SCOPE_NODE;
}

/* Whether an identity is an endpoint's, of this node or another one. */
always_inline bool identity_is_endpoint(__u32 identity)
{
	return identity != IDENTITY_HOST && !identity_is_node(identity) && !identity_is_outside(identity);
}

/* What the cluster knows of an address. */
always_inline struct ipcache_row *ipcache_find(const union address *address, int family)
{
	struct ipcache_key key = {
		.prefix_len = 32 + (family == FAMILY_IPV4 ? 32 : 128),
		.family = family,
	};

	__builtin_memcpy(key.address, address, sizeof(key.address));
	return bpf_map_lookup_elem(&cilium_ipcache_v2, &key);
}

always_inline __u32 identity_in(const struct ipcache_row *row, int family)
{
	return row && row->identity ? row->identity : identity_world(family);
}

/* Whether what an address is reached by is the overlay, if there is one. */
always_inline bool ipcache_is_tunneled(const struct ipcache_row *row)
{
	return (row->flags & (IPCACHE_HAS_TUNNEL | IPCACHE_SKIP_TUNNEL)) == IPCACHE_HAS_TUNNEL;
}

always_inline __u32 identity_of(const union address *address, int family)
{
	return identity_in(ipcache_find(address, family), family);
}

/* Whether packets of this kind carry those of the overlay. */
always_inline bool is_outer(__u8 protocol, __be16 port)
{
	struct node_row *node;
	__u32 zero = 0;

	if (protocol != IPPROTO_UDP)
		return false;
	node = bpf_map_lookup_elem(&volvox_node, &zero);
	return node && node->tunnel_ifindex && node->tunnel_port && port == node->tunnel_port;
}

/* The receiver of a packet, as the cluster knows it: its identity, and in the packet how it is reached. */
always_inline __u32 identity_reached(struct packet *packet, int family)
{
	struct ipcache_row *row = ipcache_find(&packet->daddr, family);

	if (row)
		packet->reach = row->flags;
	return identity_in(row, family);
}

/* The same of a receiver that may be on this node: the row of its address saves the longer lookup. What leads no
 * further than the link is for the node at its other end. */
always_inline __u32 identity_of_receiver(const struct lxc_row *lxc, struct packet *packet, int family)
{
	if (lxc ? lxc->flags & LXC_HOST : address_is_of_link(&packet->daddr, family))
		return IDENTITY_HOST;
	return lxc && lxc->sec_id ? lxc->sec_id : identity_reached(packet, family);
}

/* Packet marks: the kind in bits 8 to 11, the identity around them. Only this node sets them; they
 * do not survive a change of network namespace. */
#define MARK_KIND 0x0f00
#define MARK_KIND_IDENTITY 0x0f00
#define MARK_KIND_HOST 0x0c00
/* The source is what it shall be on the wire. */
#define MARK_KIND_SNAT_DONE 0x0300
/* A packet of the overlay, of the node's own. */
#define MARK_KIND_OVERLAY 0x0400

always_inline __u32 identity_mark(__u32 identity, __u32 kind)
{
	return (identity & 0xffff) << 16 | (identity >> 16 & 0xff) | kind;
}

always_inline __u32 marked_identity(__u32 mark)
{
	return (mark & 0xff) << 16 | mark >> 16;
}

/* The sender of a packet that the host's stack sends to an endpoint, or to the wire. */
always_inline __u32 identity_of_sender(struct __sk_buff *skb, const union address *source, int family)
{
	__u32 mark = skb->mark;

	if ((mark & MARK_KIND) == MARK_KIND_IDENTITY)
		return marked_identity(mark);
	if ((mark & MARK_KIND) == MARK_KIND_HOST)
		return IDENTITY_HOST;
	return identity_of(source, family);
}
