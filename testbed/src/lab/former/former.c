/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What stands in for Cilium where a takeover is tried: IPv4 between pods, and what comes from outside, over
 * maps of Cilium's layout and no other. As with Cilium an endpoint has no program at what the stack sends to it:
 * whoever sends asks the receiver's policy by a tail call. Each endpoint's programs are loaded with its numbers. */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define IDENTITY_HOST 1
#define IDENTITY_WORLD 2
#define TCP 6
#define ICMP 1
#define OUT 0
#define IN 1

/* The endpoint's numbers; of a device only the interface counts. */
volatile const __u32 EP_ID = 0;
volatile const __u32 IDENTITY = 0;
volatile const __u32 IPV4 = 0;
volatile const __u32 IFINDEX = 0;
volatile const __u8 MAC[8] = {};
volatile const __u8 NODE_MAC[8] = {};

struct lxc_key {
	__u8 address[16];
	__u8 family;
	__u8 key;
	__u16 cluster;
};

struct lxc_row {
	__u32 ifindex;
	__u16 unused;
	__u16 lxc_id;
	__u32 flags;
	__u32 pad0;
	__u8 mac[8];
	__u8 node_mac[8];
	__u32 identity;
	__u32 parent;
	__u32 pad1[2];
};

struct ct_key {
	__be32 daddr;
	__be32 saddr;
	__be16 dport;
	__be16 sport;
	__u8 protocol;
	__u8 flags;
} __attribute__((packed));

struct ct_row {
	__u8 nat_address[16];
	__u64 packets;
	__u64 bytes;
	__u32 lifetime;
	__u16 flags;
	__be16 rev_nat;
	__be16 nat_port;
	__u8 tx_flags;
	__u8 rx_flags;
	__u32 src_identity;
	__u32 last_tx;
	__u32 last_rx;
};

struct policy_key {
	__u32 prefix;
	__u32 identity;
	__u8 egress;
	__u8 protocol;
	__be16 port;
};

struct policy_row {
	__be16 proxy_port;
	__u8 flags;
	__u8 auth;
	__u32 precedence;
	__u32 cookie;
};

#define TABLE(name, kind, k, v, entries, its_flags)                                                \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__type(key, k);                                                                    \
		__type(value, v);                                                                  \
		__uint(max_entries, entries);                                                      \
		__uint(map_flags, its_flags);                                                      \
	} name SEC(".maps")

