//! How load of services is balanced: the choices that settings and annotations have.

/// How a backend is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// By chance.
    #[default]
    Random = 1,
    /// By a table that depends on the backends alone, so that all nodes choose alike. For frontends
    /// that are reached from outside the cluster.
    Maglev = 2,
}

/// What holds for a service of which two things can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice<T> {
    /// What does where the Service says nothing.
    pub usual: T,
    /// Whether it may say otherwise of its own, by an annotation.
    pub by_annotation: bool,
}

/// How a node balances load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balancing {
    /// How a backend is chosen.
    pub algorithm: Choice<Algorithm>,
    /// Whether backends on other nodes answer clients outside the cluster themselves.
    pub direct: Choice<bool>,
    /// Whether clients outside the cluster reach services at their addresses inside.
    pub external_cluster_ip: bool,
    /// Whether only addresses inside the cluster are served: another program of the node serves the rest.
    pub inside_only: bool,
}

impl From<Algorithm> for Balancing {
    fn from(algorithm: Algorithm) -> Self {
        let algorithm = Choice { usual: algorithm, by_annotation: false };
        Self { algorithm, ..Self::default() }
    }
}
