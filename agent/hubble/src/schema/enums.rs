//! The names that numbers have.

use super::Names;

pub(crate) static VERDICTS: &Names = &[
    (0, "VERDICT_UNKNOWN"),
    (1, "FORWARDED"),
    (2, "DROPPED"),
    (3, "ERROR"),
    (4, "AUDIT"),
    (5, "REDIRECTED"),
    (6, "TRACED"),
    (7, "TRANSLATED"),
];
pub(super) static FLOW_TYPES: &Names = &[(0, "UNKNOWN_TYPE"), (1, "L3_L4"), (2, "L7"), (3, "SOCK")];
pub(super) static IP_VERSIONS: &Names = &[(0, "IP_NOT_USED"), (1, "IPv4"), (2, "IPv6")];
pub(super) static DIRECTIONS: &Names =
    &[(0, "TRAFFIC_DIRECTION_UNKNOWN"), (1, "INGRESS"), (2, "EGRESS")];
pub(super) static POINTS: &Names = &[
    (0, "UNKNOWN_POINT"),
    (1, "TO_PROXY"),
    (2, "TO_HOST"),
    (3, "TO_STACK"),
    (4, "TO_OVERLAY"),
    (5, "FROM_ENDPOINT"),
    (6, "FROM_PROXY"),
    (7, "FROM_HOST"),
    (8, "FROM_STACK"),
    (9, "FROM_OVERLAY"),
    (10, "FROM_NETWORK"),
    (11, "TO_NETWORK"),
    (12, "FROM_CRYPTO"),
    (13, "TO_CRYPTO"),
    (101, "TO_ENDPOINT"),
];
pub(super) static REASONS: &Names = &[
    (0, "TRACE_REASON_UNKNOWN"),
    (1, "NEW"),
    (2, "ESTABLISHED"),
    (3, "REPLY"),
    (4, "RELATED"),
    (5, "REOPENED"),
    (6, "SRV6_ENCAP"),
    (7, "SRV6_DECAP"),
    (8, "ENCRYPT_OVERLAY"),
];
pub(crate) static LOST_SOURCES: &Names = &[
    (0, "UNKNOWN_LOST_EVENT_SOURCE"),
    (1, "PERF_EVENT_RING_BUFFER"),
    (2, "OBSERVER_EVENTS_QUEUE"),
    (3, "HUBBLE_RING_BUFFER"),
];
pub(super) static NODE_STATES: &Names = &[
    (0, "UNKNOWN_NODE_STATE"),
    (1, "NODE_CONNECTED"),
    (2, "NODE_UNAVAILABLE"),
    (3, "NODE_GONE"),
    (4, "NODE_ERROR"),
];
pub(super) static PEER_CHANGES: &Names =
    &[(0, "UNKNOWN"), (1, "PEER_ADDED"), (2, "PEER_DELETED"), (3, "PEER_UPDATED")];
pub(super) static AGENT_EVENTS: &Names = &[
    (0, "AGENT_EVENT_UNKNOWN"),
    (2, "AGENT_STARTED"),
    (3, "POLICY_UPDATED"),
    (4, "POLICY_DELETED"),
    (5, "ENDPOINT_REGENERATE_SUCCESS"),
    (6, "ENDPOINT_REGENERATE_FAILURE"),
    (7, "ENDPOINT_CREATED"),
    (8, "ENDPOINT_DELETED"),
    (9, "IPCACHE_UPSERTED"),
    (10, "IPCACHE_DELETED"),
];

