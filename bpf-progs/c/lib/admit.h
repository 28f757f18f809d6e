/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Whether a packet may pass an endpoint: its connection and the policy together. */
#pragma once

#include "lb_again.h"
#include "lookup.h"
#include "policy.h"
#include "service.h"

#define ADMIT_DROP(reason) DROP_FROM(FILE_ADMIT_H, reason)

/* Whether somebody may tell of an error about a packet that was sent to `to`: the receiver, or who may stand on the
 * way: a node, and a router outside, unless the way is the cluster's own from end to end. No endpoint is a router. */
subprogram int may_tell(const struct packet *packet, const union address *to, __u32 teller, int family)
{
	struct ipcache_row *row;
	struct lxc_row *lxc;

	if (!packet || !to)
		return false;
	if (address_equal(&packet->saddr, to, family) || teller == IDENTITY_HOST || identity_is_node(teller))
		return true;
	if (!identity_is_outside(teller))
		return false;
	lxc = lxc_lookup(to, family);
	if (lxc)
		return lxc->flags & LXC_HOST;
	row = ipcache_find(to, family);
	return !row || !ipcache_is_tunneled(row) || !identity_is_endpoint(row->identity);
}

/* Whether an ICMP error is about a connection that the endpoint has, and is told by who may know. The packet inside
 * went the other way, and its sender must be the one who is told. The packet then has the connection's
 * service. */
subprogram int is_related(struct __sk_buff *skb, struct packet *packet, __u32 teller, int family, bool egress)
{
	struct packet inner = {};
	struct ct_ends ends;
	struct ct_row *row;

	if (!packet)
		return false;
	if (inner_read(skb, packet, &inner, family) || !address_equal(&inner.saddr, &packet->daddr, family) ||
	    !may_tell(packet, &inner.daddr, teller, family))
		return false;
	ends = ct_ends_of(&inner);
	row = ct_between(&ends, family, egress ? TUPLE_IN : TUPLE_OUT, false);
	if (!row)
		row = ct_between(&ends, family, egress ? TUPLE_OUT : TUPLE_IN, true);
	if (row) {
		packet->rev_nat = row->rev_nat_index;
		packet->node_port = (row->flags & CT_NODE_PORT) != 0;
		if (!ENABLE_NODE_PORT && packet->node_port)
			packet->node_port = packet->rev_nat = 0;
	}
	return row != NULL;
}

/* Whether a packet may answer another: what goes to a service asks it. */
always_inline bool admit_may_answer(const struct packet *packet)
{
	return (likely(!packet->rev_nat) || packet->answer) && packet_may_answer(packet);
}

/* The entry of the connection that a packet answers. The key becomes its. */
always_inline struct ct_row *find_answered(const struct packet *packet, union ct_key *key,
					   const struct ct_ends *ends, int family, bool egress, bool tcp)
{
	if (!admit_may_answer(packet))
		return NULL;
	ct_key_make(key, ends, family, egress ? TUPLE_IN : TUPLE_OUT, true);
	return ct_that_is_answered(ct_lookup(key, family, tcp), packet, egress);
}

always_inline struct ct_row *find_answered_old_family(const struct packet *packet, int family, bool egress)
{
	union ct_key key __attribute__((aligned(8)));
	struct ct_ends ends = ct_ends_of(packet);

	if (!admit_may_answer(packet))
		return NULL;
	ct_key_make(&key, &ends, family, egress ? TUPLE_IN : TUPLE_OUT, true);
	return ct_that_is_answered(ct_lookup_old(&key, family, packet->protocol == IPPROTO_TCP), packet, egress);
}

/* By themselves: keys take much of the stack, and this is asked seldom. */
path_subprogram struct ct_row *find_answered_old_ipv4(const struct packet *packet, bool egress)
{
	return find_answered_old_family(packet, FAMILY_IPV4, egress);
}

path_subprogram struct ct_row *find_answered_old_ipv6(const struct packet *packet, bool egress)
{
	return find_answered_old_family(packet, FAMILY_IPV6, egress);
}

always_inline struct ct_row *find_answered_old(const struct packet *packet, int family, bool egress)
{
	return family == FAMILY_IPV4 ? find_answered_old_ipv4(packet, egress) : find_answered_old_ipv6(packet, egress);
}

/* The same ends are connected by another service than before, or by none now. With backends that answer
 * clients directly, a straggler of another connection may have these ends. */
always_inline void admit_otherwise(struct ct_row *row, const struct packet *packet, int family)
{
	if (ENABLE_DSR && !packet->node_port && packet->protocol == IPPROTO_TCP && row->flags & CT_NODE_PORT)
		return;
	if (row->rev_nat_index && !(row->flags & CT_NODE_PORT))
		lb_note(packet, row->rev_nat_index, 0, family);
	ct_serve(row, packet);
}

/* What becomes of a connection's first packet for which no service was found: 0 if none concerns it. */
always_inline int unserved_family(const struct packet *packet, int family)
{
	union lb_key key __attribute__((aligned(8)));
	struct lb_row service;

	service_key(&key, &packet->daddr, packet->dport, packet->protocol, family);
	if (service_inside(&key, &service, SERVICE_ONCE, family))
		return ADMIT_MISSED;
	return service_has(&packet->daddr, family) ? NOBODY_SERVES : 0;
}

subprogram int unserved(const struct packet *packet, int family)
{
	if (!packet)
		return ADMIT_DROP(DROP_INVALID_PACKET);
	return family == FAMILY_IPV4 ? unserved_family(packet, FAMILY_IPV4) : unserved_family(packet, FAMILY_IPV6);
}

/* Whether a packet that policy allows, and no entry knows, gets one. Only what opens does; and what goes on from its
 * opener, whose entry was evicted, though it permits no attempt of the other side's. What a client outside asked
 * is told by his first packet only, if backends answer him directly. */
