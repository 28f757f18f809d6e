//! How a history of operators ended.

/// Why a history ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorsFailure {
    /// Which action it was.
    pub at: usize,
    /// What was wrong.
    pub what: String,
}

/// What a history came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorsTally {
    /// Operators that were started.
    pub started: u64,
    /// Steps of actors and of the API server.
    pub steps: u64,
}
