/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What stands in for Cilium where a takeover is tried: both families between pods, by services too, and what comes
 * from outside, over maps of Cilium's layout and no other. As with Cilium an endpoint has no program at what the
 * stack sends to it: whoever sends asks the receiver's policy by a tail call. Each endpoint's programs are loaded
 * with its numbers. */

#include "neighbours.h"
#include "services.h"

inlined struct lxc_row *local(const __u8 *address, bool v6)
{
	struct lxc_key key = {.family = v6 ? 2 : 1};

	if (v6)
		__builtin_memcpy(key.address, address, 16);
	else
		__builtin_memcpy(key.address, address, 4);
	return bpf_map_lookup_elem(&cilium_lxc, &key);
}

inlined bool is_own(const __u8 *address, bool v6)
{
	for (int i = 0; i < (v6 ? 16 : 4); i++)
		if (address[i] != (v6 ? IPV6[i] : IPV4[i]))
			return false;
	return true;
}

inlined bool is_ip(const struct __sk_buff *skb)
{
	return skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6);
}

/* What an endpoint sends. */
SEC("classifier/cil_from_container")
int cil_from_container(struct __sk_buff *skb)
{
	struct packet packet;
	struct lxc_row *row;
	__be16 rev_nat;
	int asked;

	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return answer_arp(skb);
	if (!is_ip(skb))
		return TC_ACT_OK;
	if (parse(skb, &packet))
		return TC_ACT_SHOT;
	if (is_of_neighbours(&packet))
		return answer_solicitation(skb, &packet);
	if (!is_own(packet.saddr, packet.v6))
		return TC_ACT_SHOT;
	asked = to_backend(skb, &packet);
	if (asked < 0)
		return TC_ACT_SHOT;
	rev_nat = asked;
	row = local(packet.daddr, packet.v6);
	if (!admits(&packet, OUT, row ? row->identity : IDENTITY_WORLD, &rev_nat))
		return TC_ACT_SHOT;
	if (!row || row->flags & 1)
		return TC_ACT_OK;
	skb->cb[0] = IDENTITY;
	bpf_tail_call(skb, &cilium_call_policy, row->lxc_id);
	return TC_ACT_SHOT;
}

/* The policy of an endpoint, for whoever sends to it. */
SEC("classifier/cil_lxc_policy")
int cil_lxc_policy(struct __sk_buff *skb)
{
	struct packet packet;
	__be16 rev_nat = 0;
	__u8 *frame;

	if (parse(skb, &packet) || !admits(&packet, IN, skb->cb[0], &rev_nat))
		return TC_ACT_SHOT;
	if (rev_nat && from_service(skb, &packet, rev_nat))
		return TC_ACT_SHOT;
	frame = bytes(skb, ETH_HLEN + sizeof(struct ipv6hdr));
	if (!frame)
		frame = bytes(skb, ETH_HLEN + sizeof(struct iphdr));
	if (!frame)
		return TC_ACT_SHOT;
	for (int i = 0; i < 6; i++) {
		frame[i] = MAC[i];
		frame[6 + i] = NODE_MAC[i];
	}
	if (packet.v6) {
		struct ipv6hdr *ip = (void *)(frame + ETH_HLEN);

		if ((void *)(ip + 1) > (void *)(long)skb->data_end)
			return TC_ACT_SHOT;
		ip->hop_limit--;
	} else {
		struct iphdr *ip = (void *)(frame + ETH_HLEN);
		__u32 sum = ip->check + bpf_htons(0x0100);

		ip->check = sum + (sum >= 0xffff);
		ip->ttl--;
	}
	/* What the node sends has been through the stack, and goes on from there. */
	return skb->cb[0] == IDENTITY_HOST ? bpf_redirect(IFINDEX, 0) : bpf_redirect_peer(IFINDEX, 0);
}

inlined int arrive(struct __sk_buff *skb, __u32 identity)
{
	struct packet packet;
	struct lxc_row *row;

	if (!is_ip(skb) || parse(skb, &packet))
		return TC_ACT_OK;
	row = local(packet.daddr, packet.v6);
	if (!row || row->flags & 1)
		return TC_ACT_OK;
	skb->cb[0] = identity;
	bpf_tail_call(skb, &cilium_call_policy, row->lxc_id);
	return TC_ACT_SHOT;
}

/* What comes from other machines. */
SEC("classifier/cil_from_netdev")
int cil_from_netdev(struct __sk_buff *skb)
{
	return arrive(skb, IDENTITY_WORLD);
}

SEC("classifier/cil_to_netdev")
int cil_to_netdev(struct __sk_buff *skb)
{
	return skb->len ? TC_ACT_OK : TC_ACT_SHOT;
}

/* What the node itself sends to pods. */
SEC("classifier/cil_from_host")
int cil_from_host(struct __sk_buff *skb)
{
	return arrive(skb, IDENTITY_HOST);
}

/* A socket connects to whom it says. */
SEC("cgroup/connect4")
int cil_sock4_connect(struct bpf_sock_addr *address)
{
	return address->user_family ? 1 : 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
