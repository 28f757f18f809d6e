/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The two programs at a device of the node that leads to other machines. What differs between devices
 * is a row of volvox_device. What concerns none of the node's endpoints and services goes on as it is. */

#include "lib/arrive.h"
#include "lib/dsr_send.h"
#include "lib/masquerade.h"
#include "lib/refuse.h"

#define DEVICE_DROP(reason) DROP_FROM(FILE_DEVICE_C, reason)

/* Has a backend behind the overlay answer by it: beside it a pod's answer may not pass. `own` is the address of
 * the device, which a flow that it stands for keeps. */
always_inline void answer_by_overlay(const struct packet *packet, union address *own, int family)
{
	union address router;
	struct nat known = {};

	if (!host_router(&router, family))
		return;
	if (!snat_find(packet, &known, family) || !address_equal(&known.address, own, family))
		*own = router;
}

/* The address by which a backend elsewhere shall answer: the router's if it is behind the overlay, else that of
 * the device that leads there. */
subprogram int answering_address(struct __sk_buff *skb, const struct packet *packet, union address *own, int family)
{
	struct route route = {};
	struct device out;
	int code;

	if (!packet || !own)
		return DEVICE_DROP(DROP_INVALID_PACKET);
	if (overlay_to(packet)) {
		answer_by_overlay(packet, own, family);
		return 0;
	}
	code = route_find(skb, packet, &route, family);
	if (code < 0)
		return code;
	if (device_read(route.ifindex, &out, family) && !address_is_zero(&out.own))
		*own = out.own;
	return 0;
}

/* Sends what a client outside sends to a service on to a backend elsewhere, which shall answer this
 * node, unless it can answer the client. */
always_inline int to_remote(struct __sk_buff *skb, struct flow *flow, struct packet *packet, union address *own)
{
	int code = 0;

	if (packet->hop_limit <= 1)
		return DEVICE_DROP(DROP_TTL_EXCEEDED);
	/* The backend's policy judges by what this node says of the client. */
	if (address_is_no_source(&packet->saddr, flow->family) || lxc_lookup(&packet->saddr, flow->family))
		return DEVICE_DROP(DROP_INVALID_SOURCE_IP);
	flow->direction = EGRESS;
	flow->dst_identity = identity_reached(packet, flow->family);
	/* A node would take it for one of this node's own. */
	if (unlikely(is_outer(packet->protocol, packet->dport)) && !identity_is_endpoint(flow->dst_identity))
		return DEVICE_DROP(DROP_ENCAP_PROHIBITED);
	code = dsr_send(skb, flow, packet);
	if (code < 0)
		return code;
	if (code == DSR_SENT)
		return to_machine(skb, flow, packet, ADMIT_REPORT | TRACE_REASON_UNKNOWN);
	code = answering_address(skb, packet, own, flow->family);
	if (code < 0)
		return code;
	if (address_is_zero(own))
		return DEVICE_DROP(DROP_NAT_NO_MAPPING);
	if (unlikely(packet->icmp_error)) {
		code = snat_error(skb, packet, flow->family, false);
	} else {
		code = node_port_enter(flow, packet);
		if (code >= 0)
			code = flow->family == FAMILY_IPV4 ? snat_out_ipv4(skb, packet, own)
							   : snat_out_ipv6(skb, packet, own);
	}
	return code < 0 ? code : to_machine(skb, flow, packet, ADMIT_REPORT | TRACE_REASON_UNKNOWN);
}

/* What is for somebody else, whether its layer 4 is known or not: the stack forwards it, unless its address is a
 * service's that nobody but this program serves. Who takes the node's address would pass as the node there; the kernel minds that of IPv4 only. */
always_inline int to_others(const struct packet *packet, int family)
{
	const struct lxc_row *source = lxc_lookup(&packet->saddr, family);

	if (ENABLE_NODE_PORT && has_ports(packet->protocol) && service_has(&packet->daddr, family))
		return NOBODY_SERVES;
	return source && source->flags & LXC_HOST ? DEVICE_DROP(DROP_INVALID_SOURCE_IP) : TC_ACT_OK;
}

