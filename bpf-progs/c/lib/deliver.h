/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The last steps of a packet that may pass. */
#pragma once

#include "admit.h"
#include "lb.h"
#include "lookup.h"

#define DELIVER_DROP(reason) DROP_FROM(FILE_DELIVER_H, reason)

/* Counts a hop in an IP header. */
always_inline void one_hop(void *header, int family)
{
	if (family == FAMILY_IPV4) {
		struct iphdr *ip = header;
		__u32 sum = ip->check + bpf_htons(0x0100);

		ip->check = sum + (sum >= 0xffff);
		ip->ttl--;
	} else {
		struct ipv6hdr *ip = header;

		ip->hop_limit--;
	}
}

/* One hop, and the MAC addresses of the receiver's link. */
always_inline int rewrite(struct __sk_buff *skb, const struct config_row *dst, __u8 family)
{
	__u32 ip_bytes = family == FAMILY_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	struct ethhdr *eth = packet_bytes(skb, 0, ETH_HLEN + ip_bytes);

	if (!eth)
		return DELIVER_DROP(DROP_INVALID_PACKET);
	one_hop(eth + 1, family);
	mac_copy(eth->h_dest, dst->mac);
	mac_copy(eth->h_source, dst->node_mac);
	return 0;
}

/* Leaves the rest to the host's routes; the mark tells to_container and to_overlay who sent it. Whoever
 * asked the endpoint itself is answered by it: such a packet keeps its source, as the mark says, too. */
always_inline int to_stack(struct __sk_buff *skb, const struct flow *flow, int admitted)
{
	bool answers = (admitted & ~ADMIT_REPORT) == CT_REPLY;

	skb->mark = identity_mark(flow->src_identity, answers ? MARK_KIND_SNAT_DONE : MARK_KIND_IDENTITY);
	trace(skb, flow, TRACE_TO_STACK, admitted, 0);
	metrics_forwarded(skb, EGRESS);
	return TC_ACT_OK;
}

/* Gives the packet to an endpoint, inside its namespace. */
always_inline int hand_over(struct __sk_buff *skb, const struct flow *flow, const struct config_row *dst,
			    int admitted)
{
	int code;

	trace(skb, flow, TRACE_TO_LXC, admitted, dst->ifindex);
	metrics_forwarded(skb, INGRESS);
	code = rewrite(skb, dst, flow->family);
	if (code < 0)
		return code;
	return bpf_redirect_peer(dst->ifindex, 0);
}

/* Leaves the rest to the stack, or to the plugin whose the receiver's interface is, and to the policy there. An identity that the
 * mark has no room for is found by the source again. */
always_inline int to_chained(struct __sk_buff *skb, const struct flow *flow)
{
	if (!(flow->src_identity >> 24))
		skb->mark = identity_mark(flow->src_identity, MARK_KIND_IDENTITY);
	trace(skb, flow, TRACE_TO_STACK, ADMIT_REPORT | TRACE_REASON_UNKNOWN, 0);
	metrics_forwarded(skb, EGRESS);
	return TC_ACT_OK;
}

/* Asks the receiver's policy and hands the packet over. `dst` is where the
 * receiver's row goes. What comes from outside by a service goes past the stack both ways, wherever its receiver is. */
always_inline int to_local(struct __sk_buff *skb, struct flow *flow, struct packet *packet,
			   const struct lxc_row *lxc, struct config_row *dst)
{
	__u16 source = flow->source;
	int admitted, code;

	flow->direction = INGRESS;
	flow->source = flow->dst_ep = lxc->lxc_id;
	/* An address whose endpoint has changed hands is nobody's for that moment. */
	if (!config_read(lxc->ifindex, dst) || dst->ep_id != flow->dst_ep)
		return DELIVER_DROP(DROP_ENDPOINT_NOT_READY);
	if ((!ENABLE_PAST_STACK || unlikely(dst->flags & CONFIG_CHAINED)) && !packet->node_port &&
	    !packet->entry_flags) {
		flow->direction = EGRESS;
		flow->source = source;
		return to_chained(skb, flow);
	}
	flow->notify = dst->flags;
	/* Its service is the opener's business, unless the opener is outside. The entry only notes it, for answers
	 * whose opener's is evicted. */
	if (!packet->node_port) {
		__be16 asked = packet->answer ? packet->own_port : 0;

		packet->own_port = packet->rev_nat;
		packet->rev_nat = asked;
	}
	packet->again = packet->unserved = false;
	admitted = admit_endpoint(skb, flow, packet, dst->policy_slot);
	if (admitted < 0)
		return admitted;
	code = lb_to_endpoint(skb, packet, flow->family);
	if (code < 0)
		return code;
	return hand_over(skb, flow, dst, admitted);
}

/* What an endpoint says to itself by a service comes back to it, whatever its policy says. */
always_inline int to_self(struct __sk_buff *skb, struct flow *flow, const struct config_row *self)
{
	flow->direction = INGRESS;
	flow->dst_ep = flow->source;
	flow->dst_identity = flow->src_identity;
	return hand_over(skb, flow, self, CT_ESTABLISHED);
}
