/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From bytes to struct packet. */
#pragma once

#include <linux/ip.h>
#include <linux/ipv6.h>

#include "drop.h"
#include "fragment.h"

#define PARSE_DROP(reason) DROP_FROM(FILE_PARSE_H, reason)

#define IPV4_OFFSET ETH_HLEN
#define IPV4_FRAGMENT_OFFSET 0x1fff
#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV6_FRAGMENT_OFFSET 0xfff8
#define IPV6_MORE_FRAGMENTS 0x0001
#define IPV6_EXTENSION_HEADERS_MAX 6
#define TCP_FLAGS_OFFSET 13
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* The bounds of the packet. Volatile, lest clang keep one in a register and extend it to 64 bits:
 * the verifier would no longer know it for a packet pointer. */
always_inline void *packet_start(const struct __sk_buff *skb)
{
	return (void *)(long)*(const volatile __u32 *)&skb->data;
}

always_inline void *packet_end(const struct __sk_buff *skb)
{
	return (void *)(long)*(const volatile __u32 *)&skb->data_end;
}

/* Where headers end at the latest; extension headers can be long. */
#define HEADERS_MAX 4095

/* `length` bytes of the packet at an offset, or NULL if it is shorter. Earlier pointers into the
 * packet are void afterwards. */
always_inline void *packet_bytes(struct __sk_buff *skb, __u32 offset, __u32 length)
{
	void *bytes;

	if (offset > HEADERS_MAX)
		return NULL;
	bytes = packet_start(skb) + offset;
	if (likely(bytes + length <= packet_end(skb)))
		return bytes;
	if (bpf_skb_pull_data(skb, offset + length))
		return NULL;
	bytes = packet_start(skb) + offset;
	return bytes + length <= packet_end(skb) ? bytes : NULL;
}

/* Where the first chunk of SCTP begins, and what it may be. */
#define SCTP_CHUNK_OFFSET 12
#define SCTP_INIT 1
#define SCTP_INIT_ACK 2
#define SCTP_ABORT 6
#define SCTP_SHUTDOWN 7
#define SCTP_SHUTDOWN_ACK 8
#define SCTP_SHUTDOWN_COMPLETE 14

/* What a packet of SCTP says, in the words of TCP. */
always_inline __u8 sctp_flags(__u8 chunk)
{
	switch (chunk) {
	case SCTP_INIT:
		return TCP_SYN;
	case SCTP_INIT_ACK:
		return TCP_SYN | TCP_ACK;
	case SCTP_SHUTDOWN:
	case SCTP_SHUTDOWN_ACK:
		return TCP_FIN | TCP_ACK;
	case SCTP_ABORT:
	case SCTP_SHUTDOWN_COMPLETE:
		return TCP_RST | TCP_ACK;
	default:
		return TCP_ACK;
	}
}

always_inline int parse_icmp(struct __sk_buff *skb, struct packet *packet, int family)
{
	__u8 *icmp = packet_bytes(skb, packet->l4_offset, 8);
	__u8 type;

	if (!icmp)
		return PARSE_DROP(DROP_INVALID_L4_HEADER);
	type = icmp[0];
	packet->policy_port = bpf_htons(type);
	packet->icmp_error = icmp_is_error(type, family);
	icmp_ports(type, *(__be16 *)(icmp + 4), family, &packet->sport, &packet->dport);
	return 0;
}

/* Ports and flags behind the IP headers. */
always_inline int parse_l4(struct __sk_buff *skb, struct packet *packet, int family)
{
	__be16 *ports;
	__u8 *tcp;

	switch (packet->protocol) {
	case IPPROTO_TCP:
		tcp = packet_bytes(skb, packet->l4_offset, 20);
		if (!tcp)
			return PARSE_DROP(DROP_INVALID_L4_HEADER);
		packet->tcp_flags = tcp[TCP_FLAGS_OFFSET];
		ports = (__be16 *)tcp;
		break;
	case IPPROTO_SCTP:
		tcp = packet_bytes(skb, packet->l4_offset, SCTP_CHUNK_OFFSET + 4);
		if (!tcp)
			return PARSE_DROP(DROP_INVALID_L4_HEADER);
		packet->tcp_flags = sctp_flags(tcp[SCTP_CHUNK_OFFSET]);
		ports = (__be16 *)tcp;
		break;
	case IPPROTO_UDP:
		ports = packet_bytes(skb, packet->l4_offset, 8);
		if (!ports)
			return PARSE_DROP(DROP_INVALID_L4_HEADER);
		break;
	case IPPROTO_ICMP:
		if (family == FAMILY_IPV4)
			return parse_icmp(skb, packet, family);
		return PARSE_DROP(DROP_UNKNOWN_L4);
	case IPPROTO_ICMPV6:
		if (family == FAMILY_IPV6)
			return parse_icmp(skb, packet, family);
		return PARSE_DROP(DROP_UNKNOWN_L4);
	default:
		return PARSE_DROP(DROP_UNKNOWN_L4);
	}
	packet->sport = ports[0];
	packet->dport = packet->policy_port = ports[1];
	return 0;
}

