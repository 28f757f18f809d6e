/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records for whoever listens on cilium_events. Without a listener one costs a failed array
 * lookup; the flags of an endpoint switch each kind off entirely. */
#pragma once

#include "features.h"
#include "flow.h"
#include "metrics.h"
#include "signal.h"

#define CAPTURE_BYTES 128
#define RECORD_IPV6 1

enum trace_point {
	TRACE_TO_LXC = 0,
	TRACE_TO_HOST = 2,
	TRACE_TO_STACK = 3,
	TRACE_TO_OVERLAY = 4,
	TRACE_FROM_LXC = 5,
	TRACE_FROM_OVERLAY = 9,
	TRACE_FROM_NETWORK = 10,
	TRACE_TO_NETWORK = 11,
};

enum trace_reason {
	TRACE_REASON_UNKNOWN = 5, /* below it: enum ct_state */
};

/* Beside the ct_state that admit() returns: this packet is worth a record of its own. */
#define ADMIT_REPORT 0x100
/* Instead of a ct_state: the packet is for a service that was missed, to which it has to go first. */
#define ADMIT_MISSED 0x200

always_inline __u64 event_header(struct __sk_buff *skb, struct event_header *header, __u8 kind,
				 __u8 subtype, __u16 source, __u8 version)
{
	__u32 captured = skb->len < CAPTURE_BYTES ? skb->len : CAPTURE_BYTES;

	header->kind = kind;
	header->subtype = subtype;
	header->source = source;
	/* What the sender's socket chose; computing one would cost more than the rest of the record. */
	header->hash = skb->hash;
	header->len_orig = skb->len;
	header->len_cap = captured;
	header->version = version;
	header->ext_version = 0;
	return (__u64)captured << 32 | BPF_F_CURRENT_CPU;
}

subprogram int trace_write(struct __sk_buff *skb, const struct flow *flow, __u8 point, __u8 reason,
			   __u32 ifindex)
{
	struct trace_record record = {};
	__u64 flags;

	if (!flow)
		return 0;
	record = (struct trace_record){
		.src_identity = flow->src_identity,
		.dst_identity = flow->dst_identity,
		.dst_ep = flow->dst_ep,
		.reason = reason,
		.flags = flow->family == FAMILY_IPV6 ? RECORD_IPV6 : 0,
		.ifindex = ifindex,
	};
	flags = event_header(skb, &record.header, EVENT_TRACE, point, flow->source, 2);
	return bpf_perf_event_output(skb, &cilium_events, flags, &record, sizeof(record));
}

/* A packet came in. */
always_inline void trace_arrival(struct __sk_buff *skb, const struct flow *flow, __u8 point)
{
	if (NOTIFY & CONFIG_TRACE_NOTIFY &&
	    (flow->notify & (CONFIG_TRACE_NOTIFY | CONFIG_AGGREGATE_ARRIVALS)) == CONFIG_TRACE_NOTIFY)
		trace_write(skb, flow, point, TRACE_REASON_UNKNOWN, skb->ifindex);
}

/* A packet goes on. `admitted` is what admit() returned. */
always_inline void trace(struct __sk_buff *skb, const struct flow *flow, __u8 point, int admitted,
			 __u32 ifindex)
{
	if (NOTIFY & CONFIG_TRACE_NOTIFY && flow->notify & CONFIG_TRACE_NOTIFY &&
	    (admitted & ADMIT_REPORT || !(flow->notify & CONFIG_AGGREGATE_CONNECTIONS)))
		trace_write(skb, flow, point, admitted, ifindex);
}

subprogram int drop_write(struct __sk_buff *skb, const struct flow *flow, int code)
{
	struct drop_record record = {};
	__u64 flags;

	if (!flow)
		return 0;
	record = (struct drop_record){
		.src_identity = flow->src_identity,
		.dst_identity = flow->dst_identity,
		.dst_ep = flow->dst_ep,
		.line = drop_line_of(code),
		.file = drop_file_of(code),
		.ifindex = skb->ifindex,
		.flags = flow->family == FAMILY_IPV6 ? RECORD_IPV6 : 0,
	};
	flags = event_header(skb, &record.header, EVENT_DROP, drop_reason_of(code), flow->source, 3);
	return bpf_perf_event_output(skb, &cilium_events, flags, &record, sizeof(record));
}

/* Counts and reports a drop. */
subprogram int drop(struct __sk_buff *skb, const struct flow *flow, int code)
{
	if (!flow)
		return TC_ACT_SHOT;
	metrics_dropped(skb, flow->direction, code);
	if (drop_reason_of(code) == DROP_CT_CREATE_FAILED)
		signal_send(skb, SIGNAL_CT_FULL, flow->family);
	if (NOTIFY & CONFIG_DROP_NOTIFY && flow->notify & CONFIG_DROP_NOTIFY)
		drop_write(skb, flow, code);
	return TC_ACT_SHOT;
}
