//! What the owner of the node's prefixes does just now: one thing at a time.

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PrefixPhase {
    /// Nothing is under way.
    #[default]
    Idle,
    /// The CiliumNode is looked at.
    Reading,
    /// IPAM is to close what is not needed.
    Closing,
    /// The record is on its way to the disk.
    Saving,
    /// The CiliumNode is written.
    Writing,
}

impl PrefixPhase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Idle => "nothing",
            Self::Reading => "reading the CiliumNode",
            Self::Closing => "closing prefixes",
            Self::Saving => "writing the record",
            Self::Writing => "writing the CiliumNode",
        }
    }
}
