/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The node's feature set: constants that the loader sets, so that the verifier removes what is
 * switched off. The twin of src/features.rs. */
#pragma once

#include "common.h"

const volatile __u8 ENABLE_IPV4 = 1;
const volatile __u8 ENABLE_IPV6 = 1;
/* The config_flags of records that may be written at all. */
const volatile __u8 NOTIFY = 2 | 4 | 8;
/* Count packets per policy row in cilium_policystats. */
const volatile __u8 POLICY_STATS = 0;
