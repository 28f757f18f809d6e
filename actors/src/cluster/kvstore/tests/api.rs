//! What the conformance suite is written against.

pub(super) use crate::{
    host::Reply,
    ports::{
        Change, Condition, KvStore, LeaseId, Listing, Pair, Put, Revision, Transaction, Watch,
        WatchEvent,
    },
};
