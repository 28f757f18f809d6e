//! Tests: the cluster's nodes, known from a store or from objects, with and without labels.

mod labels;
mod objects;
mod store;
mod town;
