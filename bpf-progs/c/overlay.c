/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The program at the overlay's device. */

#include "lib/lookup.h"

/* What other nodes send through the overlay. */
SEC("classifier/cil_from_overlay")
int cil_from_overlay(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct node_row *node = bpf_map_lookup_elem(&volvox_node, &zero);

	if (!node || node->tunnel_ifindex != skb->ifindex)
		return TC_ACT_OK;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
