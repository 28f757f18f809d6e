//! The plugin against an agent that the test plays, in namespaces of the test's own.

mod adding;
mod again;
mod asking;
mod chained;
mod configuration;
mod conflist;
mod deleting;
mod fake_agent;
mod real_plugins;
mod scene;