/* What clients outside send to services. `is_own` says that the address is the node's. */
always_inline int to_service(struct __sk_buff *skb, struct flow *flow, struct packet *packet, union address *own,
			     bool is_own)
{
	int code = ENABLE_NODE_PORT ? node_port(skb, packet, flow->family) : LB_NONE;
	struct lxc_row *lxc;

	if (code < 0)
		return code;
	if (code != LB_TRANSLATED)
		return is_own ? FOR_NODE : to_others(packet, flow->family);
	lxc = lxc_find(&packet->daddr, flow->family);
	if (lxc && !(lxc->flags & LXC_HOST)) {
		code = dsr_move(skb, packet, flow->family);
		return code < 0 ? code : to_endpoint(skb, flow, packet, lxc);
	}
	flow->src_identity = identity_of(&packet->saddr, flow->family);
	return lxc ? FOR_NODE : to_remote(skb, flow, packet, own);
}

/* Whether a packet to the node is for nothing but the overlay: no answer to what the node's address stands
 * for, and for no service. */
always_inline bool is_for_overlay(const struct packet *packet)
{
	return !packet->headless && !snat_in_range(packet->dport) && is_outer(packet->protocol, packet->dport);
}

/* What one machine sends to another. */
always_inline int from_machine(struct __sk_buff *skb, struct flow *flow, struct packet *packet, union address *own,
			       const struct lxc_row *lxc)
{
	bool is_own;
	int code;

	/* The wire has no marks. */
	skb->mark = 0;
	trace_arrival(skb, flow, TRACE_FROM_NETWORK);
	if (lxc && !(lxc->flags & LXC_HOST))
		return to_endpoint(skb, flow, packet, lxc);
	is_own = lxc || address_equal(&packet->daddr, own, flow->family);
	if (is_own && is_for_overlay(packet))
		return FOR_NODE;
	if (is_own) {
		code = snat_back(skb, packet, flow->family);
		if (code < 0)
			return code;
		if (unlikely(code & SNAT_DUE))
			host_track(flow, packet);
		if (code)
			return to_asker(skb, flow, packet, own);
	}
	code = to_service(skb, flow, packet, own, is_own || host_has(&packet->daddr, lxc, own, flow->family));
	/* Who serves by the stack has answers without a socket. */
	if (ENABLE_PAST_STACK && code == FOR_NODE && address_equal(&packet->daddr, own, flow->family) && is_lost(skb, packet, flow->family))
		return DEVICE_DROP(DROP_NAT_NO_MAPPING);
	return code;
}

/* To the node itself. What it answers clients of services is translated back when it leaves. */
always_inline int to_node(struct __sk_buff *skb, struct flow *flow, struct packet *packet, int parsed)
{
	int code = to_host(skb, flow, packet, parsed);

	if (code == HOST_UNASKED && packet->node_port) {
		flow->dst_identity = IDENTITY_HOST;
		code = node_port_enter(flow, packet);
	}
	return code < 0 ? code : TC_ACT_OK;
}

/* Whether the stack may take a frame for its own. Those for all on the link concern the node only, and only
 * if it has a policy. */
always_inline bool frame_is_ours(const struct __sk_buff *skb)
{
	return skb->pkt_type == PACKET_HOST || (ENABLE_HOST_FIREWALL && skb->pkt_type != PACKET_OTHERHOST);
}

/* Whether the kernel would take off several tags that name no VLAN, and give the stack what is in them as the
 * device's own, past this hook: it takes off the first one only before. */
subprogram int is_hidden_by_tags(struct __sk_buff *skb)
{
	__be16 tag;

	return (skb->protocol == bpf_htons(ETH_P_8021Q) || skb->protocol == bpf_htons(ETH_P_8021AD)) &&
	       !(skb->vlan_tci & VLAN_NUMBER) && !bpf_skb_load_bytes(skb, ETH_HLEN, &tag, sizeof(tag)) &&
	       !(tag & bpf_htons(VLAN_NUMBER));
}