TABLE(cilium_lxc, BPF_MAP_TYPE_HASH, struct lxc_key, struct lxc_row, 65535, 0);
TABLE(cilium_ct4_global, BPF_MAP_TYPE_LRU_HASH, struct ct_key, struct ct_row, 20000, 0);
TABLE(cilium_ct_any4_global, BPF_MAP_TYPE_LRU_HASH, struct ct_key, struct ct_row, 20000, 0);
TABLE(cilium_policy_v2, BPF_MAP_TYPE_LPM_TRIE, struct policy_key, struct policy_row, 16384,
      BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
TABLE(cilium_call_policy, BPF_MAP_TYPE_PROG_ARRAY, __u32, __u32, 65535, 0);

struct packet {
	__be32 saddr;
	__be32 daddr;
	__be16 sport;
	__be16 dport;
	__be16 policy_port;
	__u8 protocol;
	__u8 tcp_flags;
};

static __always_inline void *bytes(struct __sk_buff *skb, __u32 length)
{
	if (skb->data + length > skb->data_end)
		bpf_skb_pull_data(skb, length);
	void *data = (void *)(long)skb->data;

	return data + length <= (void *)(long)skb->data_end ? data : NULL;
}

static __always_inline int parse(struct __sk_buff *skb, struct packet *packet)
{
	struct iphdr *ip = bytes(skb, ETH_HLEN + sizeof(*ip));
	__be16 ports[2];
	__u8 type[8];

	if (!ip)
		return -1;
	ip = (void *)ip + ETH_HLEN;
	if (ip->ihl != 5)
		return -1;
	*packet = (struct packet){ .saddr = ip->saddr, .daddr = ip->daddr, .protocol = ip->protocol };
	if (ip->protocol == ICMP) {
		if (bpf_skb_load_bytes(skb, ETH_HLEN + 20, type, 8))
			return -1;
		packet->policy_port = bpf_htons(type[0]);
		if (type[0] == 8)
			__builtin_memcpy(&packet->sport, type + 4, 2);
		else if (type[0] == 0)
			__builtin_memcpy(&packet->dport, type + 4, 2);
		return 0;
	}
	if (bpf_skb_load_bytes(skb, ETH_HLEN + 20, ports, 4))
		return -1;
	packet->sport = ports[0];
	packet->dport = packet->policy_port = ports[1];
	if (ip->protocol == TCP && bpf_skb_load_bytes(skb, ETH_HLEN + 20 + 13, &packet->tcp_flags, 1))
		return -1;
	return 0;
}

static __always_inline struct ct_row *lookup(const struct ct_key *key)
{
	if (key->protocol == TCP)
		return bpf_map_lookup_elem(&cilium_ct4_global, key);
	return bpf_map_lookup_elem(&cilium_ct_any4_global, key);
}

/* Says of each way which flags it was heard with, as Cilium does: who answers an attempt is asked for it. */
static __always_inline void touch(struct ct_row *row, const struct packet *packet, __u8 way)
{
	__u32 now = bpf_ktime_get_ns() / 1000000000;

	if (packet->protocol == TCP && !(packet->tcp_flags & 2))
		row->flags |= 16;
	if (packet->tcp_flags & 2)
		row->flags &= ~3;
	if (way == OUT)
		row->tx_flags |= packet->tcp_flags;
	else
		row->rx_flags |= packet->tcp_flags;
	row->lifetime = now + (packet->protocol == TCP && row->flags & 16 ? 8000 : 60);
}

static __always_inline bool allows(const struct packet *packet, __u32 identity, __u8 egress)
{
	struct policy_key key = {
		.prefix = 64,
		.identity = identity,
		.egress = egress,
		.protocol = packet->protocol,
		.port = packet->policy_port,
	};
	struct policy_row *peer = bpf_map_lookup_elem(&cilium_policy_v2, &key), *any;

	key.identity = 0;
	any = bpf_map_lookup_elem(&cilium_policy_v2, &key);
	if (peer && any && any->precedence > peer->precedence)
		peer = any;
	if (!peer)
		peer = any;
	return peer && !(peer->flags & 1);
}

/* Whether the connection is known or may be, from the endpoint's point of view. */
static __always_inline bool admits(const struct packet *packet, __u8 way, __u32 identity)
{
	struct ct_key reply = {
		.daddr = packet->daddr,
		.saddr = packet->saddr,
		.dport = packet->sport,
		.sport = packet->dport,
		.protocol = packet->protocol,
		.flags = way == OUT ? IN : OUT,
	};
	struct ct_key key = {
		.daddr = packet->saddr,
		.saddr = packet->daddr,
		.dport = packet->dport,
		.sport = packet->sport,
		.protocol = packet->protocol,
		.flags = way,
	};
	struct ct_row *row = lookup(&reply), fresh = {};

	if (row) {
		touch(row, packet, way);
		return true;
	}
	if (!allows(packet, identity, way == OUT))
		return false;
	row = lookup(&key);
	if (row) {
		touch(row, packet, way);
		return true;
	}
	touch(&fresh, packet, way);
	fresh.src_identity = way == OUT ? IDENTITY : identity;
	if (packet->protocol == TCP)
		bpf_map_update_elem(&cilium_ct4_global, &key, &fresh, BPF_ANY);
	else
		bpf_map_update_elem(&cilium_ct_any4_global, &key, &fresh, BPF_ANY);
	return true;
}

static __always_inline struct lxc_row *local(__be32 address)
{
	struct lxc_key key = { .family = 1 };

	__builtin_memcpy(key.address, &address, 4);
	return bpf_map_lookup_elem(&cilium_lxc, &key);
}

static __always_inline int answer_arp(struct __sk_buff *skb)
{
	__u8 *arp = bytes(skb, ETH_HLEN + 28), asked[4], asker[10];
	__be32 target;

	if (!arp)
		return TC_ACT_SHOT;
	__builtin_memcpy(&target, arp + ETH_HLEN + 24, 4);
	if (arp[ETH_HLEN + 7] != 1 || target == IPV4)
		return TC_ACT_OK;
	__builtin_memcpy(asked, &target, 4);
	__builtin_memcpy(asker, arp + ETH_HLEN + 8, 10);
	for (int i = 0; i < 6; i++) {
		arp[i] = asker[i];
		arp[6 + i] = arp[ETH_HLEN + 8 + i] = NODE_MAC[i];
	}
	arp[ETH_HLEN + 7] = 2;
	__builtin_memcpy(arp + ETH_HLEN + 14, asked, 4);
	__builtin_memcpy(arp + ETH_HLEN + 18, asker, 10);
	return bpf_redirect(IFINDEX, 0);
}

/* What an endpoint sends. */
SEC("classifier/cil_from_container")
int cil_from_container(struct __sk_buff *skb)
{
	struct packet packet;
	struct lxc_row *row;

	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return answer_arp(skb);
	if (skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	if (parse(skb, &packet) || packet.saddr != IPV4)
		return TC_ACT_SHOT;
	row = local(packet.daddr);
	if (!admits(&packet, OUT, row ? row->identity : IDENTITY_WORLD))
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
	struct iphdr *ip;
	__u8 *frame;
	__u32 sum;

	if (parse(skb, &packet) || !admits(&packet, IN, skb->cb[0]))
		return TC_ACT_SHOT;
	frame = bytes(skb, ETH_HLEN + sizeof(*ip));
	if (!frame)
		return TC_ACT_SHOT;
	for (int i = 0; i < 6; i++) {
		frame[i] = MAC[i];
		frame[6 + i] = NODE_MAC[i];
	}
	ip = (void *)(frame + ETH_HLEN);
	sum = ip->check + bpf_htons(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
	/* What the node sends has been through the stack, and goes on from there. */
	return skb->cb[0] == IDENTITY_HOST ? bpf_redirect(IFINDEX, 0) : bpf_redirect_peer(IFINDEX, 0);
}

static __always_inline int arrive(struct __sk_buff *skb, __u32 identity)
{
	struct packet packet;
	struct lxc_row *row;

	if (skb->protocol != bpf_htons(ETH_P_IP) || parse(skb, &packet))
		return TC_ACT_OK;
	row = local(packet.daddr);
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
