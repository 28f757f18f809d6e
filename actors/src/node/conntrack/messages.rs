//! Messages to the collector of dead connections, and the status that it shows.

use std::time::Duration;

use serde::Serialize;

use crate::{
    host::{Message, Ref, Reply},
    model::Families,
    ports::Swept,
    services::service_cache::ServicesMsg,
};

/// How collecting goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConntrackStatus {
    /// Time between two rounds, as it is now.
    pub interval: Duration,
    /// Rounds so far.
    pub rounds: u64,
    /// Rounds that were begun because a table was full.
    pub rounds_by_signal: u64,
    /// Signals that a flow found no port, or hardly one.
    pub translations_full: FullSignals,
    /// Signals that a connection could not be recorded.
    pub connections_full: FullSignals,
    /// Connections, in the last round over both families.
    pub connections: Swept,
    /// Translations of addresses, in that round.
    pub translations: Swept,
    /// Connections removed in all rounds.
    pub deleted_total: u64,
    /// Translations removed in all rounds.
    pub translations_deleted_total: u64,
    /// Why the last round failed.
    pub last_error: Option<String>,
}

/// How often the datapath said that a table is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Signals {
    /// When no round was due for it yet.
    pub received: u64,
    /// When one was: it stands for this signal too.
    pub coalesced: u64,
}

/// The same of each family's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FullSignals {
    /// Of IPv4.
    pub ipv4: Signals,
    /// Of IPv6.
    pub ipv6: Signals,
}

/// What can be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullTable {
    /// Translations of addresses: ports to one end.
    Translations,
    /// Connections.
    Connections,
}

/// What the collector can be told.
pub enum ConntrackMsg {
    /// Restore is over: begin.
    Begin,
    /// The datapath finds no room.
    Full {
        /// Where.
        table: FullTable,
        /// Of which families.
        families: Families,
    },
    /// Who keeps backends for connections that go on: hears which of them no connection has.
    LookFor(Ref<ServicesMsg>),
    /// Show how it goes.
    Show(Reply<ConntrackStatus>),
}

impl Message for ConntrackMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begin => "Begin",
            Self::Full { .. } => "Full",
            Self::LookFor(_) => "LookFor",
            Self::Show(_) => "Show",
        }
    }
}
