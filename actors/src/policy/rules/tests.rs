//! Tests of the engine as a whole: documents in, verdicts out.

mod cilium;
mod compatible;
mod explain;
mod groups;
mod kubernetes;
mod nodes;
mod oracle;
mod properties;
mod ranked;
mod refusals;
mod remarks;
mod repository;
mod rounds;
mod rubbish;
mod services;
mod status;
mod world;
