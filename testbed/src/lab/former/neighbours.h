/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The gateway of every endpoint: whoever it asks for answers with the address of its host side. */
#pragma once

#include "packet.h"

#define SOLICITATION 135
#define ADVERTISEMENT 136
#define SOLICITED_OVERRIDE_ROUTER 0xe0
#define TARGET_LINK_ADDRESS 2

struct advertisement {
	struct ipv6hdr ip;
	__u8 type;
	__u8 code;
	__be16 checksum;
	__u8 flags;
	__u8 reserved[3];
	__u8 target[16];
	__u8 option;
	__u8 option_length; /* in units of 8 bytes */
	__u8 mac[6];
};

inlined int answer_arp(struct __sk_buff *skb)
{
	__u8 *arp = bytes(skb, ETH_HLEN + 28), asked[4], asker[10];

	if (!arp)
		return TC_ACT_SHOT;
	__builtin_memcpy(asked, arp + ETH_HLEN + 24, 4);
	if (arp[ETH_HLEN + 7] != 1 || (asked[0] == IPV4[0] && asked[1] == IPV4[1] && asked[2] == IPV4[2] &&
				       asked[3] == IPV4[3]))
		return TC_ACT_OK;
	__builtin_memcpy(asker, arp + ETH_HLEN + 8, 10);
	for (int i = 0; i < 6; i++) {
		arp[i] = asker[i];
		arp[6 + i] = arp[ETH_HLEN + 8 + i] = NODE_MAC[i];
	}
	arp[ETH_HLEN + 7] = 2;
	__builtin_memcpy(arp + ETH_HLEN + 14, asked, 4);
	__builtin_memcpy(arp + ETH_HLEN + 18, asker, 10);
	return bpf_redirect(IFINDEX, 0);
}

/* Neighbour discovery, and what else is for the link. */
inlined bool is_of_neighbours(const struct packet *packet)
{
	__u16 type = bpf_ntohs(packet->policy_port);

	return packet->v6 && (packet->daddr[0] == 0xff || (packet->protocol == ICMPV6 && type >= 130));
}

inlined int answer_solicitation(struct __sk_buff *skb, const struct packet *packet)
{
	struct advertisement na = {
		.ip = {
			.version = 6,
			.payload_len = bpf_htons(32),
			.nexthdr = ICMPV6,
			.hop_limit = 255,
		},
		.type = ADVERTISEMENT,
		.flags = SOLICITED_OVERRIDE_ROUTER,
		.option = TARGET_LINK_ADDRESS,
		.option_length = 1,
	};
	__u32 pseudo[2] = {bpf_htonl(32), bpf_htonl(ICMPV6)};
	__u8 macs[12];
	__s64 sum;

	/* Whether somebody else has its address is not asked of us. */
	if (bpf_ntohs(packet->policy_port) != SOLICITATION || (!packet->saddr[0] && !packet->saddr[15]))
		return TC_ACT_OK;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(struct ipv6hdr) + 8, na.target, 16) ||
	    bpf_skb_load_bytes(skb, ETH_ALEN, macs, 6))
		return TC_ACT_SHOT;
	__builtin_memcpy(&na.ip.saddr, na.target, 16);
	__builtin_memcpy(&na.ip.daddr, packet->saddr, 16);
	for (int i = 0; i < 6; i++)
		na.mac[i] = macs[6 + i] = NODE_MAC[i];
	sum = bpf_csum_diff(NULL, 0, pseudo, sizeof(pseudo), 0);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&na.ip.saddr, 32, sum);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&na.type, 32, sum);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff);
	na.checksum = ~((sum & 0xffff) + (sum >> 16));
	if (bpf_skb_change_tail(skb, ETH_HLEN + sizeof(na), 0) || bpf_skb_store_bytes(skb, 0, macs, sizeof(macs), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &na, sizeof(na), 0))
		return TC_ACT_SHOT;
	return bpf_redirect(IFINDEX, 0);
}
