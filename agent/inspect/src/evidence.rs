//! What earlier runs left behind: of each its flight recorder and how it restored, so that a crash loop
//! can be looked into afterwards; and endpoints that were lost since the machine booted.
//!
//! All of it is in `lives` in the state directory: `N.ring`, `N.json` and `lost.json`. It is bounded:
//! the last eight lives, and of those before the ones that ended badly, as far as there is room; of a
//! ring that is over only its last part is kept. Nothing here keeps the agent from its work.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use volvox_actors::{
    host::flight::{self, Life},
    model::EndpointId,
    restore::{RestoreOutcome, RestoreReport},
};

/// The directory's name.
pub const DIRECTORY: &str = "lives";
/// Lives that are kept however they ended.
const LIVES: usize = 8;
/// Bytes that the rings take in all.
const BYTES_MAX: u64 = 16 << 20;
/// Of a ring's 16 parts, how many are kept: the last moments of that life.
const PARTS: usize = 2;
/// Endpoints that are listed as lost at most; the oldest go.
const LOST_MAX: usize = 1000;
/// What a hole in a file is made of.
const PAGE: usize = 4096;

/// How a life began and restored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct PastLife {
    /// Lives are counted in each state directory, from 1.
    pub number: u64,
    /// The agent's version.
    pub version: String,
    /// The machine's boot.
    pub boot_id: String,
    /// When it began, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// How it restored.
    pub report: Arc<RestoreReport>,
}

/// An endpoint that a life could not bring back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Lost {
    /// Its number.
    pub id: EndpointId,
    /// Its pod, `namespace/name`, if that was known.
    pub pod: Option<String>,
    /// The life that found it lost.
    pub life: u64,
    /// Why.
    pub error: String,
    /// The machine's boot in which that was.
    pub boot_id: String,
}

/// The directory of what earlier runs left.
#[derive(Clone, Debug)]
pub struct Evidence(PathBuf);

impl Evidence {
    /// Below that state directory.
    pub fn at(state_dir: &Path) -> Self {
        Self(state_dir.join(DIRECTORY))
    }

    /// The ring of a life that is over.
    pub fn ring(&self, life: u64) -> PathBuf {
        self.0.join(format!("{life}.ring"))
    }

    /// Keeps the ring of a life; the file is moved.
    pub fn keep(&self, ring: &Path, life: u64) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        fs::rename(ring, self.ring(life))
    }

    /// Keeps how a life restored, and whom it lost.
    pub fn note(&self, life: &PastLife) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        self.write(&format!("{}.json", life.number), life)?;
        let mut lost = self.lost(&life.boot_id);
        lost.retain(|it| it.life != life.number);
        let failed =
            life.report.endpoints.iter().filter(|(_, it)| it.fate == RestoreOutcome::Failed);
        let failed = failed.map(|(id, endpoint)| Lost {
            id: *id,
            pod: endpoint.pod.clone(),
            life: life.number,
            error: endpoint.error.clone().unwrap_or_default(),
            boot_id: life.boot_id.clone(),
        });
        // A life that is killed before it has cleaned up leaves the next ones to find the same: the
        // first of them lost it.
        let failed: Vec<_> = failed
            .filter(|new| {
                let is_same =
                    |it: &Lost| (it.id, &it.pod, &it.error) == (new.id, &new.pod, &new.error);
                !lost.iter().any(is_same)
            })
            .collect();
        lost.extend(failed);
        lost.drain(..lost.len().saturating_sub(LOST_MAX));
        self.write("lost.json", &lost)
    }

    /// How a life restored, if that is known.
    pub fn life(&self, number: u64) -> Option<PastLife> {
        self.read(&format!("{number}.json"))
    }

    /// The lives of which something is kept, the newest last.
    pub fn lives(&self) -> Vec<u64> {
        self.files().into_keys().collect()
    }

    /// Endpoints that were lost in that boot of the machine.
    pub fn lost(&self, boot_id: &str) -> Vec<Lost> {
        let mut lost: Vec<Lost> = self.read("lost.json").unwrap_or_default();
        lost.retain(|it| it.boot_id == boot_id);
        lost
    }

    /// Makes rings small, and removes what goes beyond the bounds.
    pub fn tidy(&self) -> io::Result<()> {
        let files = self.files();
        let mut rings = Vec::new();
        for (&life, paths) in &files {
            let ring = self.ring(life);
            if paths.contains(&ring) {
                let ended_well = shrink(&ring)?;
                rings.push((life, ended_well, fs::metadata(&ring)?.blocks() * 512));
            }
        }
        for life in superfluous(files.keys().copied().collect(), &rings) {
            files[&life].iter().try_for_each(fs::remove_file)?;
        }
        Ok(())
    }

    /// What there is of each life.
    fn files(&self) -> BTreeMap<u64, Vec<PathBuf>> {
        let mut lives = BTreeMap::<u64, Vec<PathBuf>>::new();
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_ours = path.extension().is_some_and(|it| it == "ring" || it == "json");
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            if let Some(number) = number.filter(|_| is_ours) {
                lives.entry(number).or_default().push(path);
            }
        }
        lives
    }

    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let (draft, path) = (self.0.join(format!("{name}.tmp")), self.0.join(name));
        fs::write(&draft, serde_json::to_vec(value)?)?;
        fs::rename(draft, path)
    }

    /// What cannot be read is evidence no more.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.0.join(name)).ok()?).ok()
    }
}

