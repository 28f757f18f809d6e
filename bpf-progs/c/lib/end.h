/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* An address and port of a socket. */
#pragma once

#include "common.h"

/* An end of a socket, as a hook shows it. IPv4 may stand within IPv6. */
struct end {
	union address address;
	__be16 port;
	__u8 family;
};

/* IPv4 within IPv6 is IPv4. */
always_inline struct end end_of(__u32 a, __u32 b, __u32 c, __u32 d, __be16 port)
{
	struct end end = {.port = port, .family = FAMILY_IPV6};

	if (!a && !b && c == bpf_htonl(0xffff)) {
		end.family = FAMILY_IPV4;
		end.address.v4 = d;
	} else {
		end.address.words[0] = a;
		end.address.words[1] = b;
		end.address.words[2] = c;
		end.address.words[3] = d;
	}
	return end;
}

always_inline struct end end_of_ipv4(__be32 address, __be16 port)
{
	struct end end = {.port = port, .family = FAMILY_IPV4};

	end.address.v4 = address;
	return end;
}
