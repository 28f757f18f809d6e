/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* cilium_metrics: packets and bytes by reason and direction. */
#pragma once

#include "drop.h"
#include "maps.h"

always_inline void metrics_count(const struct metrics_key *key, __u64 bytes)
{
	struct metrics_row *row = bpf_map_lookup_elem(&cilium_metrics, key);
	struct metrics_row first = {.packets = 1, .bytes = bytes};

	if (likely(row)) {
		/* One row per CPU, and no other program of this kind interrupts us. */
		row->packets += 1;
		row->bytes += bytes;
		return;
	}
	bpf_map_update_elem(&cilium_metrics, key, &first, BPF_NOEXIST);
}

always_inline void metrics_forwarded(struct __sk_buff *skb, __u8 direction)
{
	struct metrics_key key = {.direction = direction};

	metrics_count(&key, skb->len);
}

always_inline void metrics_dropped(struct __sk_buff *skb, __u8 direction, int code)
{
	struct metrics_key key = {
		.reason = drop_reason_of(code),
		.direction = direction,
		.line = drop_line_of(code),
		.file = drop_file_of(code),
	};

	metrics_count(&key, skb->len);
}
