//! Errors of the configuration: each names the setting, where it was said, and what is wrong.

use std::{io, path::PathBuf};

use super::Origin;

/// Why the agent cannot run with what it was told.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The command line is wrong, or asked for help; the text is complete, see
    /// [`clap::Error::exit`].
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// A value from elsewhere is wrong.
    #[error("{origin} says {flag}={value:?}: {cause}")]
    Value {
        /// Where it was said.
        origin: Origin,
        /// The setting.
        flag: String,
        /// What was said.
        value: String,
        /// What is wrong with it.
        cause: String,
    },
    /// An environment variable that is no text.
    #[error("{0} is not UTF-8: set it again, or unset it")]
    NoText(Origin),
    /// Two settings that exclude each other.
    #[error("{one} contradicts {other}: {why}")]
    Contradiction {
        /// The one, its value and where it was said.
        one: String,
        /// The other, likewise.
        other: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A setting that this version cannot do.
    #[error("{setting} is not possible: {why}")]
    Unsupported {
        /// The setting, its value and where it was said.
        setting: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// The file of `--read-cni-conf` is of no use.
    #[error("--read-cni-conf={}: {why}", .path.display())]
    CniConf {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The directory of settings, or a file in it, cannot be read.
    #[error("--config-dir: {} cannot be read: {cause}; correct the name or its rights", .path.display())]
    ConfigDir {
        /// The directory or file.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
}
