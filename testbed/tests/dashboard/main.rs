//! The dashboard in a browser: each view is drawn, looked at and used.
//!
//! Pictures of what was seen are left in `dashboard/` beside the programs under test.

mod checks;
mod drift;
mod flows;
mod keyboard;
mod links;
mod live;
mod looks;
mod recorded;
mod screen;
mod using;
