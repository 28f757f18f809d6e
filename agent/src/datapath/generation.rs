//! Generations of the endpoints' programs: which one is desired, and how it is loaded, pinned and
//! made current. It leaves to others how hooks come to run it.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use volvox_actors::ports::{Hook, KernelError};
use volvox_bpf_progs::{Features, OBJECT, build_hash, layouts::NodeRow, object};
use volvox_maps::{
    error::{DatapathError, refused},
    pins::{HOOKS, Pins, bpffs, make_dir, names, program_name, put_dir, remove_dir, unpin},
    sys::{self, Map},
};

use super::{loader, maps::Maps, services};

/// Suffix of the directory of a generation that is being made, or that one just replaced.
const INCOMING: &str = "_new";

/// A loaded program.
#[derive(Debug)]
pub(super) struct Program {
    fd: OwnedFd,
    pub(super) id: u32,
    map_ids: Vec<u32>,
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Program {
    pub(super) fn of(fd: OwnedFd) -> io::Result<Self> {
        let sys::Program { id, map_ids, .. } = sys::program_info(&fd)?;
        Ok(Self { fd, id, map_ids })
    }

    /// The maps that it uses.
    fn used(&self) -> impl Iterator<Item = Map> {
        self.map_ids.iter().filter_map(|id| Map::by_id(*id).ok())
    }

    /// Whether it uses any of the maps that are open.
    pub(super) fn shares(&self, maps: &Maps) -> bool {
        self.map_ids.iter().any(|id| maps.ids.iter().any(|(_, known)| known == id))
    }

    /// Whether it uses the maps that are open, not ones that those replaced.
    pub(super) fn uses(&self, maps: &Maps) -> bool {
        let others = self.used().filter(|map| {
            let id = map.info().id;
            maps.ids.iter().all(|(_, known)| *known != id)
        });
        !others.into_iter().any(|map| maps.has_named_like(&map))
    }
}

/// The programs of all endpoints, one for each hook, loaded and pinned together.
#[derive(Debug)]
pub(super) struct Generation {
    /// In the order of [`HOOKS`]; none where the kernel refused them, and there were none before.
    programs: Option<[Program; 2]>,
    /// Why they are not the ones desired, if they are not.
    refused: Option<String>,
}

impl Generation {
    fn of(programs: [Program; 2]) -> Self {
        Self { programs: Some(programs), refused: None }
    }

    /// The program of a hook.
    pub(super) fn program(&self, hook: Hook) -> Result<&Program, KernelError> {
        let nth = HOOKS.iter().position(|known| *known == hook).unwrap_or_default();
        self.programs.as_ref().map(|programs| &programs[nth]).ok_or_else(|| {
            let why = self.refused.clone().unwrap_or_default();
            refused("attach", "programs of endpoints", &io::Error::other(why))
        })
    }

    /// The number of a hook's program, if there is one.
    pub(super) fn id(&self, hook: Hook) -> Option<u32> {
        self.program(hook).ok().map(|program| program.id)
    }

    /// Why its programs are not the ones desired, if they are not.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    fn programs(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().flatten()
    }

    /// The maps that its programs use.
    pub(super) fn maps(&self) -> Vec<Map> {
        let mut maps: Vec<_> = self.programs().flat_map(Program::used).collect();
        maps.sort_unstable_by_key(|map| map.info().id);
        maps.dedup_by_key(|map| map.info().id);
        maps
    }

    /// Whether its programs use the maps that are open, not ones that those replaced.
    fn uses(&self, maps: &Maps) -> bool {
        self.programs().all(|program| program.uses(maps))
    }

    /// Opens a generation by its pins; `None` unless both programs are there.
    fn pinned(directory: &Path) -> Result<Option<Self>, DatapathError> {
        let open = |hook| {
            let path = directory.join(program_name(hook));
            match sys::get(&path).and_then(Program::of) {
                Ok(program) => Ok(Some(program)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(bpffs("open", path, error)),
            }
        };
        let (from, to) = (open(Hook::FromContainer)?, open(Hook::ToContainer)?);
        Ok(from.zip(to).map(|(from, to)| Self::of([from, to])))
    }
}

/// Which programs are desired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Build {
    hash: [u8; 32],
    features: Features,
}

impl Build {
    pub(super) fn of(features: Features) -> Self {
        Self { hash: build_hash(), features }
    }

    /// What its programs are loaded with.
    pub(super) fn features(&self) -> Features {
        self.features
    }

    /// The directory that holds its pins.
    pub(super) fn directory(&self, pins: &Pins) -> PathBuf {
        pins.programs().join(self.name())
    }

    /// Name of that directory.
    fn name(&self) -> String {
        format!("{}_{:04x}", object::build_name(), self.features.bits())
    }

    /// Whether the node's row says that every link runs this build.
    fn is_current(&self, row: &NodeRow) -> bool {
        row.build_hash == self.hash && row.features == self.features.bits()
    }

