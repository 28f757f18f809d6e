//! How large the Maglev tables of services are, and whether the pinned maps can take tables of that
//! size. It leaves to others what stands in a table.

use std::io;

use volvox_bpf_progs::maps::MAGLEV_TABLE;
use volvox_maps::{
    error::{DatapathError, refused},
    pins::{Pins, bpffs, unpin},
    sys::{Map, NewMap},
    table::scan,
};

use super::maps::{MapSizes, create_pinned, new_map, open_pinned, same_layout};

/// Pin of a table of the size that the maps of tables take: those do not tell.
pub(super) const TABLE: &str = "volvox_maglev_table";

/// What services' Maglev tables are like, and whether the pinned maps of tables take such.
#[derive(Debug)]
pub(super) struct TableMaps {
    table: NewMap<'static>,
    retained: bool,
}

fn table_spec(sizes: MapSizes) -> NewMap<'static> {
    let spec = new_map(&MAGLEV_TABLE, MAGLEV_TABLE.max_entries);
    NewMap { value_size: sizes.maglev * size_of::<u32>() as u32, ..spec }
}

impl TableMaps {
    /// Compares the tables that are desired with those that there may be.
    pub(super) fn of(pins: &Pins, sizes: MapSizes) -> Result<Self, DatapathError> {
        let table = table_spec(sizes);
        let pinned = open_pinned(pins, TABLE)?;
        Ok(Self { table, retained: pinned.is_some_and(|map| same_layout(map.info(), &table)) })
    }

    /// Whether maps of tables that are pinned can stay. Others make room for empty ones; where a
    /// service has no table, any of its backends is taken.
    pub(super) fn are_kept(&self) -> bool {
        self.retained
    }

    /// Whether tables that stand in a map of another agent's making are like those desired; of a map
    /// without any nothing is lost.
    pub(super) fn are_those_of(&self, outer: &Map) -> Result<bool, DatapathError> {
        if self.retained {
            return Ok(true);
        }
        let failed = |error: io::Error| refused("read", "tables of Maglev", &error);
        let mut like = None;
        let scanned = scan(outer, |_, values| {
            let id = values.first_chunk().map(|id| u32::from_ne_bytes(*id));
            like = id.and_then(|id| Map::by_id(id).ok());
            like.is_none()
        });
        scanned.map_err(failed)?;
        Ok(like.is_some_and(|table| same_layout(table.info(), &self.table)))
    }

    /// How a service's table is made.
    pub(super) fn table(&self) -> NewMap<'static> {
        self.table
    }

    /// Notes that every map of tables takes those desired.
    pub(super) fn settle(&self, pins: &Pins) -> Result<(), DatapathError> {
        if !self.retained {
            let path = pins.map(TABLE);
            unpin(&path).map_err(|e| bpffs("remove", path, e))?;
            create_pinned(pins, TABLE, &self.table)?;
        }
        Ok(())
    }
}
