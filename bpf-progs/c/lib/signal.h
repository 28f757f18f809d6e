/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the agent is to hear at once: that a table has no room. Without the agent one costs a failed
 * array lookup. */
#pragma once

#include "clock.h"
#include "maps.h"

enum signal {
	SIGNAL_NAT_FULL = 0,
	SIGNAL_CT_FULL = 1,
	SIGNALS = 2,
};

/* The second in which each was last sent, by signal and family. */
__u32 SIGNALLED[SIGNALS * 2] = {};

/* Sends a signal, unless the same one has been sent in this second: those who find no room are many. CPUs
 * that do so at once may each send it. */
subprogram int signal_send(struct __sk_buff *skb, __u32 signal, int family)
{
	struct signal_record record = {.signal = signal, .data = family == FAMILY_IPV6};
	__u32 now = clock_seconds(), at = signal * 2 + record.data;

	if (at >= SIGNALS * 2 || SIGNALLED[at] == now)
		return 0;
	SIGNALLED[at] = now;
	return bpf_perf_event_output(skb, &cilium_signals, BPF_F_CURRENT_CPU, &record, sizeof(record));
}
