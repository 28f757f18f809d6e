//! Tests of services, by subject; the fixture is the node that they share.

mod beside_kube_proxy;
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
