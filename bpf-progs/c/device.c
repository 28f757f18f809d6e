/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The two programs at a device of the node that leads to other machines. What differs between devices
 * is a row of volvox_device. */

#include "lib/lookup.h"

/* What comes from the wire. */
SEC("classifier/cil_from_netdev")
int cil_from_netdev(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;

	if (!bpf_map_lookup_elem(&volvox_device, &ifindex))
		return TC_ACT_OK;
	return TC_ACT_OK;
}

/* What goes to the wire. */
SEC("classifier/cil_to_netdev")
int cil_to_netdev(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;

	if (!bpf_map_lookup_elem(&volvox_device, &ifindex))
		return TC_ACT_OK;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
