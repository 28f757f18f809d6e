/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The stand-in for an endpoint that speaks with itself. */
#pragma once

#include "features.h"

/* The address that an endpoint sees when it speaks with itself by a service: its own would be taken
 * for forged, and its answers would not come here. */
always_inline void loopback_address(union address *address, int family)
{
	if (family == FAMILY_IPV4)
		*address = (union address){.words = {LOOPBACK_IPV4}};
	else
		*address = (union address){.words = {LOOPBACK_IPV6_A, LOOPBACK_IPV6_B, LOOPBACK_IPV6_C,
						     LOOPBACK_IPV6_D}};
}

always_inline bool address_is_loopback(const union address *address, int family)
{
	if (family == FAMILY_IPV4)
		return address->v4 == LOOPBACK_IPV4;
	return address->words[3] == LOOPBACK_IPV6_D && address->words[0] == LOOPBACK_IPV6_A &&
	       address->words[1] == LOOPBACK_IPV6_B && address->words[2] == LOOPBACK_IPV6_C;
}