/// Lives of which nothing is kept any more: those before the last ones that ended well, and the oldest
/// where rings take more than they may.
fn superfluous(lives: Vec<u64>, rings: &[(u64, bool, u64)]) -> Vec<u64> {
    let last = lives.len().saturating_sub(LIVES);
    let ring = |life: &u64| rings.iter().find(|(number, ..)| number == life);
    let is_bad = |life: &u64| ring(life).is_some_and(|(_, ended_well, _)| !ended_well);
    let (mut removed, mut retained): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    for (nth, life) in lives.into_iter().enumerate() {
        if nth < last && !is_bad(&life) { removed.push(life) } else { retained.push(life) }
    }
    let mut bytes: u64 = retained.iter().filter_map(|life| Some(ring(life)?.2)).sum();
    for life in retained {
        if bytes <= BYTES_MAX {
            break;
        }
        bytes -= ring(&life).map_or(0, |ring| ring.2);
        removed.push(life);
    }
    removed
}

/// Gives back what a ring that is over does not need; whether its life ended well.
fn shrink(ring: &Path) -> io::Result<bool> {
    let content = fs::read(ring)?;
    let ended_well = flight::read_part(content.as_slice(), u64::MAX, 0)
        .map(|flight| flight.life.ended_unix_ns > 0)
        .unwrap_or(false);
    let spared = flight::older(content.as_slice(), PARTS).unwrap_or_default();
    let spared = spared.into_iter().map(|words| words.start * 8..words.end * 8);
    let is_spared = |page: usize| {
        let (start, end) = (page * PAGE, ((page + 1) * PAGE).min(content.len()));
        let within = spared.clone().any(|bytes| bytes.start <= start && end <= bytes.end);
        within || content[start..end].iter().all(|byte| *byte == 0)
    };
    let holes: Vec<usize> =
        (0..content.len().div_ceil(PAGE)).filter(|&page| is_spared(page)).collect();
    // What has its holes already takes as little room as it can.
    let file = File::options().write(true).open(ring)?;
    let pages = (content.len() / PAGE - holes.len()) as u64;
    if file.metadata()?.blocks() * 512 > (pages + 1) * PAGE as u64 {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for page in holes {
            fallocate(&file, flags, (page * PAGE) as u64, PAGE as u64)?;
        }
    }
    Ok(ended_well)
}

/// When a life ended, in words.
pub fn end(life: &Life) -> &'static str {
    match life {
        Life { previous: false, .. } => "goes on",
        Life { ended_unix_ns: 0, .. } => "was killed",
        _ => "ended as it should",
    }
}

#[cfg(test)]
mod tests {
    use volvox_actors::restore::EndpointReport;

    use super::*;

    fn life(number: u64, boot: &str, failed: &[u16]) -> PastLife {
        let endpoint = |id: &u16| {
            let report = EndpointReport {
                pod: Some("default/lost".to_owned()),
                fate: RestoreOutcome::Failed,
                source: "kernel".to_owned(),
                notes: Vec::new(),
                error: Some("its interface is gone".to_owned()),
            };
            (EndpointId(*id), report)
        };
        let endpoints = failed.iter().map(endpoint).collect();
        let report = RestoreReport { endpoints, ..RestoreReport::default() };
        let report = Arc::new(report);
        PastLife { number, boot_id: boot.to_owned(), report, ..PastLife::default() }
    }

    #[test]
    fn an_endpoint_is_listed_as_lost_until_the_machine_boots() {
        let dir = tempfile::tempdir().unwrap();
        let evidence = Evidence::at(dir.path());
        let lost =
            |boot| evidence.lost(boot).iter().map(|it| (it.id.0, it.life)).collect::<Vec<_>>();
        evidence.note(&life(2, "a", &[7])).unwrap();
        (3..30).for_each(|number| evidence.note(&life(number, "a", &[])).unwrap());
        evidence.note(&life(30, "a", &[9, 8])).unwrap();
        // Told again, it is one.
        evidence.note(&life(30, "a", &[9, 8])).unwrap();
        evidence.tidy().unwrap();
        assert_eq!(lost("a"), [(7, 2), (8, 30), (9, 30)]);
        assert_eq!(evidence.lives().first(), Some(&23));
        // Found again by the next run, it is still the loss of the first.
        evidence.note(&life(31, "a", &[9])).unwrap();
        assert_eq!(lost("a"), [(7, 2), (8, 30), (9, 30)]);
        evidence.note(&life(32, "b", &[])).unwrap();
        assert_eq!((lost("a"), lost("b")), (vec![], vec![]));
    }

    #[test]
    fn lives_that_ended_badly_stay_as_long_as_there_is_room() {
        let rings =
            |bytes: u64| (1..=20).map(|life| (life, life % 2 == 0, bytes)).collect::<Vec<_>>();
        let lives: Vec<u64> = (1..=20).collect();
        assert_eq!(superfluous(lives.clone(), &rings(4096)), [2, 4, 6, 8, 10, 12]);
        let left = BYTES_MAX / 4;
        let removed = superfluous(lives, &rings(left));
        assert_eq!(removed.len(), 16);
        assert!((17..=20).all(|life| !removed.contains(&life)), "{removed:?}");
    }
}
