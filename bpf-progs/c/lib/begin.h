/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a packet may be of a connection: its beginning, an answer, or a part of one that is not known. */
#pragma once

#include "parse.h"

/* Lowest port that Linux gives those who ask for none. */
#define EPHEMERAL_PORT_MIN 32768

/* Whether packets of a protocol say what they are; tcp_flags tells it. */
always_inline bool says_what_it_is(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_SCTP;
}

/* Whether a packet may begin a connection. What policy allows beside passes without an entry. */
always_inline bool packet_opens(const struct packet *packet)
{
	if (packet->tail)
		return false;
	switch (packet->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_SCTP:
		return (packet->tcp_flags & (TCP_SYN | TCP_ACK | TCP_FIN | TCP_RST)) == TCP_SYN;
	case IPPROTO_ICMP:
		return packet->policy_port == bpf_htons(ICMP_ECHO);
	case IPPROTO_ICMPV6:
		return packet->policy_port == bpf_htons(ICMPV6_ECHO_REQUEST);
	default:
		return true;
	}
}

/* Whether a packet is amid a connection that lives, as far as it says. */
always_inline bool packet_resumes(const struct packet *packet)
{
	return says_what_it_is(packet->protocol) &&
	       (packet->tcp_flags & (TCP_SYN | TCP_ACK | TCP_FIN | TCP_RST)) == TCP_ACK;
}

/* Whether a packet may answer another: no attempt does, nor what asks. */
always_inline bool packet_may_answer(const struct packet *packet)
{
	if (unlikely(packet->protocol == IPPROTO_ICMP))
		return packet->policy_port == bpf_htons(ICMP_ECHOREPLY);
	if (unlikely(packet->protocol == IPPROTO_ICMPV6))
		return packet->policy_port == bpf_htons(ICMPV6_ECHO_REPLY);
	return (packet->tcp_flags & (TCP_SYN | TCP_ACK)) != TCP_SYN;
}

/* Whether a packet goes from the opener of its connection to the other: a service shows it, or the end that has
 * passed it, or the port, which then is no opener's. */
always_inline bool packet_goes_forth(const struct packet *packet)
{
	return packet->forth || packet->rev_nat || bpf_ntohs(packet->dport) < EPHEMERAL_PORT_MIN;
}

/* Whether a packet that no entry knows can only be part of a connection whose entry was evicted, and may be an
 * answer by a service: nobody knows any more what its ends were to the one who asked. */
always_inline bool packet_strays(const struct packet *packet)
{
	return says_what_it_is(packet->protocol) && packet_may_answer(packet) && !packet_goes_forth(packet);
}
