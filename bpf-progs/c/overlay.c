/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The two programs at the overlay's device. */

#include "lib/arrive.h"
#include "lib/device.h"
#include "lib/masquerade.h"

#define OVERLAY_C_DROP(reason) DROP_FROM(FILE_OVERLAY_C, reason)

/* What an endpoint or node elsewhere sends. */
always_inline int from_node(struct __sk_buff *skb, struct flow *flow, struct packet *packet,
			    const struct lxc_row *lxc)
{
	int code;

	skb->mark = 0;
	trace_arrival(skb, flow, TRACE_FROM_OVERLAY);
	if (lxc && !(lxc->flags & LXC_HOST))
		return to_endpoint(skb, flow, packet, lxc);
	if (lxc_lookup(&packet->saddr, flow->family))
		return OVERLAY_C_DROP(DROP_INVALID_SOURCE_IP);
	code = lxc || host_routes(&packet->daddr, flow->family) ? snat_back(skb, packet, flow->family) : SNAT_NONE;
	if (code < 0)
		return code;
	if (unlikely(code & SNAT_DUE))
		host_track(flow, packet);
	if (code)
		return to_asker(skb, flow, packet, NULL);
	if (ENABLE_PAST_STACK && host_routes(&packet->daddr, flow->family) && is_lost(skb, packet, flow->family))
		return OVERLAY_DROP(DROP_NAT_NO_MAPPING);
	skb->mark = identity_mark(overlay_identity(flow->src_identity, flow->family), MARK_KIND_IDENTITY);
	return host_has(&packet->daddr, lxc, NULL, flow->family) ? FOR_NODE : TC_ACT_OK;
}

always_inline int from_overlay(struct __sk_buff *skb, struct flow *flow)
{
	struct packet packet = {};
	int parsed, carried, code = TC_ACT_OK;
	struct carrier by = {};
	__u32 zero = 0;
	struct node_row *node;
	struct lxc_row *lxc;

	node = bpf_map_lookup_elem(&volvox_node, &zero);
	flow->family = family_of(skb);
	if (!node)
		return TC_ACT_OK;
	carried = carried_identity(skb, &by);
	if (carried < 0)
		return TC_ACT_OK;
	flow->notify = device_notify(node->tunnel_flags);
	if (!flow->family)
		return OVERLAY_C_DROP(DROP_UNSUPPORTED_L2);
	/* The sender did not know this device's MAC address. */
	bpf_skb_change_type(skb, PACKET_HOST);
	parsed = device_parse(skb, &packet, flow->family);
	code = overlay_sender(carried, &by, &packet, flow->family);
	if (code < 0)
		return code;
	if (parsed != PACKET_PLAIN && lxc_lookup(&packet.saddr, flow->family))
		return OVERLAY_C_DROP(DROP_INVALID_SOURCE_IP);
	if (parsed != PACKET_PLAIN && !ENABLE_HOST_FIREWALL)
		return TC_ACT_OK;
	flow->src_identity = code;
	code = TC_ACT_OK;
	lxc = lxc_find(&packet.daddr, flow->family);
	if (likely(parsed == PACKET_PLAIN))
		code = from_node(skb, flow, &packet, lxc);
	else if (host_has(&packet.daddr, lxc, NULL, flow->family))
		code = FOR_NODE;
	if (code != FOR_NODE)
		return code;
	code = to_host(skb, flow, &packet, parsed);
	return code < 0 ? code : TC_ACT_OK;
}

/* What other nodes send through the overlay. */
SEC("classifier/cil_from_overlay")
int cil_from_overlay(struct __sk_buff *skb)
{
	struct flow flow = {.direction = INGRESS};
	int code = from_overlay(skb, &flow);

	return code < 0 ? drop(skb, &flow, code) : code;
}

/* Who sent a packet that leaves, if it is not the node itself; else 0. Marks tell of endpoints; others for whom
 * the node forwards are outside the cluster, whosever address they take. Where the node lends them its own, they
 * are the node. */
always_inline __u32 behind_node(struct __sk_buff *skb, const struct packet *packet, const struct lxc_row *lxc,
				int family)
{
	__u32 kind = skb->mark & MARK_KIND;

	if (kind == MARK_KIND_IDENTITY || kind == MARK_KIND_SNAT_DONE)
		return marked_identity(skb->mark);
	/* What the node says came by no interface. */
	if (!skb->ingress_ifindex || address_is_zero(&packet->saddr) || host_has(&packet->saddr, lxc, NULL, family) ||
	    host_routes(&packet->saddr, family))
		return 0;
	return overlay_client(identity_world(family), packet, family);
}

