/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A device of the node, and what all its packets have in common. */
#pragma once

#include "events.h"
#include "lookup.h"
#include "parse.h"

/* From linux/if_packet.h, which older headers lack for BPF. */
#define PACKET_HOST 0
#define PACKET_OTHERHOST 3

struct device {
	/* Stands for others behind the device, in the family of the packet; zero if nothing does. */
	union address own;
	__u16 flags; /* enum device_flags */
};

/* Copies what counts of a device's row. As with config_read() another device may get the row
 * meanwhile. */
always_inline bool device_read(__u32 ifindex, struct device *device, int family)
{
	for (int attempt = 0; attempt < 2; attempt++) {
		struct device_row *live = bpf_map_lookup_elem(&volvox_device, &ifindex);

		if (!live)
			continue;
		device->own = (union address){};
		if (family == FAMILY_IPV4)
			device->own.v4 = live->ipv4;
		else
			__builtin_memcpy(&device->own, live->ipv6, 16);
		device->flags = live->flags;
		keep_apart();
		if (likely(*(volatile __u32 *)&live->ifindex == ifindex))
			return true;
	}
	return false;
}

/* Which records of a device's packets are wanted, as enum config_flags. `flags` is enum device_flags. */
always_inline __u16 device_notify(__u32 flags)
{
	return (flags & DEVICE_TRACE_NOTIFY ? CONFIG_TRACE_NOTIFY : 0) |
	       (flags & DEVICE_DROP_NOTIFY ? CONFIG_DROP_NOTIFY : 0);
}

/* The number of a VLAN in its tag. One of 0 names none: the frame is the device's own. */
#define VLAN_NUMBER 0x0fff

/* The family of a packet that concerns us; 0 if its protocol does not, or is switched off. What has a
 * VLAN's tag is its device's, which has a row of its own. */
always_inline __u8 family_of(const struct __sk_buff *skb)
{
	if (skb->vlan_present && skb->vlan_tci & VLAN_NUMBER)
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return ENABLE_IPV4 ? FAMILY_IPV4 : 0;
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return ENABLE_IPV6 ? FAMILY_IPV6 : 0;
	return 0;
}

/* What device_parse() found. */
enum device_packet {
	/* From one machine to another. */
	PACKET_PLAIN = 0,
	/* To many, or to a neighbour by its address on the link. */
	PACKET_SPECIAL = 1,
};

/* Reads the headers. Returns an enum device_packet, or why a packet would drop that is none: all but the
 * plain ones are the stack's. */
always_inline int device_parse(struct __sk_buff *skb, struct packet *packet, int family)
{
	int code = family == FAMILY_IPV4 ? parse_ipv4(skb, packet) : parse_ipv6(skb, packet);

	if (code < 0)
		return code;
	if (address_is_many(&packet->daddr, family) ||
	    (family == FAMILY_IPV6 && address_is_link_local(&packet->daddr)))
		return PACKET_SPECIAL;
	return PACKET_PLAIN;
}
