//! What each path does, one file for a resource.

pub(super) mod about;
pub(super) mod config;
pub(super) mod debug_info;
pub(super) mod desired;
pub(super) mod endpoint;
pub(super) mod endpoint_config;
pub(super) mod endpoint_labels;
pub(super) mod endpoint_list;
pub(super) mod health;
pub(super) mod identity;
pub(super) mod ip;
pub(super) mod ipam;
pub(super) mod lacking;
pub(super) mod map;
mod map_services;
mod map_translations;
pub(super) mod node;
pub(super) mod policy;
mod query;
pub(super) mod rows;
pub(super) mod service;
pub(super) mod traffic;
pub(super) mod volvox;
