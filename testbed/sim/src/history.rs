//! What may happen: actions, histories of them that are drawn from a seed, and histories after reports of
//! users. All of it is plain data.

pub mod action;
pub mod draw;
pub mod events;
pub mod scenarios;
