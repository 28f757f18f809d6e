//! Messages to the owner of prefixes.

use serde::Serialize;

use crate::{
    host::{Lane, Message, Reply},
    operator::news::ObjectNews,
};

/// What the owner of prefixes can be told.
pub(in crate::operator) enum PrefixesMsg {
    /// From the cluster.
    News(ObjectNews),
    /// Show what there is.
    Show(Reply<PrefixesView>),
}

/// What the owner of prefixes shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrefixesView {
    /// How many CiliumNodes there are.
    pub nodes: usize,
    /// How many of them lack a prefix.
    pub lacking: usize,
    /// How many prefixes were given in this life.
    pub given: u64,
    /// What is wrong, by node.
    pub troubles: Vec<(String, String)>,
    /// Why nothing is given, if so.
    pub stopped: Option<String>,
}

impl Message for PrefixesMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::News(_) => "News",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::News(_) => Lane::Control,
            Self::Show(_) => Lane::Request,
        }
    }
}
