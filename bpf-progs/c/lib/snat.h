/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* An address of the node that stands for others. A flow has two rows: by its packets, what their source
 * becomes, and by the answers, what their destination becomes. Whoever inserts the second has the port.
 * The kernel may evict either; with one packet of each second in a direction it is looked whether the
 * other row is still there, and the flow's port is the same when it is claimed again. */
#pragma once

#include "conntrack.h"
#include "signal.h"
#include "snat_maps.h"

#define SNAT_DROP(reason) DROP_FROM(FILE_SNAT_H, reason)

/* How many ports are tried beside the sender's own. */
#define SNAT_ATTEMPTS 32

/* Beside a port: more than half of those attempts were taken. */
#define SNAT_FEW_LEFT 0x10000

/* What snat_back() found. */
enum snat_result {
	SNAT_NONE = 0,
	SNAT_DONE = 1,
	/* The flow is the node's own, and its entry is due to be kept alive. */
	SNAT_DUE = 2,
};

always_inline bool snat_in_range(__be16 port)
{
	return bpf_ntohs(port) >= NAT_PORT_MIN && bpf_ntohs(port) <= NAT_PORT_MAX;
}

always_inline struct snat_end source_of(const struct packet *packet)
{
	return (struct snat_end){.address = &packet->saddr, .port = packet->sport};
}

always_inline struct snat_end destination_of(const struct packet *packet)
{
	return (struct snat_end){.address = &packet->daddr, .port = packet->dport};
}

/* The row of a packet as it comes: of TUPLE_OUT what its source becomes, of TUPLE_IN its destination. */
always_inline union snat_row *snat_of(const struct packet *packet, __u8 tuple, int family)
{
	union snat_key key __attribute__((aligned(8)));

	snat_key(&key, source_of(packet), destination_of(packet), packet->protocol, tuple, family);
	return snat_lookup(&key, family);
}

/* Whether a packet has what stands in for a port: an echo its identifier. */
always_inline bool snat_can(const struct packet *packet, int family)
{
	return has_ports(packet->protocol) ||
	       packet->policy_port == bpf_htons(family == FAMILY_IPV4 ? ICMP_ECHO : ICMPV6_ECHO_REQUEST);
}

/* Packets that change what is known of a TCP connection do not take the short way. */
always_inline bool snat_is_steady(const struct packet *packet)
{
	return !(packet->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST));
}

/* Whether nothing is known any more of the connection for which a port stands, to the end that a packet
 * is for: the port may go to another flow before its rows are collected. */
always_inline bool snat_is_over(const struct packet *packet, const struct nat *origin, int family)
{
	union ct_key key __attribute__((aligned(8)));
	struct ct_ends ends = {
		.saddr = &origin->address,
		.daddr = &packet->daddr,
		.sport = origin->port,
		.dport = packet->dport,
		.protocol = packet->protocol,
	};
	struct ct_row *connection;

	ct_key_make(&key, &ends, family, TUPLE_OUT, false);
	if (ct_is_replaced(packet->protocol == IPPROTO_TCP, family))
		return false;
	connection = ct_lookup(&key, family, packet->protocol == IPPROTO_TCP);
	return !connection || connection->lifetime < clock_seconds();
}

/* Has answers find the sender of a packet, unless there is such a row. */
always_inline bool snat_put(const struct packet *packet, const union snat_key *key, __u64 needs_ct, int family)
{
	union snat_row row;

	snat_row(&row, source_of(packet), clock_seconds(), needs_ct, family);
	return !snat_insert(key, &row, BPF_NOEXIST, family);
}

/* Has a port for the packet's flow that another flow has which is over. Of several that want it, whoever
 * removes the other's row has it next. */
always_inline bool snat_inherit(const struct packet *packet, const union snat_key *key, const union snat_row *known,
				int family)
{
	struct nat other = {};

	snat_read(known, &other, family);
	return snat_is_over(packet, &other, family) && !snat_remove(key, family);
}

/* What is known of a flow that wants a port. */
enum snat_flow {
	/* It may be new. */
	SNAT_NEW,
	/* It had this port before, so that its row is likely there. */
	SNAT_HAD,
	/* It had a port, which only its other row tells. */
	SNAT_LOST,
};

