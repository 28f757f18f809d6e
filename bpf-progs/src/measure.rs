//! What a packet costs in a program, by `BPF_PROG_TEST_RUN`.

use aya::programs::{ProgramError, SchedClassifier, TestRun, TestRunOptions};

/// Runs of one system call. The hop limit falls with every run, so a batch must end before 255.
pub const RUNS_PER_BATCH: u32 = 200;

/// Size in bytes of `struct __sk_buff`.
const CONTEXT_BYTES: usize = 192;
/// Offset in bytes of its interface index.
const CONTEXT_IFINDEX: usize = 40;

/// Nanoseconds a run, one figure for each of `batches` batches of [`RUNS_PER_BATCH`] runs.
///
/// The frame enters through the interface `ifindex` of the current network namespace and should
/// have a hop limit of 255. The kernel's clock is read once a batch, so what else the machine does
/// shows as a long tail: judge by the median.
///
/// # Errors
///
/// When the kernel refuses the run, above all for an interface that does not exist.
pub fn packet_cost(
    program: &SchedClassifier,
    ifindex: u32,
    frame: &[u8],
    batches: usize,
) -> Result<Vec<u64>, ProgramError> {
    costs(program, ifindex, frame, batches, RUNS_PER_BATCH)
}

/// Nanoseconds of each of so many runs, every one with the frame as it is given: for packets that a
/// run changes into others. The clock is part of each, which is to be compared with figures of the
/// same kind only.
///
/// # Errors
///
/// As [`packet_cost`].
pub fn single_cost(
    program: &SchedClassifier,
    ifindex: u32,
    frame: &[u8],
    runs: usize,
) -> Result<Vec<u64>, ProgramError> {
    costs(program, ifindex, frame, runs, 1)
}

fn costs(
    program: &SchedClassifier,
    ifindex: u32,
    frame: &[u8],
    batches: usize,
    repeat: u32,
) -> Result<Vec<u64>, ProgramError> {
    let mut context = [0; CONTEXT_BYTES];
    context[CONTEXT_IFINDEX..][..4].copy_from_slice(&ifindex.to_ne_bytes());
    (0..batches)
        .map(|_| {
            let result = program.test_run(TestRunOptions {
                data_in: Some(frame),
                ctx_in: Some(&context),
                repeat,
                ..TestRunOptions::default()
            })?;
            Ok(result.duration.as_nanos() as u64)
        })
        .collect()
}

/// A UDP packet over IPv4 with hop limit 255 between two link-layer and two network addresses.
pub fn udp_frame(
    macs: ([u8; 6], [u8; 6]),
    addresses: ([u8; 4], [u8; 4]),
    ports: (u16, u16),
) -> Vec<u8> {
    let mut frame = [&macs.1[..], &macs.0, &[8, 0]].concat();
    let mut header = [0x45, 0, 0, 28, 0, 1, 0, 0, 255, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[12..16].copy_from_slice(&addresses.0);
    header[16..].copy_from_slice(&addresses.1);
    let sum: u32 = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!((folded + (folded >> 16)) as u16)).to_be_bytes());
    frame.extend(header);
    frame.extend(ports.0.to_be_bytes());
    frame.extend(ports.1.to_be_bytes());
    frame.extend([0, 8, 0, 0]);
    frame
}
