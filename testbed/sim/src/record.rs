//! What is recorded of a history: a hash and lines (`trace`), and the agent's own flight records
//! (`flights`).

mod flights;
pub mod trace;
