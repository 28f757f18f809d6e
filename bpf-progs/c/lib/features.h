/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The node's feature set: constants that the loader sets, so that the verifier removes what is
 * switched off. All of one size, the twin of src/features.rs. */
#pragma once

#include "common.h"

const volatile __u32 ENABLE_IPV4 = 1;
const volatile __u32 ENABLE_IPV6 = 1;
/* The config_flags of records that may be written at all. */
const volatile __u32 NOTIFY = 2 | 4 | 8;
/* Count packets per policy row in cilium_policystats. */
const volatile __u32 POLICY_STATS = 0;
/* Where connections are reported now and then only: after how many seconds again, and by which TCP
 * flags that the connection has not shown before at once. */
const volatile __u32 REPORT_INTERVAL = 5;
const volatile __u32 REPORT_FLAGS = 1 | 2 | 4;
/* Ask the node's own policy for what the node itself hears and sends. */
const volatile __u32 ENABLE_HOST_FIREWALL = 0;
/* Let backends behind other nodes answer clients outside themselves. */
const volatile __u32 ENABLE_DSR = 0;
/* Of services that say so only. */
const volatile __u32 DSR_BY_SERVICE = 0;
/* Refuse what nobody serves; else it drops in silence. */
const volatile __u32 REFUSE_UNSERVED = 1;
/* Backends in a service's Maglev table. */
const volatile __u32 MAGLEV = 16381;
/* Serve what is asked for at the node's own addresses, and other addresses outside the cluster's. Else another
 * program of the node does. */
const volatile __u32 ENABLE_NODE_PORT = 1;
/* Hand packets over past the node's stack. Where another program serves or filters by connections there, it has to
 * see each packet, of both directions. */
const volatile __u32 ENABLE_PAST_STACK = 1;
/* Have addresses of the node stand for others'. */
const volatile __u32 ENABLE_NAT_IPV4 = 1;
const volatile __u32 ENABLE_NAT_IPV6 = 1;
/* Ports that may stand for others' on the node's addresses. */
const volatile __u32 NAT_PORT_MIN = 32768;
const volatile __u32 NAT_PORT_MAX = 65535;
/* Stand in for the address of an endpoint that speaks with itself by a service. Network order. */
const volatile __u32 LOOPBACK_IPV4 = bpf_htonl(0xa9fe2a01);
const volatile __u32 LOOPBACK_IPV6_A = bpf_htonl(0xfe800000);
const volatile __u32 LOOPBACK_IPV6_B = 0;
const volatile __u32 LOOPBACK_IPV6_C = 0;
const volatile __u32 LOOPBACK_IPV6_D = bpf_htonl(1);
