/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reasons of drops, and how a function returns one.
 *
 * A function that may drop returns a TC action, or below zero the reason together with the source
 * file and line, for the drop record and the metrics. */
#pragma once

#include "common.h"

enum drop_reason {
	DROP_INVALID_SOURCE_IP = 132,
	DROP_POLICY_DENIED = 133,
	DROP_INVALID_PACKET = 134,
	DROP_INVALID_L4_HEADER = 135,
	DROP_UNKNOWN_L4 = 137,
	DROP_CT_CANNOT_CREATE = 138,
	DROP_UNSUPPORTED_L3 = 139,
	DROP_WRITE_ERROR = 141,
	DROP_UNKNOWN_TARGET = 150,
	DROP_L4_CHECKSUM = 154,
	DROP_CT_CREATE_FAILED = 155,
	DROP_INVALID_EXTENSION_HEADER = 156,
	DROP_FRAGMENT_NOT_SUPPORTED = 157,
	DROP_NO_SERVICE = 158,
	DROP_NO_TUNNEL = 160,
	DROP_UNSUPPORTED_L2 = 166,
	DROP_NAT_NO_MAPPING = 167,
	DROP_NAT_UNSUPPORTED = 168,
	DROP_NO_FIB = 169,
	DROP_ENCAP_PROHIBITED = 170,
	DROP_IS_CLUSTER_IP = 174,
	DROP_NOT_IN_SOURCE_RANGE = 177,
	DROP_PROXY_NOT_SUPPORTED = 180,
	DROP_POLICY_DENY = 181,
	DROP_AUTH_REQUIRED = 189,
	DROP_TTL_EXCEEDED = 196,
	DROP_ENDPOINT_NOT_READY = 203,
};

/* Source files, above the numbers that Cilium's tools know. The twin of src/drop_reason.rs. */
enum source_file {
	FILE_ENDPOINT_C = 64,
	FILE_PARSE_H = 65,
	FILE_NEIGHBOUR_H = 66,
	FILE_CONNTRACK_H = 67,
	FILE_POLICY_H = 68,
	FILE_DELIVER_H = 69,
	FILE_ADMIT_H = 70,
	FILE_LB_H = 71,
	FILE_NAT_H = 72,
	FILE_BACKEND_H = 73,
	FILE_LB_REVERSE_H = 74,
	FILE_DEVICE_C = 75,
	FILE_OVERLAY_C = 76,
	FILE_SNAT_H = 77,
	FILE_NODE_PORT_H = 78,
	FILE_ROUTE_H = 79,
	FILE_MASQUERADE_H = 80,
	FILE_ARRIVE_H = 81,
	FILE_OVERLAY_H = 82,
	FILE_DSR_SEND_H = 83,
	FILE_DSR_LEARN_H = 84,
	FILE_DSR_PORT_H = 85,
	FILE_REFUSE_H = 86,
};

#define DROP_FROM(file, reason) (-((int)(reason) | __LINE__ << 8 | (file) << 24))
/* The drop of what is for a service, and that nobody serves: it is refused. */
#define NOBODY_SERVES DROP_FROM(FILE_REFUSE_H, DROP_NO_SERVICE)
#define drop_reason_of(code) ((__u8)(-(code)))
#define drop_line_of(code) ((__u16)(-(code) >> 8))
#define drop_file_of(code) ((__u8)(-(code) >> 24))
