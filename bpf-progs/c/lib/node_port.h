/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Services that clients outside the cluster use: their packets come from the wire. */
#pragma once

#include "lb.h"
#include "snat.h"

#define NODE_PORT_DROP(reason) DROP_FROM(FILE_NODE_PORT_H, reason)

/* Services that may be used from outside have one of these. */
#define LB_FROM_OUTSIDE (LB_NODE_PORT | LB_EXTERNAL_IP | LB_LOAD_BALANCER | LB_HOST_PORT | LB_ROUTABLE)

always_inline int node_port_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	union lb_key key __attribute__((aligned(8)));
	struct backend backend;
	struct lb_row service;
	int code;

	service_key(&key, &packet->daddr, packet->dport, packet->protocol, family);
	if (!service_read(&key, &service, SERVICE_SURE, family))
		return LB_NONE;
	if (!(service.flags & LB_FROM_OUTSIDE))
		return NODE_PORT_DROP(DROP_IS_CLUSTER_IP);
	if (!service_admits(&service, &packet->saddr, family))
		return NODE_PORT_DROP(DROP_NOT_IN_SOURCE_RANGE);
	packet->rev_nat = service.rev_nat;
	packet->node_port = true;
	packet->direct = !DSR_BY_SERVICE || service.flags2 & LB_DSR;
	code = lb_backend(packet, &key, &service, &backend, family);
	if (code < 0)
		return code;
	code = lb_send(skb, packet, &backend, family);
	return code < 0 ? code : LB_TRANSLATED;
}

subprogram int node_port_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return NODE_PORT_DROP(DROP_INVALID_PACKET);
	return node_port_family(skb, packet, FAMILY_IPV4);
}

subprogram int node_port_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return NODE_PORT_DROP(DROP_INVALID_PACKET);
	return node_port_family(skb, packet, FAMILY_IPV6);
}

/* Sends what a client outside sends to a service to one of its backends: its packets, and its
 * complaints about answers. Returns an enum lb_result, or a drop. */
always_inline int node_port(struct __sk_buff *skb, struct packet *packet, int family)
{
	if (unlikely(packet->icmp_error))
		return family == FAMILY_IPV4 ? lb_error_ipv4(skb, packet) : lb_error_ipv6(skb, packet);
	if (packet->headless || !has_ports(packet->protocol))
		return LB_NONE;
	return family == FAMILY_IPV4 ? node_port_ipv4(skb, packet) : node_port_ipv6(skb, packet);
}

always_inline int node_port_enter_family(const struct flow *flow, const struct packet *packet, int family)
{
	bool egress = flow->direction == EGRESS;
	struct ct_row *row = ct_find_both(packet, family, egress ? TUPLE_OUT : TUPLE_IN);

	if (!row)
		return packet_opens(packet) || packet_resumes(packet) ? ct_create(flow, packet) : CT_ESTABLISHED;
	if (unlikely(row->rev_nat_index != packet->rev_nat))
		ct_serve(row, packet);
	ct_touch(row, packet, egress, packet->protocol == IPPROTO_TCP);
	return CT_ESTABLISHED;
}

/* Keeps the entry of a client's connection to a backend that is no endpoint of this node: as opened
 * towards the node itself, or else by the client. Returns an enum ct_state, or a drop. */
subprogram int node_port_enter(const struct flow *flow, const struct packet *packet)
{
	if (!flow || !packet)
		return NODE_PORT_DROP(DROP_INVALID_PACKET);
	if (flow->family == FAMILY_IPV4)
		return node_port_enter_family(flow, packet, FAMILY_IPV4);
	return node_port_enter_family(flow, packet, FAMILY_IPV6);
}

always_inline bool node_port_answered_family(struct packet *packet, bool egress, int family)
{
	const struct ct_ends ends = ct_ends_of(packet);
	struct ct_row *row = ct_between(&ends, family, egress ? TUPLE_IN : TUPLE_OUT, true);

	if (!row || !(row->flags & CT_NODE_PORT))
		return false;
	packet->rev_nat = row->rev_nat_index;
	packet->node_port = true;
	ct_touch(row, packet, egress, packet->protocol == IPPROTO_TCP);
	if (unlikely(packet->tcp_flags & (TCP_FIN | TCP_RST)))
		lb_end(packet, packet->dport, family);
	return true;
}

/* Whether a packet answers such a connection; it then has the connection's service. */
subprogram int node_port_answered(const struct flow *flow, struct packet *packet)
{
	bool egress;

	if (!flow || !packet || packet->headless || !packet_may_answer(packet))
		return false;
	egress = flow->direction == EGRESS;
	if (flow->family == FAMILY_IPV4)
		return node_port_answered_family(packet, egress, FAMILY_IPV4);
	return node_port_answered_family(packet, egress, FAMILY_IPV6);
}
