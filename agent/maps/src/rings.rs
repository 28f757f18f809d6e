//! The rings by which programs tell what becomes of packets and where room is missing: opened,
//! waited for and drained. What the records mean is left to the reader.

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    time::Duration,
};

use aya::{
    maps::{
        Map, MapData, PerfEventArray,
        perf::{PerfEvent, PerfEventArrayBuffer},
    },
    util::online_cpus,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::{
    error::DatapathError,
    pins::{Pins, bpffs},
};

/// What programs tell by rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    /// What becomes of packets.
    Events,
    /// Where there is no room, seldom.
    Signals,
}

impl Ring {
    fn map(self) -> &'static str {
        match self {
            Self::Events => "cilium_events",
            Self::Signals => "cilium_signals",
        }
    }

    /// Pages of each CPU's, a power of two.
    fn pages(self) -> usize {
        match self {
            Self::Events => 64,
            Self::Signals => 1,
        }
    }
}

/// What a program wrote to a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A record, see [`volvox_bpf_progs::layouts::Record`] and
    /// [`volvox_bpf_progs::layouts::SignalRecord`]; padding may follow it.
    Sample {
        /// CPU that wrote it.
        cpu: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Records that did not fit into the ring.
    Lost {
        /// CPU that wrote them.
        cpu: u32,
        /// How many.
        count: u64,
    },
}

/// What the datapath tells while somebody listens, on each CPU.
///
/// The kernel serves one reader: who opens it last gets the records. Without a reader, writing one
/// costs the programs next to nothing.
pub struct Rings {
    rings: Vec<(u32, PerfEventArrayBuffer<MapData>)>,
}

impl Rings {
    /// The right to read records of packets while no agent does: `None` if somebody has it. An agent
    /// takes what it needs without it.
    pub fn hold(bpf_root: &Path) -> Result<Option<File>, DatapathError> {
        let maps = Pins::at(bpf_root).maps();
        let taken = File::open(&maps).and_then(|directory| {
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(directory)),
                Err(Errno::WOULDBLOCK) => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        taken.map_err(|error| bpffs("take hold of", maps, error))
    }

    /// Records of packets.
    pub fn events(bpf_root: &Path) -> Result<Self, DatapathError> {
        Self::open(bpf_root, Ring::Events)
    }

    /// Signals, see [`volvox_bpf_progs::layouts::SignalRecord`].
    pub fn signals(bpf_root: &Path) -> Result<Self, DatapathError> {
        Self::open(bpf_root, Ring::Signals)
    }

    fn open(bpf_root: &Path, ring: Ring) -> Result<Self, DatapathError> {
        let path = Pins::at(bpf_root).map(ring.map());
        let failed = |cause: Box<dyn std::error::Error + Send + Sync>| {
            bpffs("listen to", path.clone(), std::io::Error::other(cause))
        };
        let map = MapData::from_pin(&path).map_err(|error| failed(error.into()))?;
        let mut array = PerfEventArray::try_from(Map::PerfEventArray(map))
            .map_err(|error| failed(error.into()))?;
        let cpus = online_cpus().map_err(|(_, error)| failed(error.into()))?;
        let rings = cpus
            .into_iter()
            .map(|cpu| Ok((cpu, array.open(cpu, Some(ring.pages()))?)))
            .collect::<Result<_, aya::maps::perf::PerfBufferError>>()
            .map_err(|error| failed(error.into()))?;
        Ok(Self { rings })
    }

    /// What to poll for records that come in.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|(_, ring)| ring.as_fd())
    }

    /// Waits until there is something to read; false when the time is over before.
    pub fn wait(&self, longest: Duration) -> Result<bool, Errno> {
        let mut rings: Vec<_> =
            self.fds().map(|ring| PollFd::from_borrowed_fd(ring, PollFlags::IN)).collect();
        let longest = Timespec::try_from(longest).map_err(|_| Errno::INVAL)?;
        match poll(&mut rings, Some(&longest)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes all that was written, CPU by CPU.
    pub fn drain(&mut self, mut take: impl FnMut(Event)) {
        for (cpu, ring) in &mut self.rings {
            let cpu = *cpu;
            ring.for_each(|event| {
                take(match event {
                    PerfEvent::Sample { head, tail } => {
                        Event::Sample { cpu, bytes: [head, tail].concat() }
                    }
                    PerfEvent::Lost { count } => Event::Lost { cpu, count },
                });
            });
        }
    }
}
