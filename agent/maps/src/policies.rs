//! The rows of policy maps, read.

use std::io;

use volvox_actors::model::PolicyRows;
use volvox_bpf_progs::layouts as raw;
use zerocopy::{FromBytes, IntoBytes};

use super::{
    rows::{policy_entry_from_raw, policy_entry_to_raw, policy_key_from_raw, policy_key_to_raw},
    sys::Map,
    table::scan,
};

/// The rows of a policy map.
pub fn rows(map: &Map) -> io::Result<PolicyRows> {
    all_rows(map).map(|(rows, _)| rows)
}

/// The same, and whether all of them are such as an agent writes.
pub fn all_rows(map: &Map) -> io::Result<(PolicyRows, bool)> {
    if (map.key_bytes(), map.value_bytes())
        != (size_of::<raw::PolicyKey>(), size_of::<raw::PolicyRow>())
    {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no policy map"));
    }
    let (mut rows, mut all_ours) = (PolicyRows::new(), true);
    scan(map, |keys, values| {
        let keys = keys.chunks_exact(map.key_bytes());
        for (key, value) in keys.zip(values.chunks_exact(map.value_bytes())) {
            if let (Ok(key), Ok(value)) =
                (raw::PolicyKey::read_from_bytes(key), raw::PolicyRow::read_from_bytes(value))
            {
                let (own, entry) = (policy_key_from_raw(&key), policy_entry_from_raw(&value));
                all_ours &= policy_key_to_raw(&own).as_bytes() == key.as_bytes();
                all_ours &= policy_entry_to_raw(&key, &entry).as_bytes() == value.as_bytes();
                rows.insert(own, entry);
            }
        }
        true
    })?;
    Ok((rows, all_ours))
}