/// Why packets are dropped.
pub static DROP_REASONS: &Names = &[
    (0, "DROP_REASON_UNKNOWN"),
    (130, "INVALID_SOURCE_MAC"),
    (131, "INVALID_DESTINATION_MAC"),
    (132, "INVALID_SOURCE_IP"),
    (133, "POLICY_DENIED"),
    (134, "INVALID_PACKET_DROPPED"),
    (135, "CT_TRUNCATED_OR_INVALID_HEADER"),
    (136, "CT_MISSING_TCP_ACK_FLAG"),
    (137, "CT_UNKNOWN_L4_PROTOCOL"),
    (138, "CT_CANNOT_CREATE_ENTRY_FROM_PACKET"),
    (139, "UNSUPPORTED_L3_PROTOCOL"),
    (140, "MISSED_TAIL_CALL"),
    (141, "ERROR_WRITING_TO_PACKET"),
    (142, "UNKNOWN_L4_PROTOCOL"),
    (143, "UNKNOWN_ICMPV4_CODE"),
    (144, "UNKNOWN_ICMPV4_TYPE"),
    (145, "UNKNOWN_ICMPV6_CODE"),
    (146, "UNKNOWN_ICMPV6_TYPE"),
    (147, "ERROR_RETRIEVING_TUNNEL_KEY"),
    (150, "UNKNOWN_L3_TARGET_ADDRESS"),
    (151, "STALE_OR_UNROUTABLE_IP"),
    (153, "ERROR_WHILE_CORRECTING_L3_CHECKSUM"),
    (154, "ERROR_WHILE_CORRECTING_L4_CHECKSUM"),
    (155, "CT_MAP_INSERTION_FAILED"),
    (156, "INVALID_IPV6_EXTENSION_HEADER"),
    (157, "IP_FRAGMENTATION_NOT_SUPPORTED"),
    (158, "SERVICE_BACKEND_NOT_FOUND"),
    (160, "NO_TUNNEL_OR_ENCAPSULATION_ENDPOINT"),
    (161, "FAILED_TO_INSERT_INTO_PROXYMAP"),
    (162, "REACHED_EDT_RATE_LIMITING_DROP_HORIZON"),
    (163, "UNKNOWN_CONNECTION_TRACKING_STATE"),
    (164, "LOCAL_HOST_IS_UNREACHABLE"),
    (165, "NO_CONFIGURATION_AVAILABLE_TO_PERFORM_POLICY_DECISION"),
    (166, "UNSUPPORTED_L2_PROTOCOL"),
    (167, "NO_MAPPING_FOR_NAT_MASQUERADE"),
    (168, "UNSUPPORTED_PROTOCOL_FOR_NAT_MASQUERADE"),
    (169, "FIB_LOOKUP_FAILED"),
    (170, "ENCAPSULATION_TRAFFIC_IS_PROHIBITED"),
    (171, "INVALID_IDENTITY"),
    (172, "UNKNOWN_SENDER"),
    (173, "NAT_NOT_NEEDED"),
    (174, "IS_A_CLUSTERIP"),
    (175, "FIRST_LOGICAL_DATAGRAM_FRAGMENT_NOT_FOUND"),
    (176, "FORBIDDEN_ICMPV6_MESSAGE"),
    (177, "DENIED_BY_LB_SRC_RANGE_CHECK"),
    (178, "SOCKET_LOOKUP_FAILED"),
    (179, "SOCKET_ASSIGN_FAILED"),
    (180, "PROXY_REDIRECTION_NOT_SUPPORTED_FOR_PROTOCOL"),
    (181, "POLICY_DENY"),
    (182, "VLAN_FILTERED"),
    (183, "INVALID_VNI"),
    (184, "INVALID_TC_BUFFER"),
    (185, "NO_SID"),
    (187, "NAT46"),
    (188, "NAT64"),
    (189, "AUTH_REQUIRED"),
    (190, "CT_NO_MAP_FOUND"),
    (191, "SNAT_NO_MAP_FOUND"),
    (192, "INVALID_CLUSTER_ID"),
    (193, "UNSUPPORTED_PROTOCOL_FOR_DSR_ENCAP"),
    (194, "NO_EGRESS_GATEWAY"),
    (195, "UNENCRYPTED_TRAFFIC"),
    (196, "TTL_EXCEEDED"),
    (197, "NO_NODE_ID"),
    (198, "DROP_RATE_LIMITED"),
    (199, "IGMP_HANDLED"),
    (200, "IGMP_SUBSCRIBED"),
    (201, "MULTICAST_HANDLED"),
    (202, "DROP_HOST_NOT_READY"),
    (203, "DROP_EP_NOT_READY"),
    (204, "DROP_NO_EGRESS_IP"),
    (205, "DROP_PUNT_PROXY"),
];

/// The name of a number.
pub fn name_of(names: &Names, number: i32) -> Option<&'static str> {
    names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// The number of a name.
pub fn number_of(names: &Names, name: &str) -> Option<i32> {
    names.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}