/* Options of IPv4. */
#define IPV4_OPTION_END 0
#define IPV4_OPTION_NOTHING 1
#define IPV4_OPTION_LOOSE_ROUTE 131
#define IPV4_OPTION_STRICT_ROUTE 137
#define IPV4_OPTIONS_MAX 40

/* Whether options send a packet on to others than its destination, by which policy judges, or go on where the packet
 * ends. Nobody follows those that stand behind one that cannot be read. */
subprogram int ipv4_is_misled(struct __sk_buff *skb, __u32 end)
{
	__u32 at = IPV4_OFFSET + sizeof(struct iphdr);
	__u8 option[2];

	if (end > skb->len)
		return true;
	for (int i = 0; i < IPV4_OPTIONS_MAX && at < end; i++) {
		if (bpf_skb_load_bytes(skb, at, option, sizeof(option)))
			return true;
		if (option[0] == IPV4_OPTION_LOOSE_ROUTE || option[0] == IPV4_OPTION_STRICT_ROUTE)
			return true;
		if (option[0] == IPV4_OPTION_END || (option[0] != IPV4_OPTION_NOTHING && option[1] < 2))
			return false;
		at += option[0] == IPV4_OPTION_NOTHING ? 1 : option[1];
	}
	return false;
}

/* Bytes of a header of layer 4 that are read, and that a first fragment has to hold. */
always_inline __u32 l4_bytes(__u8 protocol)
{
	return protocol == IPPROTO_TCP ? 20 : 8;
}

/* Whether a fragment ends within that header, or begins there: what is read of it would be another's in the
 * datagram that the receiver puts together. `offset` and `bytes` are of what follows the IP headers. */
always_inline bool fragment_is_tiny(__u8 protocol, __u32 offset, __u32 bytes)
{
	return offset ? offset < l4_bytes(protocol) : bytes < l4_bytes(protocol);
}

always_inline bool fragment_is_tiny_ipv4(const struct iphdr *ip)
{
	__u32 header = ip->ihl * 4, length = bpf_ntohs(ip->tot_len);

	return fragment_is_tiny(ip->protocol, (bpf_ntohs(ip->frag_off) & IPV4_FRAGMENT_OFFSET) * 8,
				length > header ? length - header : 0);
}

always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	struct iphdr *ip = packet_bytes(skb, IPV4_OFFSET, sizeof(*ip));
	__be16 fragment, id;
	int code;

	if (!ip || ip->version != 4 || ip->ihl < 5)
		return PARSE_DROP(DROP_INVALID_PACKET);
	packet->saddr.v4 = ip->saddr;
	packet->daddr.v4 = ip->daddr;
	packet->protocol = ip->protocol;
	packet->hop_limit = ip->ttl;
	packet->l4_offset = IPV4_OFFSET + ip->ihl * 4;
	id = ip->id;
	fragment = ip->frag_off & bpf_htons(IPV4_FRAGMENT_OFFSET | IPV4_MORE_FRAGMENTS);
	packet->headless = packet->tail = (fragment & bpf_htons(IPV4_FRAGMENT_OFFSET)) != 0;
	if (unlikely(fragment) && fragment_is_tiny_ipv4(ip))
		return PARSE_DROP(DROP_INVALID_PACKET);
	if (unlikely(packet->l4_offset != IPV4_OFFSET + sizeof(*ip)) && ipv4_is_misled(skb, packet->l4_offset))
		return PARSE_DROP(DROP_INVALID_PACKET);
	code = packet->tail ? 0 : parse_l4(skb, packet, FAMILY_IPV4);
	if (unlikely(fragment) && code >= 0)
		fragment_ipv4(packet, id);
	return code;
}

