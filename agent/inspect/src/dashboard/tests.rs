//! Tests of the dashboard's server; no browser and no socket takes part.

mod asking;
mod guarding;
