/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The gateway that every endpoint believes in: ARP and IPv6 neighbour discovery. */
#pragma once

#include "lookup.h"
#include "loopback.h"
#include "nat.h"

#define NEIGHBOUR_DROP(reason) DROP_FROM(FILE_NEIGHBOUR_H, reason)

#define ARP_HARDWARE_ETHERNET 1
#define ARP_REQUEST 1
#define ARP_REPLY 2

struct arp_ipv4 {
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_length;
	__u8 protocol_length;
	__be16 operation;
	__u8 sender_mac[6];
	__u8 sender_ip[4];
	__u8 target_mac[6];
	__u8 target_ip[4];
};

/* Answers every request but one for the endpoint's own address, which is how it looks for a
 * duplicate. That, and replies, are the stack's. An endpoint tells of its own address only. At an interface of
 * another plugin the neighbours are that plugin's. */
always_inline int arp_from_container(struct __sk_buff *skb, const struct config_row *self)
{
	struct ethhdr *eth = packet_bytes(skb, 0, sizeof(*eth) + sizeof(struct arp_ipv4));
	struct arp_ipv4 *arp;
	__be32 target, sender;

	if (!eth)
		return NEIGHBOUR_DROP(DROP_INVALID_PACKET);
	arp = (void *)(eth + 1);
	__builtin_memcpy(&target, arp->target_ip, 4);
	__builtin_memcpy(&sender, arp->sender_ip, 4);
	if (arp->hardware != bpf_htons(ARP_HARDWARE_ETHERNET) || arp->protocol != bpf_htons(ETH_P_IP) ||
	    arp->hardware_length != 6 || arp->protocol_length != 4)
		return NEIGHBOUR_DROP(DROP_INVALID_PACKET);
	if (self->flags & CONFIG_SOURCE_CHECK && sender && sender != self->ipv4)
		return NEIGHBOUR_DROP(DROP_INVALID_SOURCE_IP);
	if (self->flags & CONFIG_CHAINED || arp->operation != bpf_htons(ARP_REQUEST) || target == self->ipv4)
		return TC_ACT_OK;
	arp->operation = bpf_htons(ARP_REPLY);
	mac_copy(eth->h_dest, arp->sender_mac);
	mac_copy(eth->h_source, self->node_mac);
	mac_copy(arp->target_mac, arp->sender_mac);
	__builtin_memcpy(arp->target_ip, arp->sender_ip, 4);
	mac_copy(arp->sender_mac, self->node_mac);
	__builtin_memcpy(arp->sender_ip, &target, 4);
	return bpf_redirect(self->ifindex, 0);
}

#define ND_HOP_LIMIT 255
#define MLD_REPORT 131
#define MLD_DONE 132
#define MLD_REPORT_V2 143
#define ND_OPTION_TARGET_LINK_ADDRESS 2
/* Flags of an advertisement. */
#define ND_SOLICITED 0x40
#define ND_OVERRIDE 0x20
#define ND_ROUTER 0x80

/* A solicitation without options, or an advertisement. */
struct neighbour_message {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__u8 flags;
	__u8 reserved[3];
	union address target;
};

struct neighbour_advertisement {
	struct ipv6hdr ip;
	struct neighbour_message message;
	__u8 option;
	__u8 option_length; /* in units of 8 bytes */
	__u8 mac[6];
};

#define ADVERTISEMENT_BYTES (sizeof(struct neighbour_message) + 8)

/* Checksum of an advertisement: both addresses, the message, its length and protocol. */
always_inline __be16 advertisement_checksum(struct neighbour_advertisement *na)
{
	__u32 pseudo[2] = {bpf_htonl(ADVERTISEMENT_BYTES), bpf_htonl(IPPROTO_ICMPV6)};
	__s64 sum = bpf_csum_diff(NULL, 0, pseudo, sizeof(pseudo), 0);

	sum = bpf_csum_diff(NULL, 0, (__be32 *)&na->ip.saddr, 32, sum);
	return checksum_fold(bpf_csum_diff(NULL, 0, (__be32 *)&na->message, ADVERTISEMENT_BYTES, sum));
}

/* Turns the solicitation into an advertisement of the host side, and sends it back. */
always_inline int nd_advertise(struct __sk_buff *skb, const struct config_row *self,
			       const union address *asker, const union address *target, __u8 flags)
{
	struct neighbour_advertisement na = {
		.ip = {
			.version = 6,
			.payload_len = bpf_htons(ADVERTISEMENT_BYTES),
			.nexthdr = IPPROTO_ICMPV6,
			.hop_limit = ND_HOP_LIMIT,
		},
		.message = {
			.type = ND_NEIGHBOUR_ADVERTISEMENT,
			.flags = ND_SOLICITED | ND_OVERRIDE | flags,
			.target = *target,
		},
		.option = ND_OPTION_TARGET_LINK_ADDRESS,
		.option_length = 1,
	};
	__u8 macs[12];

	__builtin_memcpy(&na.ip.saddr, target, 16);
	__builtin_memcpy(&na.ip.daddr, asker, 16);
	__builtin_memcpy(na.mac, self->node_mac, 6);
	na.message.checksum = advertisement_checksum(&na);
	if (bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_source), macs, 6))
		return NEIGHBOUR_DROP(DROP_INVALID_PACKET);
	__builtin_memcpy(macs + 6, self->node_mac, 6);
	if (bpf_skb_change_tail(skb, ETH_HLEN + sizeof(na), 0) ||
	    bpf_skb_store_bytes(skb, 0, macs, sizeof(macs), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &na, sizeof(na), 0))
		return NEIGHBOUR_DROP(DROP_WRITE_ERROR);
	return bpf_redirect(self->ifindex, 0);
}

