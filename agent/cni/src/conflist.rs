//! The file that makes container runtimes call the plugin. The agent installs and removes it, and
//! sets the configurations of other plugins aside.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    composition::{Composition, CustomConflist},
    config::PLUGIN_TYPE,
};

/// Name of the file that runtimes read, where only a directory is told; they take the first in the
/// directory's order.
pub const CONFLIST_FILE: &str = "05-volvox.conflist";
/// How a file's name has to end for a runtime to take it for a list.
const LIST_SUFFIX: &str = "conflist";
/// What the list calls its network.
pub(super) const NETWORK: &str = "volvox";
/// What a configuration that was there before is renamed with, so that no runtime takes it.
const BACKUP_SUFFIX: &str = "volvox_bak";
/// What is being written has this suffix: it is left only by a writer that was killed.
const DRAFT_SUFFIX: &str = "tmp";

/// The list of plugins that makes runtimes call `volvox-cni`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflist {
    /// The agent's socket.
    pub socket: PathBuf,
    /// Where deletions go while the agent is dead.
    pub delete_queue: PathBuf,
    /// Whether the plugin logs every step.
    pub debug: bool,
    /// Where the plugin logs.
    pub log_file: Option<PathBuf>,
    /// What stands beside the plugin.
    pub composition: Composition,
}

/// Why the list cannot be installed or removed, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ConflistError {
    /// The system refuses.
    #[error(
        "{op} {path}: {source}; see that --write-cni-conf-when-ready is writable and has space left"
    )]
    Refused {
        /// The step, as a verb.
        op: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The plugin before ours has not written its configuration.
    #[error(
        "{directory} has no configuration of the network {network} yet: it is written once that is \
         there; see that its plugin runs on this node, and --cni-chaining-target"
    )]
    NoNetwork {
        /// The network.
        network: String,
        /// Where it was looked for.
        directory: String,
    },
    /// Plugins of that version do not hear of each other.
    #[error(
        "the network {network} is of CNI version {version}, which volvox-cni does not speak: give its \
         configuration a cniVersion from 0.3.0 to 1.1.0"
    )]
    Version {
        /// The network.
        network: String,
        /// Its version.
        version: String,
    },
}

impl Conflist {
    /// Our plugin's entry.
    fn entry(&self) -> Value {
        let mut plugin = json!({
            "type": PLUGIN_TYPE,
            "socket-path": self.socket,
            "delete-queue": self.delete_queue,
            "enable-debug": self.debug,
        });
        if let Some(path) = &self.log_file {
            plugin["log-file"] = json!(path);
        }
        if let Some(mode) = self.composition.chaining_mode() {
            plugin["chaining-mode"] = json!(mode);
        }
        plugin
    }

    /// As JSON, to stand at that path, and as it is written.
    fn render(&self, path: &Path) -> Result<(Value, Vec<u8>), ConflistError> {
        let list = self.composition.list(self.entry(), path)?;
        let text = match &self.composition {
            Composition::Custom(custom) => custom.text().to_owned(),
            _ => format!("{list:#}\n").into_bytes(),
        };
        Ok((list, text))
    }

    /// Writes it to that file, or into that directory, in one step: a runtime sees no half of it, and
    /// one that reads it already is not disturbed if nothing changed. One of ours under another name,
    /// from before the name was changed, goes. With `exclusive`, other configurations are renamed so
    /// that no runtime takes them; [`uninstall`](Self::uninstall) gives them their names back. Without
    /// it, one to which others have added plugins of theirs stays.
    pub fn install(&self, place: &Path, exclusive: bool) -> Result<(), ConflistError> {
        let path = file(place);
        let dir = directory(&path);
        let (list, text) = self.render(&path)?;
        let found = fs::read(&path).unwrap_or_default();
        if found != text && (exclusive || !is_extended(&found, &list)) {
            fs::create_dir_all(dir).map_err(failed("create", dir))?;
            replace(&path, &text).map_err(failed("write", &path))?;
        }
        for other in configurations(dir)?.into_iter().filter(|other| *other != path) {
            if is_ours(&other) {
                fs::remove_file(&other).map_err(failed("remove", &other))?;
                tracing::info!(path = %other.display(), now = %path.display(), "removed our CNI configuration of before");
            } else if exclusive {
                let backup = append(&other, BACKUP_SUFFIX);
                fs::rename(&other, &backup).map_err(failed("rename", &other))?;
                tracing::info!(from = %other.display(), to = %backup.display(), "set another CNI configuration aside");
            }
        }
        Ok(())
    }

    /// The list as the agent was told to write it, if it is there and has our plugin called.
    pub fn installed(place: &Path) -> Option<PathBuf> {
        Some(file(place)).filter(|path| calls_ours(path))
    }

    /// Whether runtimes read a list of plugins from that file: its name has to end so.
    pub fn is_read(place: &Path) -> bool {
        has_suffix(&file(place), &[LIST_SUFFIX])
    }

    /// The directory in which runtimes find it.
    pub fn directory(place: &Path) -> PathBuf {
        directory(&file(place)).to_owned()
    }

