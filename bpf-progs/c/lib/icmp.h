/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What types of ICMP say. */
#pragma once

#include "common.h"

/* Types of ICMP; the kernel's header for them draws in the C library. */
#define ICMP_ECHOREPLY 0
#define ICMP_DEST_UNREACH 3
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12
#define ICMPV6_DEST_UNREACH 1
#define ICMPV6_PARAMPROB 4
#define ICMPV6_ECHO_REQUEST 128
#define ICMPV6_ECHO_REPLY 129
#define ND_ROUTER_SOLICITATION 133
#define ND_NEIGHBOUR_SOLICITATION 135
#define ND_NEIGHBOUR_ADVERTISEMENT 136
#define ND_REDIRECT 137

always_inline bool icmp_is_error(__u8 type, int family)
{
	if (family == FAMILY_IPV4)
		return type == ICMP_DEST_UNREACH || type == ICMP_TIME_EXCEEDED ||
		       type == ICMP_PARAMETERPROB;
	return type >= ICMPV6_DEST_UNREACH && type <= ICMPV6_PARAMPROB;
}

/* Gives an ICMP echo the ports that make its reply match: see struct packet. */
always_inline void icmp_ports(__u8 type, __be16 identifier, int family, __be16 *sport, __be16 *dport)
{
	*sport = *dport = 0;
	if (type == (family == FAMILY_IPV4 ? ICMP_ECHO : ICMPV6_ECHO_REQUEST))
		*sport = identifier;
	if (type == (family == FAMILY_IPV4 ? ICMP_ECHOREPLY : ICMPV6_ECHO_REPLY))
		*dport = identifier;
}

/* The type of an echo that has these ports; an identifier of zero does not tell. */
always_inline __u8 icmp_echo_type(__be16 sport, int family)
{
	if (family == FAMILY_IPV4)
		return sport ? ICMP_ECHO : ICMP_ECHOREPLY;
	return sport ? ICMPV6_ECHO_REQUEST : ICMPV6_ECHO_REPLY;
}
