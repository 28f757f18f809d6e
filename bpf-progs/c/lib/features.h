/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The node's feature set: constants that the loader sets, so that the verifier removes what is
 * switched off. All of one size, the twin of src/features.rs. */
#pragma once

#include "common.h"

const volatile __u16 ENABLE_IPV4 = 1;
const volatile __u16 ENABLE_IPV6 = 1;
/* The config_flags of records that may be written at all. */
const volatile __u16 NOTIFY = 2 | 4 | 8;
/* Count packets per policy row in cilium_policystats. */
const volatile __u16 POLICY_STATS = 0;
/* Where connections are reported now and then only: after how many seconds again, and by which TCP
 * flags that the connection has not shown before at once. */
const volatile __u16 REPORT_INTERVAL = 5;
const volatile __u16 REPORT_FLAGS = 1 | 2 | 4;
