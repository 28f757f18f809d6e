//! The one thing that is written without an agent: connections and translations are forgotten, because
//! somebody said so.

use volvox_bpf_progs::layouts::{Ct4Key, Ct6Key, Nat4Key, Nat4Row, Nat6Key, Nat6Row};

use super::{DatapathError, Dump, TupleKey};
use crate::table::{Plain, Table};

impl Dump {
    /// Removes every connection of both families; how many there were.
    pub fn flush_connections(&self) -> Result<usize, DatapathError> {
        Ok(self.flush_connections_of::<Ct4Key>()? + self.flush_connections_of::<Ct6Key>()?)
    }

    fn flush_connections_of<K: TupleKey>(&self) -> Result<usize, DatapathError> {
        let mut flushed = 0;
        for name in K::MAPS {
            for table in self.tracked::<K>(name)? {
                flushed += flush(&table)?;
            }
        }
        Ok(flushed)
    }

    /// Removes every translation of both families; how many there were.
    pub fn flush_translations(&self) -> Result<usize, DatapathError> {
        let ipv4 = flush(&self.table::<Nat4Key, Nat4Row>("cilium_snat_v4_external")?)?;
        let ipv6 = flush(&self.table::<Nat6Key, Nat6Row>("cilium_snat_v6_external")?)?;
        Ok(ipv4 + ipv6)
    }
}

/// Removes the rows that are there; those that packets write meanwhile stay.
fn flush<K: Plain, V: Plain>(table: &Table<K, V>) -> Result<usize, DatapathError> {
    let mut keys = Vec::new();
    table.for_each(|key, _: V| keys.push(key))?;
    Ok(table.delete_all(&keys)?)
}
