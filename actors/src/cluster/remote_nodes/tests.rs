//! Tests: the cluster's nodes, known from a store or from objects, with and without labels.

mod fixture;
mod labels;
mod objects;
mod store;
