mod health_checks;
mod histories;
mod host_ports;
mod ingresses;
mod inherit;
mod objects;
mod town;
mod traffic;
