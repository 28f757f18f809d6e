//! Runs the programs over single frames, as often as the machine can: the system call itself, and in front of the
//! overlay's program one that gives a frame the tunnel's facts, which a run without a device lacks.

use super::super::*;
use super::network::{At, Network, is_group, stays_on_link};
use super::{Seen, Shot, reader};
use aya::programs::SchedClassifier;
use std::io::Error;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::object::*;

/// Commands of `bpf(2)`.
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROG_LOAD: i32 = 5;
const TEST_RUN: i32 = 10;
const PROG_ARRAY: u32 = 3;
const SCHED_CLS: u32 = 3;

/// Offsets in `struct __sk_buff`, and its size.
const MARK: usize = 8;
const INGRESS_IFINDEX: usize = 36;
const IFINDEX: usize = 40;
const CB: usize = 48;
const CONTEXT: usize = 192;

/// Programs of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    FromContainer,
    ToContainer,
    FromNetdev,
    ToNetdev,
    FromOverlay,
}

/// What became of a frame, hook by hook.
pub type Way = Vec<(Hook, Seen)>;

/// Bytes of the headers of Ethernet and IPv6.
const IP_HEADERS: usize = 54;

/// Longest frame that comes out.
const ROOM: usize = 4096;

pub struct Runner {
    pub network: Network,
    pub node: Node,
    fds: [RawFd; 5],
    out: Vec<u8>,
    /// The tunnel's program, and its table with the overlay's in it.
    _tunnel: (OwnedFd, OwnedFd),
}

impl Runner {
    pub fn new(features: Features) -> Self {
        let (mut node, up) = Node::with_uplink_and(features);
        outside::route_outside();
        let network = Network::build(&mut node, up);
        let tunnel = tunnel(fd(&mut node, FROM_OVERLAY));
        let names = [FROM_CONTAINER, TO_CONTAINER, FROM_NETDEV, TO_NETDEV];
        let [a, b, c, d] = names.map(|name| fd(&mut node, name));
        let fds = [a, b, c, d, tunnel.0.as_raw_fd()];
        Self { network, node, fds, out: vec![0; ROOM], _tunnel: tunnel }
    }

    /// Sends a frame the way that it goes.
    pub fn put(&mut self, shot: &Shot) -> Way {
        let frame = &shot.frame;
        let up = self.network.up.ifindex;
        match shot.at {
            At::Pod(pod) => {
                let ifindex = self.network.pods[pod].ifindex;
                let first = self.run(Hook::FromContainer, ifindex, 0, &[], frame);
                self.forwarded(vec![(Hook::FromContainer, first)])
            }
            At::Wire => {
                let first = self.run(Hook::FromNetdev, up, 0, &[], frame);
                self.forwarded(vec![(Hook::FromNetdev, first)])
            }
            At::Overlay { carrier, identity } => {
                let IpAddr::V4(carrier) = carrier else { panic!("the outer packets are IPv4's") };
                let facts = [identity, u32::from(carrier)];
                let first = self.run(Hook::FromOverlay, up, 0, &facts, frame);
                self.forwarded(vec![(Hook::FromOverlay, first)])
            }
            At::Stack(pod) => {
                let ifindex = self.network.pods[pod].ifindex;
                vec![(Hook::ToContainer, self.run(Hook::ToContainer, ifindex, 0, &[], frame))]
            }
        }
    }

    /// What the stack would do with what it is given.
    fn forwarded(&mut self, mut way: Way) -> Way {
        let Some((_, Seen { action: OK, mark, frame })) = way.last().cloned() else { return way };
        let Some(reader::Layer3::Ip(packet)) = reader::read(&frame).map(|it| it.layer3) else {
            return way;
        };
        let dst = packet.dst;
        if packet.hops <= 1 || self.network.is_own(dst) || stays_on_link(dst) || is_group(dst) {
            return way;
        }
        let (hook, ifindex) = match self.network.pod_of(dst) {
            Some(pod) => (Hook::ToContainer, self.network.pods[pod].ifindex),
            None => (Hook::ToNetdev, self.network.up.ifindex),
        };
        let seen = self.run(hook, ifindex, mark, &[], &frame);
        way.push((hook, seen));
        way
    }

