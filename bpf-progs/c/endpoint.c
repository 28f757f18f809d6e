/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The two programs at an endpoint's host-side interface, shared by all endpoints. What differs
 * between endpoints is a row of volvox_config. */

#include "lib/host.h"
#include "lib/neighbour.h"
#include "lib/overlay.h"
#include "lib/refuse.h"
#include "lib/route.h"

#define ENDPOINT_DROP(reason) DROP_FROM(FILE_ENDPOINT_C, reason)

always_inline bool source_is_own(const struct packet *packet, const struct config_row *self, int family)
{
	union address own = {};

	if (family == FAMILY_IPV4)
		own.v4 = self->ipv4;
	else
		__builtin_memcpy(&own, self->ipv6, 16);
	return !address_is_zero(&own) && address_equal(&packet->saddr, &own, family);
}

/* Reads the headers, if the node has this family switched on. */
always_inline int parse(struct __sk_buff *skb, struct packet *packet, struct flow *flow)
{
	switch (skb->protocol) {
	case bpf_htons(ETH_P_IP):
		flow->family = FAMILY_IPV4;
		return ENABLE_IPV4 ? parse_ipv4(skb, packet) : ENDPOINT_DROP(DROP_UNSUPPORTED_L3);
	case bpf_htons(ETH_P_IPV6):
		flow->family = FAMILY_IPV6;
		return ENABLE_IPV6 ? parse_ipv6(skb, packet) : ENDPOINT_DROP(DROP_UNSUPPORTED_L3);
	default:
		return ENDPOINT_DROP(DROP_UNSUPPORTED_L2);
	}
}

/* What has a local endpoint's address is for that endpoint, and cannot be for a service. */
always_inline int lb(struct __sk_buff *skb, const struct flow *flow, struct packet *packet)
{
	if (flow->family == FAMILY_IPV4)
		return lb_from_endpoint(skb, packet, FAMILY_IPV4);
	return lb_from_endpoint(skb, packet, FAMILY_IPV6);
}

/* The node is known by its addresses, that of the endpoints' router among them, and on the link. */
always_inline bool is_for_node(const struct flow *flow, const struct packet *packet)
{
	return flow->dst_identity == IDENTITY_HOST ||
	       (flow->family == FAMILY_IPV6 && address_is_link_local(&packet->daddr));
}

/* To the node itself, if the node's policy lets it. The endpoint's service does not concern the node, nor that
 * its packet took the short way. */
always_inline int to_node(struct __sk_buff *skb, struct flow *flow, struct packet *packet,
			  const struct config_row *self, int admitted)
{
	struct host host;
	int code;

	if (host_asks(skb, packet, &host, flow->family)) {
		packet->rev_nat = 0;
		packet->again = packet->unserved = false;
		code = host_hear(skb, flow, packet, &host, 0);
		if (code < 0)
			return code;
		flow->direction = EGRESS;
		flow->source = self->ep_id;
		flow->notify = self->flags;
	}
	return to_stack(skb, flow, admitted);
}

/* Whether it may leave the endpoints of this node, whatever policy says: not to addresses that only a machine itself
 * has, nor as a packet of the overlay's, which would be this node's own to others; endpoints may use its port among
 * themselves. */
always_inline int may_leave(const struct flow *flow, const struct packet *packet)
{
	if (address_is_nowhere(&packet->daddr, flow->family))
		return ENDPOINT_DROP(DROP_UNKNOWN_TARGET);
	if (unlikely(is_outer(packet->protocol, packet->dport)) && !identity_is_endpoint(flow->dst_identity))
		return ENDPOINT_DROP(DROP_ENCAP_PROHIBITED);
	return 0;
}

