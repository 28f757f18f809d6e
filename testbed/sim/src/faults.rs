//! What goes wrong: steps that fail, actors that crash, power that goes, others who take things away, and
//! what happens to disk and kernel while no agent runs.

mod crash;
mod foreign_removals;
mod power_cut;
mod steps;
mod while_down;