/* What the node sends itself: the router's address, which it has, stands for clients of services too. */
always_inline int from_host(struct __sk_buff *skb, const struct flow *flow, struct packet *packet)
{
	union address router;

	if (!host_router(&router, flow->family))
		return 0;
	if (unlikely(packet->icmp_error))
		return snat_error(skb, packet, flow->family, false);
	return host_out(skb, flow, packet, &router);
}

/* Ports at which kube-proxy serves by any address of the node: what comes from there answers somebody. */
#define KUBE_PORT_MIN 30000
#define KUBE_PORT_MAX 32767

/* Whether the router's address stands for a flow, or may: one that begins here. Of datagrams those do that are no
 * socket's of the node, which knows by which address it is asked. */
subprogram int router_stands(struct __sk_buff *skb, const struct packet *packet, int family)
{
	struct packet back = {};
	struct nat to = {};
	__u16 port;

	if (!packet)
		return false;
	port = bpf_ntohs(packet->sport);
	if (packet->protocol == IPPROTO_TCP ? packet_opens(packet) : snat_in_range(packet->sport))
		return true;
	if (packet->protocol != IPPROTO_UDP || (port >= KUBE_PORT_MIN && port <= KUBE_PORT_MAX))
		return family == FAMILY_IPV4 ? snat_find(packet, &to, FAMILY_IPV4)
					     : snat_find(packet, &to, FAMILY_IPV6);
	back.saddr = packet->daddr;
	back.daddr = packet->saddr;
	back.sport = packet->dport;
	back.dport = packet->sport;
	back.protocol = packet->protocol;
	return !host_socket(skb, &back, family);
}

/* What another program of the node gave one of its addresses by which nobody answers through the overlay: beside it a
 * pod's answer may not pass. Returns whether it has the router's now, or a drop. */
always_inline int lend_router(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			      const struct lxc_row *lxc)
{
	union address router;
	int code;

	if (!lxc || !(lxc->flags & LXC_HOST) || packet->headless || (skb->mark & MARK_KIND) == MARK_KIND_SNAT_DONE ||
	    !snat_can(packet, flow->family) || !host_router(&router, flow->family) ||
	    address_equal(&packet->saddr, &router, flow->family) || !router_stands(skb, packet, flow->family))
		return 0;
	code = flow->family == FAMILY_IPV4 ? host_out_ipv4(skb, flow, packet, &router)
					   : host_out_ipv6(skb, flow, packet, &router);
	return code < 0 ? code : true;
}

always_inline int to_overlay(struct __sk_buff *skb, struct flow *flow)
{
	struct packet packet = {};
	struct node_row *node;
	struct lxc_row *lxc;
	__u32 zero = 0;
	int parsed, asked, lent = false, code = 0;

	/* Most of the endpoints' packets are sent here by programs that have judged them. */
	if (likely((skb->mark & MARK_KIND) == MARK_KIND_OVERLAY))
		return TC_ACT_OK;
	flow->family = family_of(skb);
	node = bpf_map_lookup_elem(&volvox_node, &zero);
	if (!flow->family || !node)
		return TC_ACT_OK;
	flow->notify = device_notify(node->tunnel_flags);
	parsed = device_parse(skb, &packet, flow->family);
	lxc = lxc_find(&packet.saddr, flow->family);
	if (!ENABLE_PAST_STACK && snat_is_on(flow->family) && parsed == PACKET_PLAIN)
		lent = lend_router(skb, flow, &packet, lxc);
	if (lent < 0)
		return lent;
	flow->src_identity = behind_node(skb, &packet, lxc, flow->family);
	if (flow->src_identity) {
		code = overlay_tell(skb, overlay_identity(flow->src_identity, flow->family));
		if (code < 0)
			return code;
		trace(skb, flow, TRACE_TO_OVERLAY, ADMIT_REPORT | TRACE_REASON_UNKNOWN, skb->ifindex);
		return TC_ACT_OK;
	}
	flow->src_identity = IDENTITY_HOST;
	asked = host_sends(skb, flow, &packet, lxc, NULL, parsed);
	if (asked < 0)
		return asked;
	if (parsed == PACKET_PLAIN && !lent)
		code = from_host(skb, flow, &packet);
	if (code < 0 || asked == HOST_UNASKED)
		return code < 0 ? code : TC_ACT_OK;
	skb->mark = MARK_KIND_OVERLAY;
	trace(skb, flow, TRACE_TO_OVERLAY, asked, skb->ifindex);
	return TC_ACT_OK;
}

/* What goes to other nodes through the overlay: of it, what the stack sends there. */
SEC("classifier/cil_to_overlay")
int cil_to_overlay(struct __sk_buff *skb)
{
	struct flow flow = {.direction = EGRESS};
	int code = to_overlay(skb, &flow);

	return code < 0 ? drop(skb, &flow, code) : code;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
