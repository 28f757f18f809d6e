//! The layers below the command line: environment and directory of settings.
//! For each setting it is known which layer said it, so that an error can name the place.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Command, parser::ValueSource};

use super::{ConfigError, cilium_keys};

/// Prefixes of environment variables, the weaker first.
const PREFIXES: [&str; 2] = ["CILIUM", "VOLVOX"];

/// Longest file of the directory that is read, bytes: as long as a ConfigMap may be.
const FILE_MAX: u64 = 1 << 20;

/// Where a setting was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere.
    Default,
    /// A file of `--config-dir`.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// The command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::CommandLine => f.write_str("the command line"),
        }
    }
}

/// A setting that was said elsewhere than on the command line.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    flag: String,
    value: String,
    origin: Origin,
}

impl Setting {
    pub(super) fn argument(&self) -> OsString {
        format!("--{}={}", self.flag, self.value).into()
    }
}

/// Settings of the environment. An empty variable says nothing.
pub(super) fn environment(
    command: &Command,
    get: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Setting>, ConfigError> {
    let mut settings = Vec::new();
    for (prefix, (said, flag)) in
        PREFIXES.iter().flat_map(|prefix| flags(command).map(move |f| (prefix, f)))
    {
        let name = format!("{prefix}_{}", said.to_uppercase().replace('-', "_"));
        let Some(value) = get(&name).filter(|value| !value.is_empty()) else { continue };
        let origin = Origin::Environment(name);
        let Ok(value) = value.into_string() else { return Err(ConfigError::NoText(origin)) };
        settings.push(Setting { flag: flag.to_owned(), value, origin });
    }
    Ok(settings)
}

/// The directory of settings, which the directory itself cannot name.
pub(super) fn config_dir(own: &ArgMatches, environment: &[Setting]) -> Option<PathBuf> {
    const FLAG: &str = "config-dir";
    let given = own.value_source("config_dir") == Some(ValueSource::CommandLine);
    let path = if given {
        own.get_one::<PathBuf>("config_dir").cloned()
    } else {
        environment.iter().rfind(|setting| setting.flag == FLAG).map(|it| it.value.clone().into())
    };
    path.filter(|path| !path.as_os_str().is_empty())
}

/// Settings of the directory, and warnings about files that are none. An empty file says nothing.
pub(super) fn directory(
    command: &Command,
    dir: Option<&Path>,
) -> Result<(Vec<Setting>, Vec<String>), ConfigError> {
    let Some(dir) = dir else { return Ok(Default::default()) };
    let (settings, others) = files(command, dir)?;
    let remarks = cilium_keys::remarks(&others).into_iter();
    Ok((settings, remarks.map(|it| format!("--config-dir {}: {it}", dir.display())).collect()))
}

/// What a directory that was written for Cilium asks for and is not there: first what is in force for
/// packets, then the rest.
pub(super) fn cilium_remarks(
    command: &Command,
    dir: &Path,
) -> Result<(Vec<String>, Vec<String>), ConfigError> {
    let (_, others) = files(command, dir)?;
    let in_force = |key: &String| cilium_keys::is_in_force_for_packets(key);
    let (for_packets, rest) = others.into_iter().partition(|(key, _)| in_force(key));
    Ok((cilium_keys::remarks(&for_packets), cilium_keys::remarks(&rest)))
}

/// Settings of a directory, and what of it is no flag.
fn files(
    command: &Command,
    dir: &Path,
) -> Result<(Vec<Setting>, BTreeMap<String, String>), ConfigError> {
    let (mut settings, mut others) = (Vec::new(), BTreeMap::new());
    for (name, path) in list(dir).map_err(|cause| config_dir_error(dir, cause))? {
        let value = read(&path).map_err(|cause| config_dir_error(&path, cause))?;
        let value = value.trim_end_matches(['\n', '\r']).to_owned();
        match flags(command).find(|(said, _)| *said == name) {
            None => drop(others.insert(name, value)),
            Some(_) if value.is_empty() => {}
            Some((_, flag)) => {
                let flag = flag.to_owned();
                settings.push(Setting { flag, value, origin: Origin::File(path) });
            }
        }
    }
    Ok((settings, others))
}

/// Finds the setting that a parser stumbled over, and names where it was said.
pub(super) fn blame(command: &Command, settings: &[Setting], error: clap::Error) -> ConfigError {
    for setting in settings {
        let alone = [OsString::from("volvox-agent"), setting.argument()];
        if let Err(error) = command.clone().try_get_matches_from(alone) {
            let text = error.to_string();
            let (said, _) = text.split_once("\n\nFor more").unwrap_or((&text, ""));
            let said: Vec<_> =
                said.split_whitespace().skip_while(|word| *word == "error:").collect();
            let cause = said.join(" ");
            let Setting { flag, value, origin } = setting.clone();
            return ConfigError::Value { origin, flag, value, cause };
        }
    }
    error.into()
}

/// Where each setting was said.
pub(super) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// From the command line's own arguments and the lower layers, the weaker first.
    pub(super) fn new(own: &ArgMatches, lower: &[Setting]) -> Self {
        let lower = lower.iter().map(|setting| (setting.flag.clone(), setting.origin.clone()));
        let given =
            own.ids().filter(|id| own.value_source(id.as_str()) == Some(ValueSource::CommandLine));
        let own = given.map(|id| (id.as_str().replace('_', "-"), Origin::CommandLine));
        Self(lower.chain(own).collect())
    }

    /// Where that setting was said.
    pub(super) fn of(&self, flag: &str) -> Origin {
        self.0.get(flag).cloned().unwrap_or(Origin::Default)
    }
}

/// By what each flag may be called, and what it is called.
fn flags(command: &Command) -> impl Iterator<Item = (&str, &str)> {
    command.get_arguments().flat_map(|arg| {
        let others = arg.get_all_aliases().unwrap_or_default();
        let all = arg.get_long().into_iter().chain(others);
        all.filter_map(|said| Some((said, arg.get_long()?)))
    })
}

/// Files of the directory, hidden ones left out: a mounted ConfigMap keeps its versions in those.
fn list(dir: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && fs::metadata(entry.path())?.is_file() {
            files.insert(name, entry.path());
        }
    }
    Ok(files)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = fs::File::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if length as u64 > FILE_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_MAX} bytes")));
    }
    Ok(text)
}

fn config_dir_error(path: &Path, cause: io::Error) -> ConfigError {
    ConfigError::ConfigDir { path: path.to_owned(), cause }
}