    fn run(&mut self, hook: Hook, ifindex: u32, mark: u32, facts: &[u32], frame: &[u8]) -> Seen {
        let (mut context, mut context_out) = ([0u8; CONTEXT], [0u8; CONTEXT]);
        let mut put = |at: usize, value: u32| {
            context[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        put(MARK, mark);
        put(IFINDEX, ifindex);
        put(INGRESS_IFINDEX, self.network.up.ifindex);
        for (nth, fact) in facts.iter().enumerate() {
            put(CB + nth * 4, *fact);
        }
        let mut run = TestRun {
            prog_fd: self.fds[hook as usize] as u32,
            data_size_in: frame.len() as u32,
            data_size_out: self.out.len() as u32,
            data_in: frame.as_ptr() as u64,
            data_out: self.out.as_mut_ptr() as u64,
            repeat: 1,
            ctx_size_in: CONTEXT as u32,
            ctx_size_out: CONTEXT as u32,
            ctx_in: context.as_ptr() as u64,
            ctx_out: context_out.as_mut_ptr() as u64,
            ..TestRun::default()
        };
        if let Err(error) = bpf(TEST_RUN, &mut run) {
            // Such a run wants the whole IP header, which no program asks for in vain.
            assert!(frame.len() < IP_HEADERS, "{hook:?}, {frame:02x?}: {error}");
            return Seen { action: SHOT, mark: 0, frame: frame.to_vec() };
        }
        let mark = u32::from_ne_bytes(context_out[MARK..MARK + 4].try_into().unwrap());
        let frame = self.out[..run.data_size_out as usize].to_vec();
        Seen { action: run.retval, mark, frame }
    }
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

fn bpf<T>(command: i32, attributes: &mut T) -> Result<i64, Error> {
    // SAFETY: the kernel reads and writes no more than that size, and the pointers within are to what outlives the
    // call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

fn owned<T>(command: i32, attributes: &mut T) -> OwnedFd {
    let fd = bpf(command, attributes).unwrap() as RawFd;
    // SAFETY: the kernel has just made it, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn fd(node: &mut Node, program: &str) -> RawFd {
    node.program(program).fd().unwrap().as_fd().as_raw_fd()
}

/// A program that takes identity and outer source from the frame's control bytes, and goes on with another one.
fn tunnel(next: RawFd) -> (OwnedFd, OwnedFd) {
    // Type, sizes of key and value, entries, flags.
    let table = owned(MAP_CREATE, &mut [PROG_ARRAY, 4, 4, 1, 0]);
    let (key, value) = (0u32, next as u32);
    let at = [&raw const key as u64, &raw const value as u64];
    bpf(MAP_UPDATE, &mut [table.as_raw_fd() as u64, at[0], at[1], 0]).unwrap();
    let code = instructions(table.as_raw_fd());
    let license = c"GPL";
    let mut load = ProgLoad {
        prog_type: SCHED_CLS,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        ..ProgLoad::default()
    };
    (owned(PROG_LOAD, &mut load), table)
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// An instruction: opcode, registers, offset, immediate.
const fn insn(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    code as u64
        | (to as u64) << 8
        | (from as u64) << 12
        | (offset as u16 as u64) << 16
        | (value as u32 as u64) << 32
}

fn instructions(table: RawFd) -> Vec<u64> {
    // Where `struct bpf_tunnel_key` of 44 bytes stands on the stack, and fields of it.
    const KEY: i16 = -48;
    const LOCAL: i16 = KEY + 28;
    const HOPS: i16 = KEY + 21;
    let mut code = vec![insn(0xbf, 6, 1, 0, 0)];
    code.extend((0..6).map(|nth| insn(0x7a, 10, 0, KEY + nth * 8, 0)));
    code.extend([
        insn(0x61, 2, 6, CB as i16, 0),
        insn(0x63, 10, 2, KEY, 0),
        insn(0x61, 2, 6, CB as i16 + 4, 0),
        insn(0x63, 10, 2, LOCAL, 0),
        insn(0x72, 10, 0, HOPS, 64),
        insn(0xbf, 1, 6, 0, 0),
        insn(0xbf, 2, 10, 0, 0),
        insn(0x07, 2, 0, 0, KEY.into()),
        insn(0xb7, 3, 0, 0, 44),
        insn(0xb7, 4, 0, 0, 0),
        // bpf_skb_set_tunnel_key
        insn(0x85, 0, 0, 0, 21),
        insn(0xbf, 1, 6, 0, 0),
        // The table, by its descriptor.
        insn(0x18, 2, 1, 0, table),
        0,
        insn(0xb7, 3, 0, 0, 0),
        // bpf_tail_call
        insn(0x85, 0, 0, 0, 12),
        // It has not gone on.
        insn(0xb7, 0, 0, 0, 99),
        insn(0x95, 0, 0, 0, 0),
    ]);
    code
}
