/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Direct server return, at the node that a client asks. Which way a connection goes is settled when it is
 * opened, and stands in its entry: with the client's source and CT_DSR, or as the node's own.
 *
 * The option is in each packet that may open a connection: in those with SYN of TCP, and in all of others,
 * because this node hears no answers that would tell it that the other one knows. One that has no room for
 * it goes without: what opens a connection is then the node's own, what goes on relies on those before. */
#pragma once

#include "dsr.h"
#include "masquerade.h"
#include "route.h"

#define DSR_SEND_DROP(reason) DROP_FROM(FILE_DSR_SEND_H, reason)

/* How dsr_send() has a packet go. */
enum dsr_way {
	DSR_NOT = 0,
	DSR_SENT = 1,
};

/* Whether a new connection may go this way: by a service that has it so, from a client outside, who is answered
 * directly, to an endpoint behind a node of ours, which reads the option. */
always_inline bool dsr_may(const struct flow *flow, const struct packet *packet, int family)
{
	return packet->direct && packet->reach & IPCACHE_HAS_TUNNEL && flow->dst_identity >= IDENTITY_GLOBAL &&
	       flow->dst_identity < IDENTITY_LOCAL && identity_is_outside(flow->src_identity) &&
	       packet->l4_offset == plain_l4_offset(family);
}

/* The device by which a packet leaves, or a drop. */
always_inline int dsr_device(struct __sk_buff *skb, const struct packet *packet, int family)
{
	struct route route = {};
	__u32 overlay = overlay_to(packet);
	int code;

	if (overlay)
		return overlay;
	code = route_find(skb, packet, &route, family);
	return code < 0 ? code : (int)route.ifindex;
}

always_inline int dsr_tell_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	struct nat service = {};
	__u32 mtu = 0;
	int device;

	if (packet->tail || skb->gso_size || packet->l4_offset != plain_l4_offset(family) ||
	    !reverse_find(packet->rev_nat, &service, family))
		return false;
	device = dsr_device(skb, packet, family);
	if (device < 0)
		return device;
	if (bpf_check_mtu(skb, device, &mtu, dsr_bytes(family), 0) ||
	    bpf_skb_adjust_room(skb, dsr_bytes(family), BPF_ADJ_ROOM_NET, 0))
		return false;
	packet->l4_offset += dsr_bytes(family);
	if (!(family == FAMILY_IPV4 ? dsr_write_ipv4(skb, &service) : dsr_write_ipv6(skb, &service)))
		return DSR_SEND_DROP(DROP_WRITE_ERROR);
	return true;
}

/* Puts the option into a packet. Returns whether there was room, or a drop. */
subprogram int dsr_tell(struct __sk_buff *skb, struct packet *packet, int family)
{
	if (!packet)
		return DSR_SEND_DROP(DROP_INVALID_PACKET);
	return family == FAMILY_IPV4 ? dsr_tell_family(skb, packet, FAMILY_IPV4)
				     : dsr_tell_family(skb, packet, FAMILY_IPV6);
}

/* Whether packets of a connection have gone as the node's own already. */
always_inline bool dsr_is_late(const struct packet *packet, int family)
{
	struct nat to = {};

	return !(packet->tcp_flags & TCP_SYN) && snat_find(packet, &to, family);
}

/* Whether the backend's node has sent a packet back, as it cannot tell its connection from another one. It does
 * so before a connection of TCP is open only. */
always_inline bool dsr_is_back(struct __sk_buff *skb, const struct packet *packet, const struct ct_row *row, int family)
{
	if (packet->tail || packet->l4_offset != plain_l4_offset(family) + dsr_bytes(family) ||
	    (packet->protocol == IPPROTO_TCP && row->flags & CT_SEEN_NON_SYN))
		return false;
	return dsr_is_blank(skb, family);
}

always_inline int dsr_send_family(struct __sk_buff *skb, const struct flow *flow, struct packet *packet, int family)
{
	bool tcp = packet->protocol == IPPROTO_TCP, opens = !tcp || packet->tcp_flags & TCP_SYN;
	struct ct_row *row = ct_find_both(packet, family, TUPLE_OUT);
	int told = true;

	if (unlikely(row && opens && dsr_is_back(skb, packet, row, family)))
		__sync_fetch_and_and((__u32 *)&row->flags, ~(__u32)CT_DSR);
	if (row ? !(row->flags & CT_DSR) : !dsr_may(flow, packet, family) || dsr_is_late(packet, family))
		return DSR_NOT;
	if (opens)
		told = dsr_tell(skb, packet, family);
	if (told < 0)
		return told;
	if (row) {
		if (unlikely(row->rev_nat_index != packet->rev_nat))
			ct_serve(row, packet);
		ct_touch(row, packet, true, tcp);
		/* Nothing is heard of the backend here. */
		if (unlikely(tcp && row->flags & CT_TX_CLOSING && !(packet->tcp_flags & TCP_RST)))
			row->lifetime = clock_seconds() + CT_LIFETIME_SYN;
		return DSR_SENT;
	}
	if (!told)
		return DSR_NOT;
	if (!packet_opens(packet) && !packet_resumes(packet))
		return DSR_SENT;
	packet->entry_flags = CT_DSR;
	told = ct_create(flow, packet);
	return told < 0 ? told : DSR_SENT;
}

/* Readies what a client sends to a backend elsewhere to go there with its source, if it may. Returns an enum
 * dsr_way, or a drop. */
subprogram int dsr_send_ipv4(struct __sk_buff *skb, const struct flow *flow, struct packet *packet)
{
	if (!flow || !packet)
		return DSR_SEND_DROP(DROP_INVALID_PACKET);
	return dsr_send_family(skb, flow, packet, FAMILY_IPV4);
}

subprogram int dsr_send_ipv6(struct __sk_buff *skb, const struct flow *flow, struct packet *packet)
{
	if (!flow || !packet)
		return DSR_SEND_DROP(DROP_INVALID_PACKET);
	return dsr_send_family(skb, flow, packet, FAMILY_IPV6);
}

always_inline int dsr_send(struct __sk_buff *skb, const struct flow *flow, struct packet *packet)
{
	if (!ENABLE_DSR || packet->icmp_error)
		return DSR_NOT;
	return flow->family == FAMILY_IPV4 ? dsr_send_ipv4(skb, flow, packet) : dsr_send_ipv6(skb, flow, packet);
}
