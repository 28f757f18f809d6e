/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What nobody serves is refused at once, as if the service did it: an attempt of TCP by a reset, all else by an
 * ICMP error. Segments of a connection that was go unanswered: its backend may come back. */
#pragma once

#include "events.h"
#include "nat.h"

#define TCP_ACK 0x10
#define ICMP_PORT_UNREACH 3
#define ICMPV6_PORT_UNREACH 4
#define REFUSAL_HOP_LIMIT 64
/* From the packet that an error is about: so much of its layer 4. */
#define QUOTED_BYTES 8

struct tcp_header {
	__be16 sport;
	__be16 dport;
	__be32 sequence;
	__be32 acknowledged;
	__u8 offset;
	__u8 flags;
	__be16 window;
	__be16 checksum;
	__be16 urgent;
};

struct icmp_header {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 unused;
};

struct quote_ipv4 {
	struct icmp_header icmp;
	struct iphdr ip;
	__u8 l4[QUOTED_BYTES];
};

struct quote_ipv6 {
	struct icmp_header icmp;
	struct ipv6hdr ip;
	__u8 l4[QUOTED_BYTES];
};

/* Puts an answer in the place of a packet: headers of layer 3 and 4 that go back where it came from. */
always_inline bool answer_ipv4(struct __sk_buff *skb, const struct packet *packet, __u8 protocol, void *l4,
			       __u32 bytes)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = sizeof(ip) / 4,
		.tot_len = bpf_htons(sizeof(ip) + bytes),
		.ttl = REFUSAL_HOP_LIMIT,
		.protocol = protocol,
		.saddr = packet->daddr.v4,
		.daddr = packet->saddr.v4,
	};

	ip.check = checksum_fold(bpf_csum_diff(NULL, 0, (__be32 *)&ip, sizeof(ip), 0));
	return !bpf_skb_change_tail(skb, ETH_HLEN + sizeof(ip) + bytes, 0) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), l4, bytes, 0);
}

always_inline bool answer_ipv6(struct __sk_buff *skb, const struct packet *packet, __u8 protocol, void *l4,
			       __u32 bytes)
{
	struct ipv6hdr ip = {
		.version = 6,
		.payload_len = bpf_htons(bytes),
		.nexthdr = protocol,
		.hop_limit = REFUSAL_HOP_LIMIT,
	};

	__builtin_memcpy(&ip.saddr, &packet->daddr, 16);
	__builtin_memcpy(&ip.daddr, &packet->saddr, 16);
	return !bpf_skb_change_tail(skb, ETH_HLEN + sizeof(ip) + bytes, 0) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN + sizeof(ip), l4, bytes, 0);
}

/* What the checksum of layer 4 covers besides layer 4, where it does: both addresses, protocol and length. */
always_inline __s64 pseudo_header(const struct packet *packet, __u8 protocol, __u32 bytes)
{
	__be32 rest[2] = {bpf_htonl(bytes), bpf_htonl(protocol)};

	return bpf_csum_diff(NULL, 0, (__be32 *)&packet->saddr, 32, bpf_csum_diff(NULL, 0, rest, sizeof(rest), 0));
}

/* The reset of an attempt of TCP. */
subprogram int refuse_tcp(struct __sk_buff *skb, const struct packet *packet, int family)
{
	struct tcp_header tcp;
	__s64 sum;

	if (!packet || bpf_skb_load_bytes(skb, packet->l4_offset, &tcp, sizeof(tcp)))
		return false;
	tcp = (struct tcp_header){
		.sport = packet->dport,
		.dport = packet->sport,
		.acknowledged = bpf_htonl(bpf_ntohl(tcp.sequence) + 1),
		.offset = sizeof(tcp) / 4 << 4,
		.flags = TCP_RST | TCP_ACK,
	};
	sum = pseudo_header(packet, IPPROTO_TCP, sizeof(tcp));
	tcp.checksum = checksum_fold(bpf_csum_diff(NULL, 0, (__be32 *)&tcp, sizeof(tcp), sum));
	return family == FAMILY_IPV4 ? answer_ipv4(skb, packet, IPPROTO_TCP, &tcp, sizeof(tcp))
				     : answer_ipv6(skb, packet, IPPROTO_TCP, &tcp, sizeof(tcp));
}

