//! What the owner of prefixes shows.

use serde::Serialize;

/// What the owner of prefixes shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrefixesView {
    /// How many CiliumNodes there are.
    pub nodes: usize,
    /// How many of them lack a prefix.
    pub lacking: usize,
    /// How many prefixes were given in this life.
    pub given: u64,
    /// How many CiliumPodIPPools there are, where prefixes come out of these.
    pub pools: usize,
    /// What is wrong with them, by pool.
    pub pool_troubles: Vec<(String, String)>,
    /// What is wrong, by node.
    pub troubles: Vec<(String, String)>,
    /// Why nothing is given, if so.
    pub stopped: Option<String>,
}