always_inline int from_netdev(struct __sk_buff *skb, struct flow *flow)
{
	int parsed, code = TC_ACT_OK;
	struct packet packet = {};
	struct device device;
	struct lxc_row *lxc;

	if (unlikely(skb->vlan_present) && is_hidden_by_tags(skb))
		return DEVICE_DROP(DROP_UNSUPPORTED_L2);
	flow->family = family_of(skb);
	if (!flow->family || !frame_is_ours(skb) || !device_read(skb->ifindex, &device, flow->family))
		return TC_ACT_OK;
	flow->notify = device_notify(device.flags);
	parsed = device_parse(skb, &packet, flow->family);
	if (parsed != PACKET_PLAIN && !ENABLE_HOST_FIREWALL)
		return parsed < 0 ? to_others(&packet, flow->family) : TC_ACT_OK;
	lxc = lxc_find(&packet.daddr, flow->family);
	if (likely(parsed == PACKET_PLAIN && skb->pkt_type == PACKET_HOST))
		code = from_machine(skb, flow, &packet, &device.own, lxc);
	else if (host_has(&packet.daddr, lxc, &device.own, flow->family))
		code = FOR_NODE;
	else if (parsed < 0)
		code = to_others(&packet, flow->family);
	return code == FOR_NODE ? to_node(skb, flow, &packet, parsed) : code;
}

/* What comes from the wire. */
SEC("classifier/cil_from_netdev")
int cil_from_netdev(struct __sk_buff *skb)
{
	struct flow flow = {.direction = INGRESS};
	int code = from_netdev(skb, &flow);

	if (likely(code >= 0))
		return code;
	if (!drop_or_refuse(skb, &flow, code))
		return TC_ACT_SHOT;
	skb->mark = MARK_KIND_SNAT_DONE;
	return bpf_redirect(skb->ifindex, 0);
}

/* Whether a device's address stands for that endpoint. */
always_inline bool masquerades(const struct flow *flow, const struct lxc_row *lxc, const struct device *device)
{
	__u16 flag = flow->family == FAMILY_IPV4 ? DEVICE_MASQUERADE_IPV4 : DEVICE_MASQUERADE_IPV6;
	__u32 skip = flow->family == FAMILY_IPV4 ? LXC_SKIP_MASQUERADE_V4 : LXC_SKIP_MASQUERADE_V6;

	if (lxc && lxc->flags & skip)
		return false;
	return snat_is_on(flow->family) && device->flags & flag && !address_is_zero(&device->own);
}

/* What an endpoint sends by way of the stack. */
always_inline int from_endpoint(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
				const struct lxc_row *lxc, const struct device *device)
{
	if (!masquerades(flow, lxc, device))
		return TC_ACT_OK;
	if (flow->family == FAMILY_IPV4)
		return masquerade_ipv4(skb, packet, &device->own);
	return masquerade_ipv6(skb, packet, &device->own);
}

/* What the node sends itself: answers to clients of services, and flows of its own. */
always_inline int from_host(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			    const struct device *device, bool is_own)
{
	if (ENABLE_NODE_PORT && is_own && has_ports(packet->protocol) && node_port_answered(flow, packet))
		return lb_reverse(skb, packet, flow->family);
	return host_out(skb, flow, packet, &device->own);
}

always_inline bool was_asked_family(struct __sk_buff *skb, const struct packet *packet, int family)
{
	struct packet inner = {};
	struct ct_ends ends;

	if (inner_read(skb, packet, &inner, family))
		return false;
	ends = ct_ends_of(&inner);
	return ct_between(&ends, family, TUPLE_IN, false) != NULL;
}

/* Whether an error is about a connection that somebody opened to an endpoint's own address. */
subprogram int was_asked(struct __sk_buff *skb, const struct packet *packet, int family)
{
	if (!packet)
		return false;
	return family == FAMILY_IPV4 ? was_asked_family(skb, packet, FAMILY_IPV4)
				     : was_asked_family(skb, packet, FAMILY_IPV6);
}

