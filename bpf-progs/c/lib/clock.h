/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Seconds of the monotonic clock, for every packet. */
#pragma once

#include "common.h"

/* Ticks for which a reading is good: 25 to 250 ms, as the kernel was configured. */
#define CLOCK_TICKS 25

/* The last reading: its tick in the upper half, the second in the lower. */
__u64 CLOCK = 0;

/* A reading is kept and shared, because a helper costs a return, which is dear on CPUs that guard
 * theirs; reading the tick is a load. */
always_inline __u32 clock_seconds(void)
{
	__u64 last = *(volatile __u64 *)&CLOCK;
	__u32 tick = bpf_jiffies64(), seconds = last;

	if (likely(seconds && tick - (__u32)(last >> 32) < CLOCK_TICKS))
		return seconds;
	seconds = bpf_ktime_get_ns() / 1000000000;
	*(volatile __u64 *)&CLOCK = (__u64)tick << 32 | seconds;
	return seconds;
}