/* The same, of a flow whose row is not there. Of one of the node's own nothing may have been known. */
always_inline enum snat_flow snat_flow(const struct packet *packet, __u64 needs_ct)
{
	return needs_ct || !says_what_it_is(packet->protocol) || packet_opens(packet) ? SNAT_NEW : SNAT_LOST;
}

/* Takes a port for the packet's flow, unless another flow to the same end has it. */
always_inline bool snat_take(const struct packet *packet, const union address *address, __be16 port, __u64 needs_ct,
			     enum snat_flow flow, int family)
{
	union snat_key key __attribute__((aligned(8)));
	struct snat_end own = {.address = address, .port = port};
	union snat_row *known;

	snat_key(&key, destination_of(packet), own, packet->protocol, TUPLE_IN, family);
	if (flow == SNAT_NEW && snat_put(packet, &key, needs_ct, family))
		return true;
	known = snat_lookup(&key, family);
	if (!known)
		return flow == SNAT_HAD && snat_put(packet, &key, needs_ct, family);
	if (snat_is(known, source_of(packet), family))
		return true;
	return flow == SNAT_NEW && snat_inherit(packet, &key, known, family) && snat_put(packet, &key, needs_ct, family);
}

/* The port that the flow of a packet has on an address already, and that is still its own; else 0. */
always_inline __be16 snat_keep(const struct packet *packet, const union address *address, __u64 needs_ct, int family)
{
	/* A key of its own: where it shares its place on the stack with that of snat_take(), the verifier looks at twice
	 * as many states. */
	union snat_key key __attribute__((aligned(8)));
	union snat_row *known;
	struct nat to;

	snat_key(&key, source_of(packet), destination_of(packet), packet->protocol, TUPLE_OUT, family);
	known = snat_lookup(&key, family);
	if (!known)
		return 0;
	snat_read(known, &to, family);
	if (!address_equal(&to.address, address, family) ||
	    !snat_take(packet, address, to.port, needs_ct, SNAT_HAD, family))
		return 0;
	known->v4.checked = snat_is_steady(packet) ? clock_seconds() : 0;
	return to.port;
}

/* Notes which port a flow has. Returns the port, or a drop. */
always_inline int snat_note(const struct packet *packet, const union address *address, __be16 port, __u64 needs_ct,
			    int family)
{
	struct snat_end own = {.address = address, .port = port};
	union snat_key key __attribute__((aligned(8)));
	union snat_row row;

	snat_key(&key, source_of(packet), destination_of(packet), packet->protocol, TUPLE_OUT, family);
	snat_row(&row, own, clock_seconds(), needs_ct, family);
	row.v4.checked = snat_is_steady(packet) ? clock_seconds() : 0;
	return snat_insert(&key, &row, BPF_ANY, family) ? SNAT_DROP(DROP_NAT_NO_MAPPING) : port;
}

/* The port that the flow of a packet has on an address, or else gets: its own if that is within the
 * range and free, else one that follows from its ends. Where others stand behind the address, a packet amid a
 * connection gets only what that had: the other end knows it by nothing else. Returns the port, perhaps with
 * SNAT_FEW_LEFT, or a drop: of DROP_NAT_NO_MAPPING if there is no room. */
always_inline int snat_claim_family(const struct packet *packet, const union address *address, __u64 needs_ct,
				    int family)
{
	__be16 port = snat_keep(packet, address, needs_ct, family);
	__u32 mixed, ports = NAT_PORT_MAX - NAT_PORT_MIN + 1;
	int code;

	if (port)
		return port;
	port = packet->sport;
	mixed = connection_hash(packet);
	for (int attempt = 0; attempt <= SNAT_ATTEMPTS; attempt++) {
		if ((attempt || snat_in_range(port)) && snat_take(packet, address, port, needs_ct, snat_flow(packet, needs_ct), family)) {
			code = snat_note(packet, address, port, needs_ct, family);
			return code >= 0 && attempt > SNAT_ATTEMPTS / 2 ? code | SNAT_FEW_LEFT : code;
		}
		if (packet->protocol == IPPROTO_SCTP)
			return SNAT_DROP(DROP_NAT_UNSUPPORTED);
		/* By its upper bits: the lower ones of such a sequence come round soon, for all flows in one order. */
		port = bpf_htons(NAT_PORT_MIN + ((__u64)mixed * ports >> 32));
		mixed = mixed * 1664525 + 1013904223;
	}
	return snat_flow(packet, needs_ct) == SNAT_LOST ? SNAT_DROP(DROP_CT_CANNOT_CREATE) : SNAT_DROP(DROP_NAT_NO_MAPPING);
}