/* To the node itself, or to somewhere else: through the overlay, or by what the stack knows. */
always_inline int leave(struct __sk_buff *skb, struct flow *flow, struct packet *packet, const struct lxc_row *lxc,
			int admitted)
{
	__u32 overlay = lxc ? 0 : overlay_to(packet);

	/* A client outside hears the service. */
	if (unlikely(packet->node_port) && !lxc && !overlay)
		return route(skb, flow, packet, admitted);
	/* The stack answers a packet whose last hop this was. It has to see what others serve by it. */
	if ((!ENABLE_PAST_STACK && !packet->node_port) || !overlay || packet->hop_limit <= 1)
		return to_stack(skb, flow, admitted);
	return overlay_out(skb, flow, packet, overlay, admitted);
}

/* Source check, services and egress policy, then to the endpoint here, or to everywhere else. */
always_inline int from_container(struct __sk_buff *skb, struct flow *flow)
{
	struct packet packet = {};
	struct config_row self;
	struct lxc_row *lxc;
	int balanced, code;

	if (!config_read(skb->ifindex, &self))
		return ENDPOINT_DROP(DROP_ENDPOINT_NOT_READY);
	flow->source = self.ep_id;
	flow->src_identity = self.identity;
	flow->notify = self.flags;
	/* The kernel has taken the tag off: it would be put on again on the way. */
	if (unlikely(skb->vlan_present))
		return ENDPOINT_DROP(DROP_UNSUPPORTED_L2);
	if (ENABLE_IPV4 && skb->protocol == bpf_htons(ETH_P_ARP))
		return arp_from_container(skb, &self);
	code = parse(skb, &packet, flow);
	if (code < 0)
		return code;
	if (nd_is(&packet, ND_NEIGHBOUR_SOLICITATION, ND_NEIGHBOUR_ADVERTISEMENT))
		return nd_from_container(skb, &self, &packet);
	if (link_greeting(&packet))
		return TC_ACT_OK;
	if (self.flags & CONFIG_SOURCE_CHECK && !source_is_own(&packet, &self, flow->family))
		return ENDPOINT_DROP(DROP_INVALID_SOURCE_IP);
	trace_arrival(skb, flow, TRACE_FROM_LXC);
	balanced = flow->family == FAMILY_IPV4 ? lb_again(skb, &packet, FAMILY_IPV4)
					       : lb_again(skb, &packet, FAMILY_IPV6);
	if (balanced < 0)
		return balanced;
	lxc = lxc_lookup(&packet.daddr, flow->family);
	/* A service that was missed is found the next time. */
	for (int look = 0; look < 2; look++) {
		__u32 family = flow->family;

		/* Else clang 22 keeps all that follows from it on the stack, for the second look. */
		opaque(family);
		if (!balanced && (!lxc || lxc->flags & LXC_HOST)) {
			balanced = lb(skb, flow, &packet);
			if (balanced < 0)
				return balanced;
			if (balanced == LB_LOOPBACK)
				return to_self(skb, flow, &self);
			if (balanced == LB_TRANSLATED)
				lxc = lxc_find(&packet.daddr, family);
		}
		flow->dst_identity = identity_of_receiver(lxc, &packet, family);
		code = lxc && !(lxc->flags & LXC_HOST) ? 0 : may_leave(flow, &packet);
		if (code < 0)
			return code;
		code = admit_endpoint(skb, flow, &packet, self.policy_slot);
		if (likely(code != ADMIT_MISSED))
			break;
	}
	if (unlikely(code == ADMIT_MISSED))
		return ENDPOINT_DROP(DROP_NO_SERVICE);
	if (code < 0)
		return code;
	if (unlikely(balanced && !packet.again) && (code & ~ADMIT_REPORT) == CT_ESTABLISHED)
		lb_note(&packet, packet.rev_nat, clock_seconds(), flow->family);
	if (unlikely(packet.node_port)) {
		balanced = lb_reverse(skb, &packet, flow->family);
		if (balanced < 0)
			return balanced;
	}
	if (ENABLE_HOST_FIREWALL && is_for_node(flow, &packet))
		return to_node(skb, flow, &packet, &self, code);
	if (unlikely(self.flags & CONFIG_CHAINED) && !packet.node_port)
		return to_stack(skb, flow, code);
	if (!lxc || lxc->flags & LXC_HOST || packet.hop_limit <= 1)
		return leave(skb, flow, &packet, lxc, code);
	packet.node_port = false;
	return to_local(skb, flow, &packet, lxc, &self);
}

