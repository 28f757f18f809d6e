//! Errors of the state directory: each names the file, the cause and the remedy.

/// What is wrong with something on disk, and what becomes of it.
///
/// Files are named relative to the state directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It could not be read.
    #[error("{file} cannot be read: {cause}; check its rights and the disk")]
    Unreadable {
        /// The file or directory.
        file: String,
        /// The system's words.
        cause: String,
    },
    /// No JSON object, or one of another kind.
    #[error("{file} is torn or not what its name says: {cause}; {REBUILT}")]
    Syntax {
        /// The file.
        file: String,
        /// Where the parser stopped and why.
        cause: String,
    },
    /// A field that cannot be what it says.
    #[error("{file}: field {field}: {cause}; {REBUILT}")]
    Field {
        /// The file.
        file: String,
        /// The field's path.
        field: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The content is not what was written.
    #[error(
        "{file} was changed or torn: its checksum says {written}, its content {computed}; {REBUILT}"
    )]
    Checksum {
        /// The file.
        file: String,
        /// The checksum in it.
        written: String,
        /// The checksum of it.
        computed: String,
    },
    /// A header form whose line of data cannot be used.
    #[error("{file}: {cause}; {REBUILT}")]
    Header {
        /// The file.
        file: String,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// An endpoint's directory without a record.
    #[error("{dir} holds no ep_config.json, ep_config.h or lxc_config.h; {REBUILT}")]
    NoRecord {
        /// The directory.
        dir: String,
    },
    /// A record in the directory of another endpoint.
    #[error("{dir} holds the record of endpoint {id}; {REBUILT}")]
    Misplaced {
        /// The directory.
        dir: String,
        /// The endpoint that the record is about.
        id: u16,
    },
    /// A record in a state directory of another node.
    #[error("{dir} is of node {node}: it is kept in quarantine, and nothing of it is used")]
    AnotherNode {
        /// The directory.
        dir: String,
        /// The node.
        node: String,
    },
}

impl StateError {
    /// Whether nothing is known of what stands there: it is neither absent nor damaged.
    pub fn is_unread(&self) -> bool {
        matches!(self, Self::Unreadable { .. })
    }
}

/// What becomes of a bad record, and what to do if that fails.
const REBUILT: &str = "it is kept in quarantine and rebuilt from the kernel; \
                       if that fails, recreate the pod or restore the file from a backup";