    /// The configuration of somebody else that runtimes take instead of ours: the first of the
    /// directory's order, if that is not the list at `place`.
    pub fn preceded_by(place: &Path) -> Option<PathBuf> {
        let path = file(place);
        let first = configurations(directory(&path)).ok()?.into_iter().next()?;
        (first != path && !is_ours(&first)).then_some(first)
    }

    /// Removes our list, under whatever name, and gives those that were set aside their names back.
    /// Answers what it did.
    pub fn uninstall(place: &Path) -> Result<Vec<String>, ConflistError> {
        let mut done = Vec::new();
        let path = file(place);
        let dir = directory(&path);
        let before = configurations(dir)?.into_iter().filter(|other| *other != path);
        let ours: Vec<_> = before.filter(|other| is_ours(other)).collect();
        for path in [append(&path, DRAFT_SUFFIX), path.clone()].into_iter().chain(ours) {
            match fs::remove_file(&path) {
                Ok(()) => done.push(format!("removed {}", path.display())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("remove", &path)(error)),
            }
        }
        for backup in files(dir)?.into_iter().filter(|file| has_suffix(file, &[BACKUP_SUFFIX])) {
            let original = backup.with_extension("");
            // Somebody may have written it anew meanwhile: theirs is newer.
            if !original.exists() {
                fs::rename(&backup, &original).map_err(failed("rename", &backup))?;
                done.push(format!("gave {} its name back", original.display()));
            }
        }
        Ok(done)
    }
}

/// The file that is meant: the flag may also name a directory.
fn file(place: &Path) -> PathBuf {
    let names_a_directory = place.as_os_str().as_encoded_bytes().ends_with(b"/") || place.is_dir();
    if names_a_directory { place.join(CONFLIST_FILE) } else { place.to_owned() }
}

/// The directory of a file; the working directory if it names none.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file is a list that an agent wrote of itself: it has what ours has, and nothing else.
fn is_ours(path: &Path) -> bool {
    let text = fs::read(path).unwrap_or_default();
    let Ok(list) = serde_json::from_slice::<Value>(&text) else { return false };
    let compositions = [Composition::Alone, Composition::Portmap, Composition::Flannel];
    compositions.iter().any(|composition| is_of(composition, &list, path))
}

fn is_of(composition: &Composition, list: &Value, path: &Path) -> bool {
    let Some(own) = list["plugins"].as_array().and_then(|all| all.iter().find(|it| is_entry(it)))
    else {
        return false;
    };
    let made = composition.list(own.clone(), path);
    let version = &list["cniVersion"];
    made.is_ok_and(|mut made| {
        made["cniVersion"] = version.clone();
        made == *list
    })
}

/// Whether a plugin's entry is one that an agent writes.
fn is_entry(plugin: &Value) -> bool {
    let written =
        ["type", "socket-path", "delete-queue", "enable-debug", "log-file", "chaining-mode"];
    let keys = plugin.as_object().map(|all| all.keys().all(|key| written.contains(&key.as_str())));
    plugin["type"] == PLUGIN_TYPE && plugin["delete-queue"].is_string() && keys == Some(true)
}

/// Whether runtimes that take that file call our plugin.
fn calls_ours(path: &Path) -> bool {
    let text = fs::read(path).unwrap_or_default();
    CustomConflist::parse(&text).is_ok()
}

/// Whether what is there has all of a list, in its order, and plugins of others between: `istio-cni`
/// adds itself so.
fn is_extended(found: &[u8], list: &Value) -> bool {
    let Ok(found) = serde_json::from_slice::<Value>(found) else { return false };
    let (Some(all), Some(own)) = (found["plugins"].as_array(), list["plugins"].as_array()) else {
        return false;
    };
    let mut rest = all.iter();
    found["name"] == list["name"] && own.iter().all(|plugin| rest.any(|other| other == plugin))
}

/// The files that a runtime takes for configurations.
fn configurations(dir: &Path) -> Result<Vec<PathBuf>, ConflistError> {
    let mut found = files(dir)?;
    found.retain(|file| has_suffix(file, &["conf", "conflist", "json"]));
    Ok(found)
}

/// The same, and those that were set aside.
pub(super) fn configurations_and_backups(dir: &Path) -> Result<Vec<PathBuf>, ConflistError> {
    let mut found = files(dir)?;
    found.retain(|file| has_suffix(file, &["conf", "conflist", "json", BACKUP_SUFFIX]));
    Ok(found)
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, ConflistError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("read", dir))?,
    };
    let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(failed("read", dir))?;
    paths.sort();
    Ok(paths)
}

fn has_suffix(file: &Path, suffixes: &[&str]) -> bool {
    file.extension().is_some_and(|suffix| suffixes.iter().any(|expected| suffix == *expected))
}

fn append(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = append(path, DRAFT_SUFFIX);
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

fn failed(op: &'static str, path: &Path) -> impl Fn(io::Error) -> ConflistError {
    let path = path.display().to_string();
    move |source| ConflistError::Refused { op, path: path.clone(), source }
}
