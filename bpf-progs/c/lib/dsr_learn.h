/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Direct server return, at the node of the backend: its entry learns what the client asked.
 *
 * Who forges an option would have the answers seem to come from elsewhere. By the overlay only nodes of ours
 * speak, of whom the outer address tells. On the wire nothing tells who sent a packet: a router may stand
 * between, and the client's source is his own. So it is looked at what the option says: it must be what the
 * cluster serves to clients outside, by this node's own tables; of ports of nodes, by those of this node's own
 * address. Otherwise the option is nothing, and the backend answers as itself. So it is where an endpoint of the
 * cluster sends it: no node of ours tells of one. */
#pragma once

#include "device.h"
#include "dsr.h"
#include "dsr_port.h"

#define DSR_LEARN_DROP(reason) DROP_FROM(FILE_DSR_LEARN_H, reason)

/* What dsr_meet() found. */
enum dsr_met {
	/* It goes on. */
	DSR_MET = 0,
	/* It goes back: another connection has its ends. */
	DSR_BACK = 1,
};

/* Whether clients outside are served at an address. */
always_inline bool dsr_is_service(const union address *address, __be16 port, __u8 protocol, int family)
{
	union lb_key key __attribute__((aligned(8)));
	struct lb_row service;

	service_key(&key, address, port, protocol, family);
	if (!service_read(&key, &service, SERVICE_SURE, family))
		return false;
	/* Of what was not found clang would look at the flags all the same. */
	keep_apart();
	return (service.flags & LB_FROM_OUTSIDE) != 0;
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

/* Makes nothing of a packet's option, so that its length stays. */
always_inline int dsr_blank(struct __sk_buff *skb, int family)
{
	if (family == FAMILY_IPV4) {
		__u32 nothing = IPV4_NO_OPERATION * 0x01010101u, *words;
		struct iphdr *ip = packet_bytes(skb, ETH_HLEN, sizeof(*ip) + sizeof(struct dsr_ipv4));

		if (!ip)
			return DSR_LEARN_DROP(DROP_INVALID_PACKET);
		words = (__u32 *)(ip + 1);
		ip->check = checksum_changed(checksum_changed(ip->check, words[0], nothing), words[1], nothing);
		words[0] = words[1] = nothing;
	} else {
		struct dsr_ipv6 nothing = {.type = IPV6_EXPERIMENT, .option_length = DSR_IPV6_OPTION_LENGTH};
		__u32 at = offsetof(struct dsr_ipv6, type);

		if (bpf_skb_store_bytes(skb, plain_l4_offset(family) + at, &nothing.type, sizeof(nothing) - at,
					BPF_F_RECOMPUTE_CSUM))
			return DSR_LEARN_DROP(DROP_WRITE_ERROR);
	}
	return 0;
}

always_inline int dsr_meet_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	const struct ct_ends ends = ct_ends_of(packet);
	struct nat asked = {};
	bool is_told, is_node;
	struct ct_row *row;
	int code;

	is_told = dsr_read(skb, packet, &asked, family) && dsr_is_asked(skb, &asked, packet->protocol, family);
	row = ct_between(&ends, family, TUPLE_IN, false);
	if (row && dsr_is_over(row)) {
		dsr_forget(row);
		row = NULL;
	}
	if (!is_told)
		return DSR_MET;
	is_node = identity_is_node(identity_of(&asked.address, family));
	if (!row || dsr_is_of(row, &asked, family) ||
	    (!is_node && (packet->protocol != IPPROTO_TCP || !ct_unless_former(row, packet))))
		packet->entry_flags = CT_DSR | CT_NODE_PORT;
	if (packet->entry_flags || !is_node)
		return DSR_MET;
	code = dsr_blank(skb, family);
	if (code >= 0)
		code = nat(skb, packet, &asked, family);
	return code < 0 ? code : DSR_BACK;
}

/* Looks before admit() at what a packet tells of a connection that it may open, and whether the backend's entry
 * can be that connection's. If not, the packet is made ready to go back to the node that was asked. Which node
 * that was is not told by an address that any node may serve: such a packet of TCP goes on as a stray one of the
 * other connection, and is sent again until that is over. What is not of TCP may never be over while it comes,
 * so the last that asked has the entry. Returns an enum dsr_met, or a drop. */
subprogram int dsr_meet_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	return packet ? dsr_meet_family(skb, packet, FAMILY_IPV4) : DSR_LEARN_DROP(DROP_INVALID_PACKET);
}

subprogram int dsr_meet_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	return packet ? dsr_meet_family(skb, packet, FAMILY_IPV6) : DSR_LEARN_DROP(DROP_INVALID_PACKET);
}

always_inline int dsr_meet(struct __sk_buff *skb, const struct flow *flow, struct packet *packet)
{
	int family = flow->family;

	if (!ENABLE_DSR || packet->node_port || packet->tail || !has_ports(packet->protocol) ||
	    (packet->protocol == IPPROTO_TCP && packet_may_answer(packet)) ||
	    !identity_is_outside(flow->src_identity))
		return DSR_MET;
	return family == FAMILY_IPV4 ? dsr_meet_ipv4(skb, packet) : dsr_meet_ipv6(skb, packet);
}

always_inline int dsr_learn_family(struct __sk_buff *skb, const struct packet *packet, int family)
{
	const struct ct_ends ends = ct_ends_of(packet);
	struct ct_row *row = ct_between(&ends, family, TUPLE_IN, false);
	struct nat asked = {};

	if (!row || !dsr_read(skb, packet, &asked, family))
		return 0;
	__builtin_memcpy(row->nat_addr, &asked.address, 16);
	row->nat_port = asked.port;
	/* A port that stood for another of the client's has become this connection's. */
	if (unlikely(row->flags & CT_MOVED))
		__sync_fetch_and_and((__u32 *)&row->flags, ~(__u32)CT_MOVED);
	ct_flags_set(row, CT_DSR | CT_NODE_PORT);
	return 0;
}

/* Notes in the entry of a packet's connection what its opener asked, after admit(). */
subprogram int dsr_learn(struct __sk_buff *skb, const struct packet *packet, int family)
{
	if (!packet)
		return 0;
	return family == FAMILY_IPV4 ? dsr_learn_family(skb, packet, FAMILY_IPV4)
				     : dsr_learn_family(skb, packet, FAMILY_IPV6);
}
