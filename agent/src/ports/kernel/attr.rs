//! Attributes of `bpf(2)`: what the kernel reads of `union bpf_attr` for each command, and what
//! it says of objects, as in `linux/bpf.h`. A shorter attribute is padded by the kernel.

/// Commands of `enum bpf_cmd`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    #[cfg(test)]
    ProgLoad = 5,
    Pin = 6,
    Get = 7,
    ProgFdById = 13,
    MapFdById = 14,
    Info = 15,
    ProgQuery = 16,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    MapDeleteBatch = 27,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkFdById = 30,
    LinkNextId = 31,
    LinkDetach = 34,
}

impl Command {
    /// Whether what it does is there when the process is gone.
    pub(super) fn leaves_a_trace(self) -> bool {
        matches!(
            self,
            Self::MapUpdate
                | Self::MapDelete
                | Self::MapUpdateBatch
                | Self::MapDeleteBatch
                | Self::Pin
                | Self::LinkUpdate
                | Self::LinkDetach
        )
    }
}

#[repr(C)]
#[derive(Default)]
pub(super) struct MapCreate {
    pub(super) map_type: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) max_entries: u32,
    pub(super) map_flags: u32,
    pub(super) inner_map_fd: u32,
    pub(super) numa_node: u32,
    pub(super) map_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Element {
    pub(super) map_fd: u32,
    pub(super) pad: u32,
    pub(super) key: u64,
    /// Where the value is, or where the next key goes.
    pub(super) value: u64,
    pub(super) flags: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Batch {
    pub(super) in_batch: u64,
    pub(super) out_batch: u64,
    pub(super) keys: u64,
    pub(super) values: u64,
    pub(super) count: u32,
    pub(super) map_fd: u32,
    pub(super) elem_flags: u64,
    pub(super) flags: u64,
}

#[cfg(test)]
#[repr(C)]
pub(super) struct ProgLoad {
    pub(super) prog_type: u32,
    pub(super) insn_cnt: u32,
    pub(super) insns: u64,
    pub(super) license: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Object {
    pub(super) pathname: u64,
    pub(super) bpf_fd: u32,
    pub(super) file_flags: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct ById {
    pub(super) id: u32,
    pub(super) next_id: u32,
    pub(super) open_flags: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Info {
    pub(super) bpf_fd: u32,
    pub(super) info_len: u32,
    pub(super) info: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Query {
    pub(super) target_ifindex: u32,
    pub(super) attach_type: u32,
    pub(super) query_flags: u32,
    pub(super) attach_flags: u32,
    pub(super) prog_ids: u64,
    pub(super) count: u32,
    pub(super) pad: u32,
    pub(super) prog_attach_flags: u64,
    pub(super) link_ids: u64,
    pub(super) link_attach_flags: u64,
    pub(super) revision: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct LinkCreate {
    pub(super) prog_fd: u32,
    pub(super) target_ifindex: u32,
    pub(super) attach_type: u32,
    pub(super) flags: u32,
    pub(super) relative_fd: u32,
    pub(super) pad: u32,
    pub(super) expected_revision: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Detach {
    pub(super) link_fd: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct LinkUpdate {
    pub(super) link_fd: u32,
    pub(super) new_prog_fd: u32,
    pub(super) flags: u32,
    pub(super) old_prog_fd: u32,
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MapInfo {
    /// `enum bpf_map_type`.
    pub(super) map_type: u32,
    /// Number of the map in the kernel.
    pub(super) id: u32,
    /// Bytes of a key.
    pub(super) key_size: u32,
    /// Bytes of a value.
    pub(super) value_size: u32,
    /// Rows at most.
    pub(super) max_entries: u32,
    /// Flags of creation.
    pub(super) flags: u32,
    /// First 15 bytes of the name.
    pub(super) name: [u8; 16],
}

/// The beginning of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct ProgInfo {
    pub(super) prog_type: u32,
    pub(super) id: u32,
    pub(super) tag: [u8; 8],
    pub(super) jited_len: u32,
    pub(super) xlated_len: u32,
    pub(super) jited: u64,
    pub(super) xlated: u64,
    pub(super) load_time: u64,
    pub(super) created_by: u32,
    pub(super) map_count: u32,
    pub(super) map_ids: u64,
    pub(super) name: [u8; 16],
}

/// The beginning of `struct bpf_link_info`, as a TCX link fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawLinkInfo {
    pub(super) link_type: u32,
    pub(super) id: u32,
    pub(super) prog_id: u32,
    pub(super) pad: u32,
    pub(super) ifindex: u32,
    pub(super) attach_type: u32,
    /// A link of a cgroup has that behind the cgroup's number.
    pub(super) cgroup_attach_type: u32,
    pub(super) pad_cgroup: u32,
}