/* Where a routing header has what a fragment's has for its offset. */
#define IPV6_SEGMENTS_LEFT 0x00ff

/* An extension header: of a fragment all of it, of others the first bytes. */
struct ipv6_extension {
	__u8 next;
	__u8 length;
	__be16 fragment;
	__be32 id;
};

/* Steps over one extension header. Returns 1 if there was one, 0 if this is layer 4. The header of
 * a fragment is kept. */
always_inline int ipv6_step(struct __sk_buff *skb, struct packet *packet, struct ipv6_extension *fragment)
{
	struct ipv6_extension header;

	switch (packet->protocol) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
	case IPPROTO_AH:
	case IPPROTO_FRAGMENT:
		break;
	default:
		return 0;
	}
	if (bpf_skb_load_bytes(skb, packet->l4_offset, &header, sizeof(header)))
		return PARSE_DROP(DROP_INVALID_EXTENSION_HEADER);
	/* It would go on to others than its destination, by which policy judges. */
	if (packet->protocol == IPPROTO_ROUTING && header.fragment & bpf_htons(IPV6_SEGMENTS_LEFT))
		return PARSE_DROP(DROP_INVALID_EXTENSION_HEADER);
	if (packet->protocol == IPPROTO_FRAGMENT) {
		*fragment = header;
		packet->l4_offset += 8;
	} else if (packet->protocol == IPPROTO_AH) {
		packet->l4_offset += (header.length + 2) * 4;
	} else {
		packet->l4_offset += (header.length + 1) * 8;
	}
	packet->protocol = header.next;
	return 1;
}

always_inline bool fragment_is_tiny_ipv6(struct __sk_buff *skb, const struct packet *packet,
					 const struct ipv6_extension *fragment)
{
	__u32 headers = packet->l4_offset - ETH_HLEN - sizeof(struct ipv6hdr), length;
	__be16 payload;

	if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, payload_len), &payload, sizeof(payload)))
		return true;
	length = bpf_ntohs(payload);
	return fragment_is_tiny(packet->protocol, bpf_ntohs(fragment->fragment) & IPV6_FRAGMENT_OFFSET,
				length > headers ? length - headers : 0);
}

/* Reads what follows the IP headers, or what is known of it if this is a later fragment. */
always_inline int ipv6_end(struct __sk_buff *skb, struct packet *packet, const struct ipv6_extension *fragment)
{
	int code;

	if (unlikely(fragment->fragment) && fragment_is_tiny_ipv6(skb, packet, fragment))
		return PARSE_DROP(DROP_INVALID_PACKET);
	code = packet->tail ? 0 : parse_l4(skb, packet, FAMILY_IPV6);
	if (unlikely(fragment->fragment) && code >= 0)
		fragment_ipv6(packet, fragment->id);
	return code;
}

subprogram int parse_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv6hdr *ip = packet_bytes(skb, ETH_HLEN, sizeof(*ip));
	struct ipv6_extension fragment = {};
	int step;

	if (!packet || !ip || ip->version != 6)
		return PARSE_DROP(DROP_INVALID_PACKET);
	__builtin_memcpy(&packet->saddr, &ip->saddr, 16);
	__builtin_memcpy(&packet->daddr, &ip->daddr, 16);
	packet->protocol = ip->nexthdr;
	packet->hop_limit = ip->hop_limit;
	packet->l4_offset = ETH_HLEN + sizeof(*ip);
	for (int i = 0; i < IPV6_EXTENSION_HEADERS_MAX; i++) {
		step = ipv6_step(skb, packet, &fragment);
		if (step < 0)
			return step;
		fragment.fragment &= bpf_htons(IPV6_FRAGMENT_OFFSET | IPV6_MORE_FRAGMENTS);
		packet->headless = packet->tail = (fragment.fragment & bpf_htons(IPV6_FRAGMENT_OFFSET)) != 0;
		if (packet->tail || !step)
			return ipv6_end(skb, packet, &fragment);
	}
	return PARSE_DROP(DROP_INVALID_EXTENSION_HEADER);
}

/* Whether a parsed packet is neighbour discovery of these types. */
always_inline bool nd_is(const struct packet *packet, __u8 first, __u8 last)
{
	__u8 type = bpf_ntohs(packet->policy_port);

	return packet->protocol == IPPROTO_ICMPV6 && !packet->headless && type >= first && type <= last;
}