subprogram int snat_claim_ipv4(const struct packet *packet, const union address *address, __u64 needs_ct)
{
	if (!packet || !address)
		return SNAT_DROP(DROP_INVALID_PACKET);
	return snat_claim_family(packet, address, needs_ct, FAMILY_IPV4);
}

subprogram int snat_claim_ipv6(const struct packet *packet, const union address *address, __u64 needs_ct)
{
	if (!packet || !address)
		return SNAT_DROP(DROP_INVALID_PACKET);
	return snat_claim_family(packet, address, needs_ct, FAMILY_IPV6);
}

/* The same; the agent is told if there are few ports left, or none. It is so here, not where ports are tried,
 * because the stack would not do. */
always_inline int snat_claim(struct __sk_buff *skb, const struct packet *packet, const union address *address,
			     __u64 needs_ct, int family)
{
	int port = family == FAMILY_IPV4 ? snat_claim_ipv4(packet, address, needs_ct)
					 : snat_claim_ipv6(packet, address, needs_ct);

	if (likely((__u32)port < SNAT_FEW_LEFT))
		return port;
	if (port >= 0 || drop_reason_of(port) == DROP_NAT_NO_MAPPING)
		signal_send(skb, SIGNAL_NAT_FULL, family);
	return port < 0 ? port : port & ~SNAT_FEW_LEFT;
}

/* What the source of a packet becomes whose flow has no port yet, or whose port is to be looked at: an address and
 * a port of it. Returns 0, or a drop. */
always_inline int snat_source(struct __sk_buff *skb, const struct packet *packet, const union address *address,
			      __u64 needs_ct, struct nat *to, int family)
{
	int port = snat_claim(skb, packet, address, needs_ct, family);

	if (port < 0)
		return port;
	to->address = *address;
	to->port = port;
	return 0;
}

/* Notes by which service a flow is, in the row by which its answers come: they are the service's, even if
 * connection tracking knows nothing of it any more. */
subprogram int snat_note_service(const struct packet *packet, const union address *address, __be16 port,
				 __be16 rev_nat, int family)
{
	union snat_key key __attribute__((aligned(8)));
	struct snat_end own = {.address = address, .port = port};
	union snat_row *row;

	if (!packet || !address)
		return 0;
	if (family == FAMILY_IPV4) {
		snat_key(&key, destination_of(packet), own, packet->protocol, TUPLE_IN, FAMILY_IPV4);
		row = snat_lookup(&key, FAMILY_IPV4);
	} else {
		snat_key(&key, destination_of(packet), own, packet->protocol, TUPLE_IN, FAMILY_IPV6);
		row = snat_lookup(&key, FAMILY_IPV6);
	}
	if (row)
		row->v4.rev_nat = rev_nat;
	return 0;
}

always_inline void snat_tell(const struct packet *packet, const union address *address, __be16 port, __be16 rev_nat,
			     int family)
{
	if (rev_nat)
		snat_note_service(packet, address, port, rev_nat, family);
}

/* How a row is known that says what the source of a packet becomes. */
enum snat_age {
	SNAT_UNKNOWN = 0,
	SNAT_OLDER,
	/* It was looked at in this second. */
	SNAT_FRESH,
};

/* What the source of a packet becomes, if its flow has a row. */
always_inline enum snat_age snat_find_family(const struct packet *packet, struct nat *to, int family)
{
	const union snat_row *row = snat_of(packet, TUPLE_OUT, family);

	if (!row)
		return SNAT_UNKNOWN;
	snat_read(row, to, family);
	return row->v4.checked == clock_seconds() ? SNAT_FRESH : SNAT_OLDER;
}

