/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* May this peer talk to this port? */
#pragma once

#include "events.h"

#define POLICY_DROP(reason) DROP_FROM(FILE_POLICY_H, reason)

enum policy_match {
	MATCH_NONE = 0,
	MATCH_PEER = 1,
	MATCH_PEER_PORT = 2,
	MATCH_PORT = 3,
	MATCH_ALL = 4,
	MATCH_PEER_PROTOCOL = 5,
	MATCH_PROTOCOL = 6,
};

always_inline __u8 policy_bits(const struct policy_row *row)
{
	return row->flags >> 3;
}

/* The higher decides: by precedence, then by the longer prefix. */
always_inline __u64 policy_rank(const struct policy_row *row)
{
	return (__u64)row->precedence << 8 | policy_bits(row);
}

always_inline int policy_verdict(const struct policy_row *row, bool headless)
{
	if (!row)
		return headless ? POLICY_DROP(DROP_FRAGMENT_NOT_SUPPORTED)
				: POLICY_DROP(DROP_POLICY_DENIED);
	if (unlikely(row->flags & POLICY_DENY))
		return POLICY_DROP(DROP_POLICY_DENY);
	if (unlikely(row->auth & POLICY_AUTH_TYPE))
		return POLICY_DROP(DROP_AUTH_REQUIRED);
	if (unlikely(row->proxy_port))
		return POLICY_DROP(DROP_PROXY_NOT_SUPPORTED);
	return 0;
}

struct verdict {
	int code; /* 0, or a drop */
	__u32 cookie;
	bool found; /* a row decided */
	bool is_peer; /* it names this peer */
	__u8 bits; /* of protocol and port in its prefix */
};

/* Decides by the policy in `slot`, from the endpoint's point of view (flow->direction). */
always_inline void policy_decide(const struct flow *flow, const struct packet *packet, __u32 slot,
				 struct verdict *verdict)
{
	struct policy_key key = {
		.prefix_len = packet->headless ? POLICY_PROTOCOL_BITS : POLICY_FULL_BITS,
		.identity = flow->direction == EGRESS ? flow->dst_identity : flow->src_identity,
		.egress = flow->direction == EGRESS,
		.protocol = packet->protocol,
		.port = packet->policy_port,
	};
	void *policy = bpf_map_lookup_elem(&volvox_policy, &slot);
	struct policy_row *row, *any = NULL;

	if (unlikely(!policy)) {
		verdict->code = POLICY_DROP(DROP_ENDPOINT_NOT_READY);
		return;
	}
	row = bpf_map_lookup_elem(policy, &key);
	/* Nothing can change what a deny of the highest precedence says. */
	if (!row || row->precedence != 0xffffffff) {
		key.identity = 0;
		any = bpf_map_lookup_elem(policy, &key);
	}
	verdict->is_peer = row && (!any || policy_rank(row) >= policy_rank(any));
	if (!verdict->is_peer)
		row = any;
	verdict->code = policy_verdict(row, packet->headless);
	if (row) {
		verdict->found = true;
		verdict->cookie = row->cookie;
		verdict->bits = policy_bits(row);
	}
}

always_inline __u8 policy_match_kind(const struct verdict *verdict)
{
	if (!verdict->found)
		return MATCH_NONE;
	if (verdict->bits > 8)
		return verdict->is_peer ? MATCH_PEER_PORT : MATCH_PORT;
	if (verdict->bits)
		return verdict->is_peer ? MATCH_PEER_PROTOCOL : MATCH_PROTOCOL;
	return verdict->is_peer ? MATCH_PEER : MATCH_ALL;
}

subprogram int verdict_write(struct __sk_buff *skb, const struct flow *flow, const struct packet *packet,
			     const struct verdict *verdict)
{
	struct verdict_record record = {};
	__u64 flags;

	if (!flow || !packet || !verdict)
		return 0;
	record = (struct verdict_record){
		.remote_identity = flow->direction == EGRESS ? flow->dst_identity
							     : flow->src_identity,
		.verdict = verdict->code < 0 ? -(int)drop_reason_of(verdict->code) : 0,
		.dport = bpf_ntohs(packet->policy_port),
		.protocol = packet->protocol,
		.bits = flow->direction | (flow->family == FAMILY_IPV6) << 2 |
			policy_match_kind(verdict) << 3,
		.cookie = verdict->cookie,
	};
	flags = event_header(skb, &record.header, EVENT_VERDICT, 0, flow->source, 1);
	return bpf_perf_event_output(skb, &cilium_events, flags, &record, sizeof(record));
}

subprogram int policy_count(struct __sk_buff *skb, const struct flow *flow, const struct packet *packet,
			    const struct verdict *verdict)
{
	struct policy_stats_row *row, first = {.packets = 1, .bytes = skb->len};
	struct policy_stats_key key = {};
	__u8 bits;

	if (!flow || !packet || !verdict)
		return 0;
	bits = verdict->bits;
	key = (struct policy_stats_key){
		.ep_id = flow->source,
		.prefix_len = bits,
		.egress = flow->direction == EGRESS,
		.protocol = bits ? packet->protocol : 0,
	};
	if (verdict->is_peer)
		key.identity = flow->direction == EGRESS ? flow->dst_identity : flow->src_identity;
	if (bits > 8)
		key.port = packet->policy_port & bpf_htons(0xffff << (24 - bits));
	row = bpf_map_lookup_elem(&cilium_policystats, &key);
	if (!row)
		return bpf_map_update_elem(&cilium_policystats, &key, &first, BPF_NOEXIST);
	row->packets += 1;
	row->bytes += skb->len;
	return 0;
}

/* Counts and reports a decision. `known` says that the connection is established, so that only a
 * refusal is worth a record. */
always_inline void policy_report(struct __sk_buff *skb, const struct flow *flow, const struct packet *packet,
				 const struct verdict *verdict, bool known)
{
	if (POLICY_STATS && verdict->found)
		policy_count(skb, flow, packet, verdict);
	if (NOTIFY & CONFIG_VERDICT_NOTIFY && flow->notify & CONFIG_VERDICT_NOTIFY &&
	    (verdict->code < 0 || !known))
		verdict_write(skb, flow, packet, verdict);
}
