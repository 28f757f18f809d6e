/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Direct server return: a client's packet keeps its source on the way to a backend behind another node, and
 * tells that node in an option what the client has asked. Its form is Cilium's. */
#pragma once

#include "nat.h"

#define DSR_IPV4_OPTION 0x9a
/* Of the destination options. Who does not know it skips it. */
#define DSR_IPV6_OPTION 0x1b

#define IPV4_NO_OPERATION 1
/* For experiments, among the destination options: who does not know it skips it. So much padding would make
 * Linux drop the packet. */
#define IPV6_EXPERIMENT 0x1e

struct dsr_ipv4 {
	__u8 type;
	__u8 length; /* of all of it */
	__be16 port;
	__be32 address;
};

struct dsr_ipv6 {
	__u8 next;
	__u8 length; /* in units of 8 bytes, without the first */
	__u8 type;
	__u8 option_length; /* of what follows */
	__u8 address[16];
	__be16 port;
	__u16 pad;
};

#define DSR_IPV6_LENGTH ((sizeof(struct dsr_ipv6) - 8) / 8)
#define DSR_IPV6_OPTION_LENGTH (sizeof(struct dsr_ipv6) - 4)

/* Where layer 4 begins behind an IP header without options. */
always_inline __u32 plain_l4_offset(int family)
{
	return ETH_HLEN + (family == FAMILY_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
}

/* Bytes that the option takes. */
always_inline __u32 dsr_bytes(int family)
{
	return family == FAMILY_IPV4 ? sizeof(struct dsr_ipv4) : sizeof(struct dsr_ipv6);
}

always_inline bool dsr_write_ipv4(struct __sk_buff *skb, const struct nat *service)
{
	struct dsr_ipv4 option = {
		.type = DSR_IPV4_OPTION,
		.length = sizeof(option),
		.port = service->port,
		.address = service->address.v4,
	};
	struct iphdr *ip = packet_bytes(skb, ETH_HLEN, sizeof(*ip) + sizeof(option));
	__u32 before, words[2];
	__u16 check;

	if (!ip)
		return false;
	__builtin_memcpy(words, &option, sizeof(words));
	before = *(__u32 *)ip;
	ip->ihl += sizeof(option) / 4;
	ip->tot_len = bpf_htons(bpf_ntohs(ip->tot_len) + sizeof(option));
	check = checksum_changed(ip->check, before, *(__u32 *)ip);
	check = checksum_changed(check, 0, words[0]);
	ip->check = checksum_changed(check, 0, words[1]);
	__builtin_memcpy(ip + 1, words, sizeof(words));
	return true;
}

always_inline bool dsr_write_ipv6(struct __sk_buff *skb, const struct nat *service)
{
	struct dsr_ipv6 option = {
		.length = DSR_IPV6_LENGTH,
		.type = DSR_IPV6_OPTION,
		.option_length = DSR_IPV6_OPTION_LENGTH,
		.port = service->port,
	};
	struct ipv6hdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return false;
	__builtin_memcpy(option.address, &service->address, 16);
	option.next = ip.nexthdr;
	ip.nexthdr = IPPROTO_DSTOPTS;
	ip.payload_len = bpf_htons(bpf_ntohs(ip.payload_len) + sizeof(option));
	return !bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), BPF_F_RECOMPUTE_CSUM) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), &option, sizeof(option), BPF_F_RECOMPUTE_CSUM);
}

/* Reads the option, which is the first of its packet. Returns whether there is one. */
always_inline bool dsr_read(struct __sk_buff *skb, const struct packet *packet, struct nat *service, int family)
{
	if (family == FAMILY_IPV4) {
		struct dsr_ipv4 option;

		if (packet->l4_offset < plain_l4_offset(family) + sizeof(option) ||
		    bpf_skb_load_bytes(skb, plain_l4_offset(family), &option, sizeof(option)) ||
		    option.type != DSR_IPV4_OPTION || option.length != sizeof(option))
			return false;
		service->address.v4 = option.address;
		service->port = option.port;
	} else {
		struct dsr_ipv6 option;
		__u8 next;

		if (packet->l4_offset < plain_l4_offset(family) + sizeof(option) ||
		    bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next, 1) ||
		    bpf_skb_load_bytes(skb, plain_l4_offset(family), &option, sizeof(option)) ||
		    next != IPPROTO_DSTOPTS || option.type != DSR_IPV6_OPTION ||
		    option.option_length != DSR_IPV6_OPTION_LENGTH)
			return false;
		__builtin_memcpy(&service->address, option.address, 16);
		service->port = option.port;
	}
	return true;
}

/* Whether nothing has been made of a packet's option. */
always_inline bool dsr_is_blank(struct __sk_buff *skb, int family)
{
	__u32 at = plain_l4_offset(family), words[2];
	struct dsr_ipv6 option;
	__u8 next;

	if (family == FAMILY_IPV4)
		return !bpf_skb_load_bytes(skb, at, words, sizeof(words)) &&
		       words[0] == IPV4_NO_OPERATION * 0x01010101u && words[1] == words[0];
	return !bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next, 1) &&
	       next == IPPROTO_DSTOPTS && !bpf_skb_load_bytes(skb, at, &option, offsetof(struct dsr_ipv6, address)) &&
	       option.length == DSR_IPV6_LENGTH && option.type == IPV6_EXPERIMENT &&
	       option.option_length == DSR_IPV6_OPTION_LENGTH;
}
