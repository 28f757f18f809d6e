//! Several nodes with agents of their own, on one network, and an etcd between them.

mod cut_off;
mod firewall;
mod health;
mod ipv6;
mod native;
mod reach;
mod services;
mod tunnel;
mod web;