always_inline bool makes_entry(const struct flow *flow, const struct packet *packet)
{
	if (packet->answer)
		return false;
	if (likely(packet_opens(packet)))
		return true;
	if (!packet_resumes(packet) || !packet_goes_forth(packet))
		return false;
	return !ENABLE_DSR || flow->direction == EGRESS || packet->node_port ||
	       !identity_is_outside(flow->src_identity);
}

/* The opener's direction is looked up first: an established packet that policy allows then costs
 * one lookup. Only where policy refuses it does the reply's direction still count. The map before is
 * asked last: no packet of a connection that the current map has pays for it. */
always_inline int admit_family(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			       int family, __u32 policy_slot)
{
	bool egress = flow->direction == EGRESS, tcp = packet->protocol == IPPROTO_TCP;
	bool tracked = !packet->headless && !packet->icmp_error;
	const struct ct_ends ends = ct_ends_of(packet);
	struct ct_row *opened = NULL, *answered = NULL;
	struct verdict verdict = {};
	/* One for all, as keys take much of the stack. */
	union ct_key key __attribute__((aligned(8)));
	bool due;

	if (likely(tracked && !packet->again)) {
		ct_key_make(&key, &ends, family, egress ? TUPLE_OUT : TUPLE_IN, false);
		opened = ct_find(&key, packet, family, tcp);
		if (!opened)
			answered = find_answered(packet, &key, &ends, family, egress, tcp);
		if (unlikely(!opened && !answered)) {
			ct_key_make(&key, &ends, family, egress ? TUPLE_OUT : TUPLE_IN, false);
			opened = ct_find_old(&key, packet, family, tcp);
			if (!opened)
				answered = find_answered_old(packet, family, egress);
			if (packet->unserved && !opened && !answered) {
				int code = unserved(packet, family);

				if (code)
					return code;
			}
		}
	}
	if (!answered) {
		policy_decide(flow, packet, policy_slot, &verdict);
		if (unlikely(verdict.code < 0 && (opened || packet->again))) {
			answered = find_answered(packet, &key, &ends, family, egress, tcp);
			if (!answered)
				answered = find_answered_old(packet, family, egress);
		}
	}
	if (!answered) {
		policy_report(skb, flow, packet, &verdict, opened || packet->again);
		if (verdict.code < 0)
			return verdict.code;
		if (packet->again)
			return CT_ESTABLISHED;
		if (!opened) {
			int created = tracked && makes_entry(flow, packet) ? ct_create(flow, packet) : CT_NEW;

			if (packet->rev_nat && !packet->answer)
				ct_forget_opposite(flow, packet);
			return created < 0 ? created : created | ADMIT_REPORT;
		}
	}
	if (answered) {
		packet->rev_nat = answered->rev_nat_index;
		packet->node_port = (answered->flags & CT_NODE_PORT) != 0;
		/* The entry is from before another program served such. */
		if (!ENABLE_NODE_PORT && packet->node_port)
			packet->node_port = packet->rev_nat = 0;
		packet->own_port = packet->node_port ? 0 : answered->nat_port;
		packet->answer = true;
	} else {
		if (unlikely(opened->rev_nat_index != packet->rev_nat && !packet->answer))
			admit_otherwise(opened, packet, family);
		packet->forth = true;
	}
	due = ct_touch(answered ? answered : opened, packet, egress, tcp);
	if (unlikely(answered && packet->tcp_flags & (TCP_FIN | TCP_RST) && packet->rev_nat))
		lb_end(packet, answered->flags & CT_MOVED ? answered->nat_port : packet->dport, family);
	return (answered ? CT_REPLY : CT_ESTABLISHED) | (due ? ADMIT_REPORT : 0);
}

subprogram int admit_ipv4(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			  __u32 policy_slot)
{
	if (!flow || !packet)
		return ADMIT_DROP(DROP_INVALID_PACKET);
	return admit_family(skb, flow, packet, FAMILY_IPV4, policy_slot);
}

subprogram int admit_ipv6(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			  __u32 policy_slot)
{
	if (!flow || !packet)
		return ADMIT_DROP(DROP_INVALID_PACKET);
	return admit_family(skb, flow, packet, FAMILY_IPV6, policy_slot);
}

/* Finds or makes the packet's connection and lets policy decide on the way. Replies, and errors
 * about a connection, need no rule. Returns an enum ct_state, with ADMIT_REPORT if this packet is
 * worth a record, or a drop; or ADMIT_MISSED if the packet is unserved but a service is there. A
 * reply or an error then has its connection's service, of which a packet that opens one has to say
 * it. Only who balances has packets that are unserved. */
always_inline int admit(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
			__u32 policy_slot)
{
	if (unlikely(packet->icmp_error) && is_related(skb, packet, flow->src_identity, flow->family, flow->direction == EGRESS))
		return CT_RELATED | ADMIT_REPORT;
	if (flow->family == FAMILY_IPV4)
		return admit_ipv4(skb, flow, packet, policy_slot);
	return admit_ipv6(skb, flow, packet, policy_slot);
}

/* The same for an endpoint, which hears and sends nothing that may have had other ends: what goes on needs an
 * entry, or to be on its way from the opener, or that address translation has said what it is. */
always_inline int admit_endpoint(struct __sk_buff *skb, const struct flow *flow, struct packet *packet,
				 __u32 policy_slot)
{
	int code = admit(skb, flow, packet, policy_slot);

	if (unlikely(code == (CT_NEW | ADMIT_REPORT)) && packet_strays(packet) && !packet->answer)
		return ADMIT_DROP(DROP_CT_CANNOT_CREATE);
	return code;
}
