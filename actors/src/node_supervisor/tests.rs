//! A whole node. Random histories of one are the simulator's: `cargo testbed sim`.

mod cases;
mod dice;
mod drift;
mod named_ports;