always_inline bool address_is_router(const union address *a)
{
	__u32 zero = 0;
	struct node_row *node = bpf_map_lookup_elem(&volvox_node, &zero);
	union address router;

	if (!node)
		return false;
	__builtin_memcpy(&router, node->router_ipv6, 16);
	return address_equal(a, &router, FAMILY_IPV6);
}

/* What the stack may hear of a neighbour: what is for the link, or for an address of the node. Anything else it would
 * send on to others, past every policy. */
always_inline int nd_to_stack(const struct packet *packet)
{
	struct lxc_row *lxc;

	if (address_is_of_link(&packet->daddr, FAMILY_IPV6) || address_is_router(&packet->daddr))
		return TC_ACT_OK;
	lxc = lxc_find(&packet->daddr, FAMILY_IPV6);
	return lxc && lxc->flags & LXC_HOST ? TC_ACT_OK : NEIGHBOUR_DROP(DROP_UNKNOWN_TARGET);
}

/* Whether a neighbour may call itself so: by its own address, or one of the link; and who asks whether he may have
 * an address, by none. */
always_inline bool nd_source_is_own(const struct config_row *self, const struct packet *packet,
				    const struct neighbour_message *message)
{
	union address own;

	if (address_is_zero(&packet->saddr))
		return message->type == ND_NEIGHBOUR_SOLICITATION;
	__builtin_memcpy(&own, self->ipv6, 16);
	return !(self->flags & CONFIG_SOURCE_CHECK) || address_is_link_local(&packet->saddr) ||
	       address_equal(&packet->saddr, &own, FAMILY_IPV6);
}

/* Answers for the router, for local endpoints, and for the stand-in of one that speaks with itself.
 * The stack gets what concerns the host: its link-local addresses, advertisements, and probes for
 * duplicates, which nobody here answers; and all at an interface of another plugin, whose neighbours they are.
 * No message has extension headers, nor is it a fragment. */
subprogram int nd_from_container(struct __sk_buff *skb, const struct config_row *self,
			       const struct packet *packet)
{
	struct neighbour_message message;
	union address own;
	struct lxc_row *lxc;

	if (!self || !packet)
		return TC_ACT_SHOT;
	if (bpf_skb_load_bytes(skb, packet->l4_offset, &message, sizeof(message)) ||
	    packet->hop_limit != ND_HOP_LIMIT || message.code ||
	    packet->l4_offset != ETH_HLEN + sizeof(struct ipv6hdr))
		return NEIGHBOUR_DROP(DROP_INVALID_PACKET);
	if (!nd_source_is_own(self, packet, &message))
		return NEIGHBOUR_DROP(DROP_INVALID_SOURCE_IP);
	if (message.type == ND_NEIGHBOUR_ADVERTISEMENT) {
		__builtin_memcpy(&own, self->ipv6, 16);
		if (!address_equal(&message.target, &own, FAMILY_IPV6) &&
		    !address_is_link_local(&message.target))
			return NEIGHBOUR_DROP(DROP_INVALID_SOURCE_IP);
		return self->flags & CONFIG_CHAINED ? TC_ACT_OK : nd_to_stack(packet);
	}
	if (self->flags & CONFIG_CHAINED)
		return TC_ACT_OK;
	if (address_is_zero(&packet->saddr))
		return nd_to_stack(packet);
	if (address_is_loopback(&message.target, FAMILY_IPV6))
		return nd_advertise(skb, self, &packet->saddr, &message.target, 0);
	if (address_is_link_local(&message.target))
		return nd_to_stack(packet);
	if (address_is_router(&message.target))
		return nd_advertise(skb, self, &packet->saddr, &message.target, ND_ROUTER);
	lxc = lxc_find(&message.target, FAMILY_IPV6);
	if (!lxc)
		return NEIGHBOUR_DROP(DROP_UNKNOWN_TARGET);
	if (lxc->flags & LXC_HOST)
		return nd_to_stack(packet);
	return nd_advertise(skb, self, &packet->saddr, &message.target, 0);
}

/* Whether a packet is what every interface says to its link when it comes up, and only to it: which
 * groups it is in, and whether there is a router. The stack at the other end may read it. */
always_inline bool link_greeting(const struct packet *packet)
{
	__u8 type = bpf_ntohs(packet->policy_port);

	return packet->protocol == IPPROTO_ICMPV6 && !packet->headless &&
	       (type == MLD_REPORT || type == MLD_DONE || type == MLD_REPORT_V2 ||
		type == ND_ROUTER_SOLICITATION) &&
	       packet->daddr.bytes[0] == 0xff && packet->daddr.bytes[1] == 0x02 &&
	       (address_is_zero(&packet->saddr) || address_is_link_local(&packet->saddr));
}
