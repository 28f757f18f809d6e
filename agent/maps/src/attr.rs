//! Attributes of `bpf(2)`: what the kernel reads of `union bpf_attr` for each command, and what
//! it says of objects, as in `linux/bpf.h`. A shorter attribute is padded by the kernel.

/// Commands of `enum bpf_cmd`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
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
    pub(crate) fn leaves_a_trace(self) -> bool {
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
pub(crate) struct MapCreate {
    pub(crate) map_type: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) map_flags: u32,
    pub(crate) inner_map_fd: u32,
    pub(crate) numa_node: u32,
    pub(crate) map_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Element {
    pub(crate) map_fd: u32,
    pub(crate) pad: u32,
    pub(crate) key: u64,
    /// Where the value is, or where the next key goes.
    pub(crate) value: u64,
    pub(crate) flags: u64,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) in_batch: u64,
    pub(crate) out_batch: u64,
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) count: u32,
    pub(crate) map_fd: u32,
    pub(crate) elem_flags: u64,
    pub(crate) flags: u64,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct ProgLoad {
    pub(crate) prog_type: u32,
    pub(crate) insn_cnt: u32,
    pub(crate) insns: u64,
    pub(crate) license: u64,
    pub(crate) log_level: u32,
    pub(crate) log_size: u32,
    pub(crate) log_buf: u64,
    pub(crate) kern_version: u32,
    pub(crate) prog_flags: u32,
    pub(crate) prog_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Object {
    pub(crate) pathname: u64,
    pub(crate) bpf_fd: u32,
    pub(crate) file_flags: u32,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct ById {
    pub(crate) id: u32,
    pub(crate) next_id: u32,
    pub(crate) open_flags: u32,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Info {
    pub(crate) bpf_fd: u32,
    pub(crate) info_len: u32,
    pub(crate) info: u64,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Query {
    pub(crate) target_ifindex: u32,
    pub(crate) attach_type: u32,
    pub(crate) query_flags: u32,
    pub(crate) attach_flags: u32,
    pub(crate) prog_ids: u64,
    pub(crate) count: u32,
    pub(crate) pad: u32,
    pub(crate) prog_attach_flags: u64,
    pub(crate) link_ids: u64,
    pub(crate) link_attach_flags: u64,
    pub(crate) revision: u64,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct LinkCreate {
    pub(crate) prog_fd: u32,
    pub(crate) target_ifindex: u32,
    pub(crate) attach_type: u32,
    pub(crate) flags: u32,
    pub(crate) relative_fd: u32,
    pub(crate) pad: u32,
    pub(crate) expected_revision: u64,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct Detach {
    pub(crate) link_fd: u32,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct LinkUpdate {
    pub(crate) link_fd: u32,
    pub(crate) new_prog_fd: u32,
    pub(crate) flags: u32,
    pub(crate) old_prog_fd: u32,
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapInfo {
    /// `enum bpf_map_type`.
    pub map_type: u32,
    /// Number of the map in the kernel.
    pub id: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Rows at most.
    pub max_entries: u32,
    /// Flags of creation.
    pub flags: u32,
    /// First 15 bytes of the name.
    pub name: [u8; 16],
}

/// The beginning of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct ProgInfo {
    pub(crate) prog_type: u32,
    pub(crate) id: u32,
    pub(crate) tag: [u8; 8],
    pub(crate) jited_len: u32,
    pub(crate) xlated_len: u32,
    pub(crate) jited: u64,
    pub(crate) xlated: u64,
    pub(crate) load_time: u64,
    pub(crate) created_by: u32,
    pub(crate) map_count: u32,
    pub(crate) map_ids: u64,
    pub(crate) name: [u8; 16],
}

/// The beginning of `struct bpf_link_info`, as a TCX link fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawLinkInfo {
    pub(crate) link_type: u32,
    pub(crate) id: u32,
    pub(crate) prog_id: u32,
    pub(crate) pad: u32,
    pub(crate) ifindex: u32,
    pub(crate) attach_type: u32,
    /// A link of a cgroup has that behind the cgroup's number.
    pub(crate) cgroup_attach_type: u32,
    pub(crate) pad_cgroup: u32,
}

/// A name as the kernel keeps it: 15 bytes of it.
pub(crate) fn short_name(name: &str) -> [u8; 16] {
    let mut short = [0; 16];
    for (to, from) in short[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    short
}