subprogram int is_masqueraded(const struct packet *packet, int family)
{
	if (!packet)
		return true;
	return family == FAMILY_IPV4 ? !is_excluded(&packet->daddr, FAMILY_IPV4)
				     : !is_excluded(&packet->daddr, FAMILY_IPV6);
}

/* An endpoint's error about a flow for which no address of the node stands shows the endpoint's own: that leaves only
 * where whoever hears it knows it. */
always_inline int error_of_endpoint(struct __sk_buff *skb, const struct flow *flow, const struct packet *packet,
				    const struct lxc_row *lxc, const struct device *device)
{
	if (!masquerades(flow, lxc, device) || was_asked(skb, packet, flow->family) ||
	    !is_masqueraded(packet, flow->family))
		return 0;
	return DEVICE_DROP(DROP_NAT_UNSUPPORTED);
}

/* Gives what leaves the source that the other end shall see. */
always_inline int depart(struct __sk_buff *skb, struct flow *flow, struct packet *packet, const struct lxc_row *lxc,
			 const struct device *device)
{
	bool is_own = lxc && lxc->flags & LXC_HOST;

	if (unlikely(packet->icmp_error)) {
		int code;

		if (is_own)
			is_related(skb, packet, IDENTITY_HOST, flow->family, true);
		if (packet->node_port)
			return lb_reverse(skb, packet, flow->family);
		code = snat_error(skb, packet, flow->family, false);
		return code == SNAT_NONE && lxc && !is_own ? error_of_endpoint(skb, flow, packet, lxc, device) : code;
	}
	/* Its mark tells an endpoint's, too, whose row is not there. */
	if (lxc ? !is_own : (skb->mark & MARK_KIND) == MARK_KIND_IDENTITY)
		return from_endpoint(skb, flow, packet, lxc, device);
	return from_host(skb, flow, packet, device, is_own);
}

/* Returns what a record says of the packet, or a drop. */
always_inline int to_wire(struct __sk_buff *skb, struct flow *flow, struct packet *packet, const struct device *device)
{
	__u32 mark = skb->mark & MARK_KIND;
	int parsed, asked, code = 0;
	struct lxc_row *lxc;

	if (mark == MARK_KIND_SNAT_DONE || mark == MARK_KIND_OVERLAY)
		return ADMIT_REPORT | TRACE_REASON_UNKNOWN;
	parsed = device_parse(skb, packet, flow->family);
	if (parsed != PACKET_PLAIN && !ENABLE_HOST_FIREWALL)
		return ADMIT_REPORT | TRACE_REASON_UNKNOWN;
	flow->src_identity = mark == MARK_KIND_IDENTITY ? identity_of_sender(skb, &packet->saddr, flow->family)
							: IDENTITY_HOST;
	lxc = lxc_find(&packet->saddr, flow->family);
	asked = host_sends(skb, flow, packet, lxc, &device->own, parsed);
	if (asked < 0)
		return asked;
	if (parsed == PACKET_PLAIN)
		code = depart(skb, flow, packet, lxc, device);
	if (code < 0)
		return code;
	return asked == HOST_UNASKED ? ADMIT_REPORT | TRACE_REASON_UNKNOWN : asked;
}

always_inline int to_netdev(struct __sk_buff *skb, struct flow *flow)
{
	struct packet packet = {};
	struct device device;
	int code;

	flow->family = family_of(skb);
	if (!flow->family || !device_read(skb->ifindex, &device, flow->family))
		return TC_ACT_OK;
	flow->notify = device_notify(device.flags);
	code = to_wire(skb, flow, &packet, &device);
	if (code < 0)
		return code;
	trace(skb, flow, TRACE_TO_NETWORK, code, skb->ifindex);
	return TC_ACT_OK;
}

/* What goes to the wire. */
SEC("classifier/cil_to_netdev")
int cil_to_netdev(struct __sk_buff *skb)
{
	struct flow flow = {.direction = EGRESS};
	int code = to_netdev(skb, &flow);

	return code < 0 ? drop(skb, &flow, code) : code;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