    fn record(&self, maps: &Maps) -> Result<(), DatapathError> {
        let row = maps.node.get(&0)?.unwrap_or_default();
        if !self.is_current(&row) {
            let row = NodeRow { build_hash: self.hash, features: self.features.bits(), ..row };
            maps.node.put(&0, &row)?;
        }
        Ok(())
    }
}

/// The generations on the BPF file system.
pub(super) struct Generations<'a> {
    pub(super) pins: &'a Pins,
    pub(super) maps: &'a Maps,
    pub(super) build: Build,
}

impl Generations<'_> {
    /// The generation desired. Unless it is there and current already, it is loaded if need be, and
    /// `switch` is called to have every hook run it. Killed anywhere, the next call goes on.
    pub(super) fn open(
        &self,
        switch: impl FnOnce(&Arc<Generation>) -> Result<(), DatapathError>,
    ) -> Result<Arc<Generation>, DatapathError> {
        let pinned = Generation::pinned(&self.directory())?.filter(|pinned| pinned.uses(self.maps));
        let recorded = self.maps.node.get(&0)?.is_some_and(|row| self.build.is_current(&row));
        match pinned {
            Some(generation) if recorded && self.others()?.is_empty() => {
                return Ok(Arc::new(generation));
            }
            _ => services::complete(self.maps)?,
        }
        match pinned {
            Some(generation) => self.finish(Arc::new(generation), switch),
            None => self.load(switch).or_else(|error| self.fall_back(error)),
        }
    }

    /// Where the kernel refuses the programs, those of the life before go on, if they use the maps that are
    /// open. They are not switched: what runs them runs them already.
    fn fall_back(&self, error: DatapathError) -> Result<Arc<Generation>, DatapathError> {
        let DatapathError::Load { cause } = error else { return Err(error) };
        let mut before = None;
        for name in self.others()?.iter().filter(|name| !name.ends_with(INCOMING)) {
            let pinned = Generation::pinned(&self.pins.programs().join(name))?;
            before = before.or(pinned.filter(|pinned| pinned.uses(self.maps)));
        }
        let programs = before.and_then(|before| before.programs);
        let what = match programs {
            Some(_) => "those of the version before go on, for new endpoints too",
            None => "what is attached goes on as it is, and endpoints get none",
        };
        let refused = format!("this kernel refuses the programs of endpoints: {cause}; {what}");
        tracing::error!("{refused}");
        Ok(Arc::new(Generation { programs, refused: Some(refused) }))
    }

    /// Loads a fresh generation, and has every hook run it.
    pub(super) fn load(
        &self,
        switch: impl FnOnce(&Arc<Generation>) -> Result<(), DatapathError>,
    ) -> Result<Arc<Generation>, DatapathError> {
        let (incoming, place) = (self.incoming(), self.directory());
        remove(&incoming)?;
        make_dir(&incoming).map_err(|e| bpffs("make", incoming.clone(), e))?;
        let names = HOOKS.map(program_name);
        let loaded = loader::load(self.pins, self.build.features, OBJECT, &names, &incoming)?;
        let programs = <[Program; 2]>::try_from(loaded).expect("as many as were named");
        let generation = Arc::new(Generation::of(programs));
        put_dir(&incoming, &place).map_err(|e| bpffs("rename to", place, e))?;
        self.finish(generation, switch)
    }

    fn finish(
        &self,
        generation: Arc<Generation>,
        switch: impl FnOnce(&Arc<Generation>) -> Result<(), DatapathError>,
    ) -> Result<Arc<Generation>, DatapathError> {
        switch(&generation)?;
        self.build.record(self.maps)?;
        for name in self.others()? {
            remove(&self.pins.programs().join(name))?;
        }
        Ok(generation)
    }

    fn directory(&self) -> PathBuf {
        self.build.directory(self.pins)
    }

    fn incoming(&self) -> PathBuf {
        self.pins.programs().join(format!("{}{INCOMING}", self.build.name()))
    }

    /// Directories of generations that are not the one desired.
    fn others(&self) -> Result<Vec<String>, DatapathError> {
        let path = self.pins.programs();
        let mut others = names(&path).map_err(|e| bpffs("list", path, e))?;
        others.retain(|name| *name != self.build.name());
        Ok(others)
    }
}

/// The maps that any pinned generation uses, for those whose own pins were lost.
pub(super) fn maps_in_use(pins: &Pins) -> Vec<Map> {
    let directory = pins.programs();
    let generations = names(&directory).unwrap_or_default();
    generations
        .iter()
        .filter_map(|name| Generation::pinned(&directory.join(name)).ok().flatten())
        .flat_map(|generation| generation.maps())
        .collect()
}

/// Removes a generation's pins. Its programs stay as long as a link runs them.
pub(super) fn remove(directory: &Path) -> Result<(), DatapathError> {
    for name in names(directory).map_err(|e| bpffs("list", directory.to_owned(), e))? {
        let path = directory.join(name);
        unpin(&path).map_err(|e| bpffs("remove", path, e))?;
    }
    match remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(bpffs("remove", directory.to_owned(), error))
        }
        _ => Ok(()),
    }
}
