/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What leaves by a device: whose source becomes the device's address, and the node's own. */
#pragma once

#include "device.h"
#include "snat_error.h"

#define MASQUERADE_DROP(reason) DROP_FROM(FILE_MASQUERADE_H, reason)

/* Whether an identity is of the cluster, where endpoints are known by their own addresses. */
always_inline bool identity_is_inside(__u32 identity)
{
	if (identity == IDENTITY_REMOTE_NODE || identity == IDENTITY_KUBE_APISERVER)
		return !node_has_tunnel();
	return identity == IDENTITY_HOST || identity == IDENTITY_HEALTH ||
	       (identity >= IDENTITY_GLOBAL && identity < IDENTITY_LOCAL);
}

/* Whether what goes there keeps its source. */
always_inline bool is_excluded(const union address *to, int family)
{
	void *excluded;

	if (family == FAMILY_IPV4) {
		struct prefix4_key key = {.prefix_len = 32, .address = to->v4};

		excluded = bpf_map_lookup_elem(&cilium_ipmasq_v4, &key);
	} else {
		struct prefix6_key key = {.prefix_len = 128};

		__builtin_memcpy(key.address, to, 16);
		excluded = bpf_map_lookup_elem(&cilium_ipmasq_v6, &key);
	}
	return excluded || identity_is_inside(identity_of(to, family));
}

/* The service by which an endpoint asked whom a packet is for; 0 if by none. */
subprogram int asked_service(const struct packet *packet, int family)
{
	struct ct_ends ends;
	struct ct_row *row;

	if (!packet)
		return 0;
	ends = ct_ends_of(packet);
	row = family == FAMILY_IPV4 ? ct_between(&ends, FAMILY_IPV4, TUPLE_OUT, false)
				    : ct_between(&ends, FAMILY_IPV6, TUPLE_OUT, false);
	return row ? row->rev_nat_index : 0;
}

/* Gives what an endpoint sends the device's address. A flow that has it keeps it, whatever is excluded
 * meanwhile. */
always_inline int masquerade_family(struct __sk_buff *skb, struct packet *packet, const union address *own,
				    int family)
{
	enum snat_age known;
	struct nat to = {};
	int code;

	known = snat_find(packet, &to, family);
	if (unlikely(known == SNAT_UNKNOWN || packet->tcp_flags & TCP_SYN)) {
		if (is_excluded(&packet->daddr, family))
			return 0;
		if (packet->headless)
			return MASQUERADE_DROP(DROP_FRAGMENT_NOT_SUPPORTED);
		if (!snat_can(packet, family))
			return MASQUERADE_DROP(DROP_NAT_UNSUPPORTED);
	}
	if (unlikely(known != SNAT_FRESH || !snat_is_steady(packet))) {
		code = snat_source(skb, packet, own, 0, &to, family);
		if (code < 0)
			return code;
		snat_tell(packet, own, to.port, asked_service(packet, family), family);
	}
	return snat_apply(skb, packet, &to, true, family);
}

subprogram int masquerade_ipv4(struct __sk_buff *skb, struct packet *packet, const union address *own)
{
	if (!packet || !own)
		return MASQUERADE_DROP(DROP_INVALID_PACKET);
	return masquerade_family(skb, packet, own, FAMILY_IPV4);
}

subprogram int masquerade_ipv6(struct __sk_buff *skb, struct packet *packet, const union address *own)
{
	if (!packet || !own)
		return MASQUERADE_DROP(DROP_INVALID_PACKET);
	return masquerade_family(skb, packet, own, FAMILY_IPV6);
}

/* Keeps the entry of a flow of the node's own alive, and makes it if there is none. Of what does not open one it
 * only keeps the port. */
subprogram int host_track(const struct flow *flow, struct packet *packet)
{
	struct ct_ends ends;
	struct ct_row *row;

	if (!flow || !packet)
		return MASQUERADE_DROP(DROP_INVALID_PACKET);
	ends = ct_ends_of(packet);
	row = flow->family == FAMILY_IPV4 ? ct_between(&ends, FAMILY_IPV4, TUPLE_OUT, flow->direction == INGRESS)
					  : ct_between(&ends, FAMILY_IPV6, TUPLE_OUT, flow->direction == INGRESS);
	row = ct_unless_former(row, packet);
	if (row)
		return ct_touch(row, packet, flow->direction == EGRESS, packet->protocol == IPPROTO_TCP);
	if (flow->direction != EGRESS || packet->tcp_flags & (TCP_FIN | TCP_RST))
		return 0;
	if (!packet_opens(packet))
		packet->entry_flags = CT_ANSWERS;
	return ct_create(flow, packet);
}

/* Notes which ports the node uses itself, so that none is given to others, and changes the one that
 * another has. */
always_inline int host_out_family(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
				  const union address *own, int family)
{
	struct nat to = {};
	int code;

	if (snat_find(packet, &to, family) != SNAT_FRESH || !snat_is_steady(packet)) {
		code = host_track(flow, packet);
		if (code < 0)
			return code;
		code = snat_source(skb, packet, own, 1, &to, family);
		if (code < 0)
			return code;
	}
	return snat_apply(skb, packet, &to, true, family);
}

subprogram int host_out_ipv4(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			     const union address *own)
{
	if (!flow || !packet || !own)
		return MASQUERADE_DROP(DROP_INVALID_PACKET);
	return host_out_family(skb, flow, packet, own, FAMILY_IPV4);
}

subprogram int host_out_ipv6(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			     const union address *own)
{
	if (!flow || !packet || !own)
		return MASQUERADE_DROP(DROP_INVALID_PACKET);
	return host_out_family(skb, flow, packet, own, FAMILY_IPV6);
}

/* What the node sends itself by an address that stands for others too. */
always_inline int host_out(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			   const union address *own)
{
	if (!snat_is_on(flow->family) || packet->headless || !snat_can(packet, flow->family) || !snat_in_range(packet->sport) ||
	    !address_equal(&packet->saddr, own, flow->family))
		return 0;
	return flow->family == FAMILY_IPV4 ? host_out_ipv4(skb, flow, packet, own)
					   : host_out_ipv6(skb, flow, packet, own);
}