/* By themselves, as keys are large: whoever asks for it goes on to claim a port, which takes half of the stack. */
subprogram int snat_find_ipv4(const struct packet *packet, struct nat *to)
{
	return packet && to ? snat_find_family(packet, to, FAMILY_IPV4) : SNAT_UNKNOWN;
}

subprogram int snat_find_ipv6(const struct packet *packet, struct nat *to)
{
	return packet && to ? snat_find_family(packet, to, FAMILY_IPV6) : SNAT_UNKNOWN;
}

always_inline enum snat_age snat_find(const struct packet *packet, struct nat *to, int family)
{
	written(*to);
	return family == FAMILY_IPV4 ? snat_find_ipv4(packet, to) : snat_find_ipv6(packet, to);
}

/* Gives a packet another source, or another destination. Returns 0, or a drop. */
always_inline int snat_apply(struct __sk_buff *skb, struct packet *packet, struct nat *to, bool source, int family)
{
	const struct snat_end end = source ? source_of(packet) : destination_of(packet);
	int code;

	to->source = source;
	if (to->port == end.port && address_equal(&to->address, end.address, family))
		return 0;
	code = nat(skb, packet, to, family);
	if (code >= 0 && !has_ports(packet->protocol))
		code = nat_identifier(skb, packet, to->port, source);
	return code;
}

/* Gives a packet the source that its flow has, or now gets, at an address. */
always_inline int snat_out_family(struct __sk_buff *skb, struct packet *packet, const union address *own, int family)
{
	struct nat to = {};
	int code;

	if (snat_find(packet, &to, family) != SNAT_FRESH || !snat_is_steady(packet)) {
		code = snat_source(skb, packet, own, 0, &to, family);
		if (code < 0)
			return code;
		snat_tell(packet, own, to.port, packet->rev_nat, family);
	}
	return snat_apply(skb, packet, &to, true, family);
}

subprogram int snat_out_ipv4(struct __sk_buff *skb, struct packet *packet, const union address *own)
{
	if (!packet || !own)
		return SNAT_DROP(DROP_INVALID_PACKET);
	return snat_out_family(skb, packet, own, FAMILY_IPV4);
}

subprogram int snat_out_ipv6(struct __sk_buff *skb, struct packet *packet, const union address *own)
{
	if (!packet || !own)
		return SNAT_DROP(DROP_INVALID_PACKET);
	return snat_out_family(skb, packet, own, FAMILY_IPV6);
}

/* Makes the row of a flow's packets again, from one of its answers. */
always_inline void snat_recall(const struct packet *answer, const struct nat *to, __u64 needs_ct, int family)
{
	struct snat_end origin = {.address = &to->address, .port = to->port};
	union snat_key key __attribute__((aligned(8)));
	union snat_row row;

	snat_key(&key, origin, source_of(answer), answer->protocol, TUPLE_OUT, family);
	if (snat_lookup(&key, family))
		return;
	snat_row(&row, destination_of(answer), clock_seconds(), needs_ct, family);
	snat_insert(&key, &row, BPF_NOEXIST, family);
}

/* Sends an answer to whom the address stood for. */
always_inline int snat_back_family(struct __sk_buff *skb, struct packet *packet, int family)
{
	union snat_row *row = snat_of(packet, TUPLE_IN, family);
	__u32 now = clock_seconds();
	struct nat to = {};
	int code, due = 0;

	if (!row)
		return SNAT_NONE;
	snat_read(row, &to, family);
	packet->own_port = row->v4.rev_nat;
	if (row->v4.checked != now || !snat_is_steady(packet)) {
		due = row->v4.needs_ct ? SNAT_DUE : 0;
		snat_recall(packet, &to, row->v4.needs_ct, family);
		row->v4.checked = snat_is_steady(packet) ? now : 0;
	}
	code = snat_apply(skb, packet, &to, false, family);
	return code < 0 ? code : SNAT_DONE | due;
}

subprogram int snat_back_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return SNAT_DROP(DROP_INVALID_PACKET);
	return snat_back_family(skb, packet, FAMILY_IPV4);
}

subprogram int snat_back_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	if (!packet)
		return SNAT_DROP(DROP_INVALID_PACKET);
	return snat_back_family(skb, packet, FAMILY_IPV6);
}