/* What an endpoint sends: ingress of the host-side interface. */
SEC("classifier/cil_from_container")
int cil_from_container(struct __sk_buff *skb)
{
	struct flow flow = {.direction = EGRESS, .notify = CONFIG_DROP_NOTIFY};
	int code = from_container(skb, &flow);

	if (likely(code >= 0))
		return code;
	return drop_or_refuse(skb, &flow, code) ? bpf_redirect_peer(skb->ifindex, 0) : TC_ACT_SHOT;
}

/* Asks the policy of the node about what it sends to the endpoint. That it tells the endpoint of an error
 * about a connection which the endpoint has needs no asking: it is the endpoint's router. */
always_inline int node_asked(struct __sk_buff *skb, struct flow *flow, struct packet *packet,
			     const struct config_row *self)
{
	struct host host;
	int code = 0;

	if (!host_asks(skb, packet, &host, flow->family))
		return 0;
	if (likely(!packet->icmp_error) || !is_related(skb, packet, IDENTITY_HOST, flow->family, false))
		code = host_speak(skb, flow, packet, &host, 0);
	if (code < 0)
		return code;
	packet->rev_nat = 0;
	packet->node_port = false;
	flow->direction = INGRESS;
	flow->source = self->ep_id;
	flow->notify = self->flags;
	return 0;
}

/* Ingress policy for what the stack routes to an endpoint. */
always_inline int to_container(struct __sk_buff *skb, struct flow *flow)
{
	struct packet packet = {};
	struct config_row self;
	int admitted, code;

	if (!config_read(skb->ifindex, &self))
		return ENDPOINT_DROP(DROP_ENDPOINT_NOT_READY);
	flow->source = flow->dst_ep = self.ep_id;
	flow->dst_identity = self.identity;
	flow->notify = self.flags;
	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return TC_ACT_OK;
	code = parse(skb, &packet, flow);
	if (code < 0)
		return code;
	/* Between the host and the endpoint only: nothing routed keeps this hop limit. */
	if (packet.hop_limit == ND_HOP_LIMIT && nd_is(&packet, ND_ROUTER_SOLICITATION, ND_REDIRECT))
		return TC_ACT_OK;
	if (link_greeting(&packet))
		return TC_ACT_OK;
	flow->src_identity = identity_of_sender(skb, &packet.saddr, flow->family);
	/* An error that came by no interface is told by the node, from whichever of its addresses. */
	if (unlikely(packet.icmp_error) && !skb->ingress_ifindex)
		flow->src_identity = IDENTITY_HOST;
	if (ENABLE_HOST_FIREWALL && flow->src_identity == IDENTITY_HOST) {
		code = node_asked(skb, flow, &packet, &self);
		if (code < 0)
			return code;
	}
	admitted = admit_endpoint(skb, flow, &packet, self.policy_slot);
	if (admitted < 0)
		return admitted;
	code = lb_to_endpoint(skb, &packet, flow->family);
	if (code < 0)
		return code;
	trace(skb, flow, TRACE_TO_LXC, admitted, self.ifindex);
	metrics_forwarded(skb, INGRESS);
	return TC_ACT_OK;
}

/* What the host's stack sends to an endpoint: egress of the host-side interface. */
SEC("classifier/cil_to_container")
int cil_to_container(struct __sk_buff *skb)
{
	struct flow flow = {.direction = INGRESS, .notify = CONFIG_DROP_NOTIFY};
	int code = to_container(skb, &flow);

	return code < 0 ? drop(skb, &flow, code) : code;
}

/* Makes clang describe in BTF what no map names: for the test of layouts, and for bpftool. */
const union {
	struct policy_key policy_key;
	struct policy_row policy_row;
	struct trace_record trace;
	struct drop_record drop;
	struct verdict_record verdict;
	struct signal_record signal;
} LAYOUTS = {};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