/* An error about a datagram. It quotes no options and no extension headers. */
subprogram int refuse_ipv4(struct __sk_buff *skb, const struct packet *packet)
{
	struct quote_ipv4 quote = {.icmp = {.type = ICMP_DEST_UNREACH, .code = ICMP_PORT_UNREACH}};

	if (!packet || bpf_skb_load_bytes(skb, ETH_HLEN, &quote.ip, sizeof(quote.ip)) ||
	    bpf_skb_load_bytes(skb, packet->l4_offset, quote.l4, sizeof(quote.l4)))
		return false;
	quote.ip.ihl = sizeof(quote.ip) / 4;
	quote.icmp.checksum = checksum_fold(bpf_csum_diff(NULL, 0, (__be32 *)&quote, sizeof(quote), 0));
	return answer_ipv4(skb, packet, IPPROTO_ICMP, &quote, sizeof(quote));
}

subprogram int refuse_ipv6(struct __sk_buff *skb, const struct packet *packet)
{
	struct quote_ipv6 quote = {.icmp = {.type = ICMPV6_DEST_UNREACH, .code = ICMPV6_PORT_UNREACH}};
	__s64 sum;

	if (!packet || bpf_skb_load_bytes(skb, ETH_HLEN, &quote.ip, sizeof(quote.ip)) ||
	    bpf_skb_load_bytes(skb, packet->l4_offset, quote.l4, sizeof(quote.l4)))
		return false;
	quote.ip.nexthdr = packet->protocol;
	sum = pseudo_header(packet, IPPROTO_ICMPV6, sizeof(quote));
	quote.icmp.checksum = checksum_fold(bpf_csum_diff(NULL, 0, (__be32 *)&quote, sizeof(quote), sum));
	return answer_ipv6(skb, packet, IPPROTO_ICMPV6, &quote, sizeof(quote));
}

always_inline bool refuse_answered(struct __sk_buff *skb, int family)
{
	struct packet packet = {};
	int code = family == FAMILY_IPV4 ? parse_ipv4(skb, &packet) : parse_ipv6(skb, &packet);

	if (code < 0 || packet.headless || address_is_many(&packet.saddr, family) || address_is_zero(&packet.saddr))
		return false;
	if (packet.protocol == IPPROTO_TCP)
		return packet.tcp_flags & TCP_SYN && refuse_tcp(skb, &packet, family);
	return family == FAMILY_IPV4 ? refuse_ipv4(skb, &packet) : refuse_ipv6(skb, &packet);
}

/* Turns a packet into the answer of nobody, if it gets one. Who sent it is its receiver then. */
subprogram int refuse_turn(struct __sk_buff *skb, int family)
{
	struct ethhdr eth;
	__u8 macs[12];

	if (!(family == FAMILY_IPV4 ? refuse_answered(skb, FAMILY_IPV4) : refuse_answered(skb, FAMILY_IPV6)) ||
	    bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return false;
	mac_copy(macs, eth.h_source);
	mac_copy(macs + 6, eth.h_dest);
	return !bpf_skb_store_bytes(skb, 0, macs, sizeof(macs), 0);
}

/* Drops a packet; one that is to be refused is turned into its answer. Returns whether it was. */
subprogram int drop_or_refuse(struct __sk_buff *skb, const struct flow *flow, int code)
{
	drop(skb, flow, code);
	return flow && REFUSE_UNSERVED && drop_file_of(code) == FILE_REFUSE_H && refuse_turn(skb, flow->family);
}
