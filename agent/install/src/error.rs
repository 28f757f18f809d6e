//! Why an installation fails: the thing, the cause, and the way out.

use volvox_packaging::ValueError;

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A value is not taken.
    #[error("{0}")]
    Value(#[from] ValueError),
    /// A file of values is not taken.
    #[error("{file}: {cause}")]
    File {
        /// Its path.
        file: String,
        /// What is wrong.
        cause: String,
    },
    /// The way to the server is not known.
    #[error("{source_of} cannot be used ({cause}): name another by --kubeconfig or --context")]
    Access {
        /// The kubeconfig, and the context in it.
        source_of: String,
        /// What is wrong.
        cause: String,
    },
    /// The server does not answer.
    #[error(
        "{server} does not answer ({cause}): see that it runs, or name another by --kubeconfig or --context"
    )]
    Unreachable {
        /// Its address, and who names it.
        server: String,
        /// What is wrong.
        cause: String,
    },
    /// The server does not do it.
    #[error("the API server refused to {doing}: {cause}{}", remedy(*.code, .cause))]
    Server {
        /// What it was asked to do.
        doing: String,
        /// What it says.
        cause: String,
        /// The status of its answer.
        code: u16,
    },
    /// Somebody else wrote fields of an object that is not ours.
    #[error(
        "{object} is there, and others wrote fields of it: {}; delete it, or take them over by \
         --force-conflicts", .fields.join(", ")
    )]
    Conflict {
        /// Its kind and name.
        object: String,
        /// The fields, each with who wrote it.
        fields: Vec<String>,
    },
    /// It is refused, for that reason; the text has the way out.
    #[error("{0}")]
    Refused(String),
    /// There is no installation.
    #[error("Volvox is not installed in this cluster: volvox install installs it")]
    NotInstalled,
    /// Nodes are not ready in time.
    #[error("{}", .0.join("\n"))]
    NotReady(Vec<String>),
}

fn remedy(code: u16, cause: &str) -> &'static str {
    match code {
        422 if cause.contains("disallowed by cluster policy") => {
            ": kube-apiserver has to run with --allow-privileged"
        }
        401 => ": it does not know who asks; name another user by --kubeconfig or --context",
        403 => ": whoever installs needs the rights of cluster-admin",
        _ => "",
    }
}
