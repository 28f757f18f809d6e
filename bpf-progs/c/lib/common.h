/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What every part of the datapath builds on. */
#pragma once

#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef __u8 bool;
#define true 1
#define false 0

#define always_inline static inline __attribute__((always_inline))

/* A function that the verifier checks once, by itself, instead of on every path that leads to it.
 * It then knows nothing of the arguments: pointers have to be checked for NULL. */
#define subprogram __attribute__((noinline))

/* One that it checks on every path, knowing the arguments: before Linux 6.2, a key of a map has to be seen to lie on
 * somebody's stack. */
#define path_subprogram static __attribute__((noinline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Keeps clang from moving memory accesses across, and from merging two map lookups into one whose map
 * only the packet decides: the kernel calls a map that it knows directly, others through a pointer. */
#define keep_apart() asm volatile("" ::: "memory")

/* Has the verifier, and clang, forget what they know of a number: what it is used for has to be bounded anew. */
#define opaque(number) asm volatile("" : "+r"(number))

/* Has clang write an object that a function is about to write: before Linux 6.4, the verifier wants what a function
 * is given to be written already, and clang 22 takes that for useless. */
#define written(object) asm volatile("" : "+m"(object))

/* Looks up what should be there. The kernel replaces a row by one at the head of its bucket: who has passed
 * the head and not yet reached the row that goes sees neither. It is there when one looks again. */
#define row_find(map, key)                                                                                    \
	({                                                                                                    \
		void *_row = bpf_map_lookup_elem(map, key);                                                   \
                                                                                                              \
		if (unlikely(!_row))                                                                          \
			_row = bpf_map_lookup_elem(map, key);                                                 \
		_row;                                                                                         \
	})

/* From sys/socket.h, which draws in the C library. */
#define AF_INET 2
#define AF_INET6 10

#define FAMILY_IPV4 1
#define FAMILY_IPV6 2

/* An address in network order. IPv4 stands in the first word, the others are zero. The first member
 * is the whole of it, because that is what an initialiser clears. */
union address {
	__u8 bytes[16];
	__u32 words[4];
	__be32 v4;
};

always_inline bool address_equal(const union address *a, const union address *b, int family)
{
	if (family == FAMILY_IPV4)
		return a->v4 == b->v4;
	return a->words[0] == b->words[0] && a->words[1] == b->words[1] &&
	       a->words[2] == b->words[2] && a->words[3] == b->words[3];
}

always_inline bool address_is_zero(const union address *a)
{
	return !(a->words[0] | a->words[1] | a->words[2] | a->words[3]);
}

/* Whether an IPv6 address is for neighbours only. */
always_inline bool address_is_link_local(const union address *a)
{
	return a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80;
}

/* Whether an address is for many. */
always_inline bool address_is_many(const union address *a, int family)
{
	return family == FAMILY_IPV4 ? a->bytes[0] >= 224 : a->bytes[0] == 0xff;
}

/* Whether an address for many, or for a neighbour, leads no further than the link: at an endpoint's there is the
 * node. */
always_inline bool address_is_of_link(const union address *a, int family)
{
	if (family == FAMILY_IPV4)
		return a->words[0] == 0xffffffff || (a->bytes[0] == 224 && !a->bytes[1] && !a->bytes[2]);
	return address_is_link_local(a) || (a->bytes[0] == 0xff && (a->bytes[1] & 0x0f) <= 2);
}

/* Whether an address is no machine's on any link: of this machine only, of none, or of IPv4 within IPv6. */
always_inline bool address_is_nowhere(const union address *a, int family)
{
	if (family == FAMILY_IPV4)
		return !a->bytes[0] || a->bytes[0] == 127;
	return !(a->words[0] | a->words[1]) && (!a->words[2] || a->words[2] == bpf_htonl(0xffff));
}

/* Whether no packet can come from an address that a router lets pass. */
always_inline bool address_is_no_source(const union address *a, int family)
{
	return address_is_nowhere(a, family) || address_is_many(a, family) ||
	       (family == FAMILY_IPV6 && address_is_link_local(a));
}

/* Copies a MAC address between places that are aligned to two bytes. */
always_inline void mac_copy(void *to, const void *from)
{
	__u16 *t = to;
	const __u16 *f = from;

	t[0] = f[0];
	t[1] = f[1];
	t[2] = f[2];
}
