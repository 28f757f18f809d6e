/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What came from other machines, by the wire or by the overlay, for somebody of this node. */
#pragma once

#include "dsr_learn.h"
#include "host.h"
#include "node_port.h"
#include "overlay.h"
#include "route.h"
#include "snat_error.h"

#define ARRIVE_DROP(reason) DROP_FROM(FILE_ARRIVE_H, reason)

/* What the steps below return of a packet that is for the node itself. */
#define FOR_NODE 0x1000

/* Who sent a packet that came by the wire, as its source says. What lives behind the overlay does not come beside it;
 * by a service it may, where a node that has no address for endpoints to borrow sends it. */
subprogram int wire_sender(const struct packet *packet, int family)
{
	struct ipcache_row *row;

	if (!packet)
		return ARRIVE_DROP(DROP_INVALID_PACKET);
	row = ipcache_find(&packet->saddr, family);
	if (row && ipcache_is_tunneled(row) && !packet->node_port && node_has_tunnel())
		return ARRIVE_DROP(DROP_INVALID_SOURCE_IP);
	return identity_in(row, family);
}

/* Gives it to an endpoint. Its source cannot be an address of this node, nor one that no router lets pass. Who it is
 * from is told by its source, unless the overlay has told. */
always_inline int to_endpoint(struct __sk_buff *skb, struct flow *flow, struct packet *packet,
			      const struct lxc_row *lxc)
{
	struct config_row receiver;
	int code;

	if (address_is_no_source(&packet->saddr, flow->family) || lxc_lookup(&packet->saddr, flow->family))
		return ARRIVE_DROP(DROP_INVALID_SOURCE_IP);
	/* The stack answers a packet whose last hop this was. */
	if (packet->hop_limit <= 1)
		return TC_ACT_OK;
	if (!flow->src_identity) {
		code = wire_sender(packet, flow->family);
		if (code < 0)
			return code;
		flow->src_identity = code;
	}
	code = dsr_meet(skb, flow, packet);
	if (code < 0)
		return code;
	if (unlikely(code == DSR_BACK)) {
		flow->direction = EGRESS;
		flow->dst_identity = identity_reached(packet, flow->family);
		return route(skb, flow, packet, ADMIT_REPORT | TRACE_REASON_UNKNOWN);
	}
	flow->dst_identity = lxc->sec_id;
	code = to_local(skb, flow, packet, lxc, &receiver);
	if (code >= 0 && packet->entry_flags & CT_DSR)
		dsr_learn(skb, packet, flow->family);
	return code;
}

/* Sends what has its source on to another machine: by the overlay, or by the node's routes. */
always_inline int to_machine(struct __sk_buff *skb, const struct flow *flow, const struct packet *packet,
			     int admitted)
{
	__u32 overlay = overlay_to(packet);

	return overlay ? overlay_out(skb, flow, packet, overlay, admitted) : route(skb, flow, packet, admitted);
}

/* Whether a packet to an address that stands for others, by a port that may, is an answer that nobody here waits for
 * any more. The row that says for whom it is was evicted: the node's stack would refuse it, and so end a flow that
 * lives. */
subprogram int is_lost(struct __sk_buff *skb, const struct packet *packet, int family)
{
	if (!packet || packet->headless || packet->icmp_error || !snat_in_range(packet->dport) ||
	    !packet_may_answer(packet))
		return false;
	if (packet->protocol == IPPROTO_UDP && bpf_ntohs(packet->sport) >= EPHEMERAL_PORT_MIN)
		return false;
	return !host_socket(skb, packet, family);
}

/* What answers one for whom an address of the node stands: an endpoint, the node itself, or a client
 * outside of a service whose backend is elsewhere. `own` is the address of the device, if it came by one. */
always_inline int to_asker(struct __sk_buff *skb, struct flow *flow, struct packet *packet, const union address *own)
{
	struct lxc_row *lxc = lxc_find(&packet->daddr, flow->family);
	int code;

	packet->answer = true;
	if (lxc)
		return lxc->flags & LXC_HOST ? FOR_NODE : to_endpoint(skb, flow, packet, lxc);
	/* Anybody may tell of an error, but nobody as an endpoint of this node. */
	if (packet->icmp_error && lxc_lookup(&packet->saddr, flow->family))
		return ARRIVE_DROP(DROP_INVALID_SOURCE_IP);
	if (packet->icmp_error)
		is_related(skb, packet, IDENTITY_HOST, flow->family, false);
	else if (ENABLE_NODE_PORT && !node_port_answered(flow, packet))
		packet->node_port = (packet->rev_nat = packet->own_port) && packet_may_answer(packet);
	if (!packet->node_port)
		return host_has(&packet->daddr, lxc, own, flow->family) || host_routes(&packet->daddr, flow->family)
			       ? FOR_NODE
			       : ARRIVE_DROP(DROP_NAT_NO_MAPPING);
	flow->dst_identity = identity_reached(packet, flow->family);
	if (!flow->src_identity)
		flow->src_identity = identity_of(&packet->saddr, flow->family);
	code = lb_reverse(skb, packet, flow->family);
	return code < 0 ? code : to_machine(skb, flow, packet, ADMIT_REPORT | CT_REPLY);
}

/* Gives it to the node itself, if the node's policy lets it; nobody else has its addresses. `parsed` is
 * what device_parse() said. Returns HOST_UNASKED, or as admit(). */
always_inline int to_host(struct __sk_buff *skb, struct flow *flow, struct packet *packet, int parsed)
{
	struct host host;
	int code;

	if (!host_asks(skb, packet, &host, flow->family))
		return HOST_UNASKED;
	if (lxc_lookup(&packet->saddr, flow->family))
		return ARRIVE_DROP(DROP_INVALID_SOURCE_IP);
	if (!flow->src_identity)
		flow->src_identity = identity_of(&packet->saddr, flow->family);
	code = host_hear(skb, flow, packet, &host, parsed);
	return code < 0 && host_had_before(skb, packet, flow->family) ? CT_REPLY | ADMIT_REPORT : code;
}
