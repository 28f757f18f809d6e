/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Direct server return, at the node of the backend: its entry learns what the client asked.
 *
 * Who forges an option would have the answers seem to come from elsewhere. By the overlay only nodes of ours
 * speak, of whom the outer address tells. On the wire nothing tells who sent a packet: a router may stand
 * between, and the client's source is his own. So it is looked at what the option says: it must be what the
 * cluster serves to clients outside, by this node's own tables; of ports of nodes, by those of this node's own
 * address. Otherwise the option is nothing, and the backend answers as itself. */
#pragma once

#include "device.h"
#include "dsr.h"
#include "node_port.h"

/* Whether clients outside are served at an address. */
always_inline bool dsr_is_service(const union address *address, __be16 port, __u8 protocol, int family)
{
	union lb_key key __attribute__((aligned(8)));
	struct lb_row *service;

	service_key(&key, address, port, protocol, family);
	service = service_lookup(&key, family);
	return service && service->flags & LB_FROM_OUTSIDE;
}

always_inline bool identity_is_node(__u32 identity)
{
	return identity == IDENTITY_REMOTE_NODE || identity == IDENTITY_KUBE_APISERVER;
}

/* Whether another node sent a packet through the overlay. */
subprogram int dsr_is_tunneled(struct __sk_buff *skb)
{
	struct bpf_tunnel_key key = {};
	union address from = {};

	if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), 0)) {
		from.v4 = bpf_htonl(key.remote_ipv4);
		return identity_is_node(identity_of(&from, FAMILY_IPV4));
	}
	if (bpf_skb_get_tunnel_key(skb, &key, sizeof(key), BPF_F_TUNINFO_IPV6))
		return false;
	__builtin_memcpy(&from, key.remote_ipv6, 16);
	return identity_is_node(identity_of(&from, FAMILY_IPV6));
}

/* Whether a client may have asked a service at another node. */
always_inline bool dsr_is_asked(struct __sk_buff *skb, const struct nat *service, __u8 protocol, int family)
{
	struct device device;

	if (dsr_is_service(&service->address, service->port, protocol, family))
		return true;
	if (!identity_is_node(identity_of(&service->address, family)))
		return false;
	if (dsr_is_tunneled(skb))
		return true;
	return device_read(skb->ifindex, &device, family) &&
	       dsr_is_service(&device.own, service->port, protocol, family);
}

always_inline int dsr_learn_family(struct __sk_buff *skb, const struct packet *packet, int family)
{
	bool tcp = packet->protocol == IPPROTO_TCP;
	const struct ct_ends ends = ct_ends_of(packet);
	union ct_key key __attribute__((aligned(8)));
	struct nat service = {};
	struct ct_row *row;
	bool is_told;

	is_told = dsr_read(skb, packet, &service, family) &&
		  dsr_is_asked(skb, &service, packet->protocol, family);
	ct_key_make(&key, &ends, family, TUPLE_IN, false);
	row = ct_lookup_both(&key, family, tcp);
	if (!row)
		return 0;
	if (is_told) {
		__builtin_memcpy(row->nat_addr, &service.address, 16);
		row->nat_port = service.port;
		ct_flags_set(row, CT_DSR | CT_NODE_PORT);
	} else if (tcp && row->flags & CT_DSR) {
		__sync_fetch_and_and((__u32 *)&row->flags, ~(__u32)(CT_DSR | CT_NODE_PORT));
	}
	return 0;
}

/* Notes in the entry of a packet's connection what its opener asked, if the packet tells. */
subprogram int dsr_learn_ipv4(struct __sk_buff *skb, const struct packet *packet)
{
	return packet ? dsr_learn_family(skb, packet, FAMILY_IPV4) : 0;
}

subprogram int dsr_learn_ipv6(struct __sk_buff *skb, const struct packet *packet)
{
	return packet ? dsr_learn_family(skb, packet, FAMILY_IPV6) : 0;
}

/* The same for what an endpoint has been given. What begins a connection of TCP anew without an option makes
 * the one before forgotten. */
always_inline void dsr_learn(struct __sk_buff *skb, const struct packet *packet, int family)
{
	if (!ENABLE_DSR || packet->node_port || packet->tail || !has_ports(packet->protocol) ||
	    (packet->l4_offset == plain_l4_offset(family) && !(packet->tcp_flags & TCP_SYN)))
		return;
	if (family == FAMILY_IPV4)
		dsr_learn_ipv4(skb, packet);
	else
		dsr_learn_ipv6(skb, packet);
}
