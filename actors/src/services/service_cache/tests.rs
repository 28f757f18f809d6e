//! Tests of services, by subject; the fixture is the node that they share.

mod fixture;
mod health_checks;
mod histories;
mod host_ports;
mod ingresses;
mod inherit;
mod kubernetes;
mod leaving;
mod members;
mod mesh;
mod objects;
mod quarantine;
mod refused;
mod traffic;
