//! `volvox service` and `volvox backend`: frontends and their backends, and how a backend is
//! quarantined and released.

use std::collections::BTreeSet;

use hyper::Method;
use volvox_actors::ports::BackendState;
use volvox_rest::{
    RestClient,
    models::{Backend, BackendAddress, FrontendAddress, Service, ServiceFlags},
};

use super::{
    args::{BackendCommand, ServiceCommand},
    error::ClientError,
    output::{Listed, Output, list, shown_one},
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: ServiceCommand,
) -> Result<(), ClientError> {
    match command {
        ServiceCommand::List(listing) => {
            list(out, &listing, async || Ok(client.get::<Vec<Service>>("/service").await?)).await
        }
        ServiceCommand::Get { id } => {
            shown_one(out, &client.get::<Service>(&format!("/service/{id}")).await?)
        }
    }
}

pub(super) async fn backend(
    client: &RestClient,
    out: &mut Output<'_>,
    command: BackendCommand,
) -> Result<(), ClientError> {
    let (at, state) = match command {
        BackendCommand::List(watch) => {
            let fetch = async || Ok(client.get::<Vec<Backend>>("/volvox/backends").await?);
            return list(out, &watch.into(), fetch).await;
        }
        BackendCommand::Quarantine { backend } => (backend, BackendState::Quarantined),
        BackendCommand::Release { backend } => (backend, BackendState::Active),
    };
    let expected = BackendAddress::new(at, state);
    let answer = client.send(Method::PATCH, "/volvox/backends", &[], Some(&expected)).await?;
    shown_one::<Backend>(out, &answer.json()?)
}

impl Listed for Backend {
    const HEADINGS: &'static [&'static str] = &["ID", "BACKEND", "STATE"];

    fn cells(&self) -> Vec<String> {
        let state = match &*self.left.join(", ") {
            "" => self.address.state.clone(),
            left => format!("{} (left {left}; TCP connections go on)", self.address.state),
        };
        vec![self.id.to_string(), place(&self.address), state]
    }
}

impl Listed for Service {
    const HEADINGS: &'static [&'static str] = &["ID", "FRONTEND", "TYPE", "SERVICE", "BACKENDS"];

    fn cells(&self) -> Vec<String> {
        let Self { spec, status } = self;
        let ServiceFlags { kind, name, namespace, .. } = &spec.flags;
        let mut backends: Vec<_> = spec.backend_addresses.iter().map(used).collect();
        if status.realized.is_none() {
            backends.push("(not written yet)".to_owned());
        }
        vec![
            spec.id.to_string(),
            frontend(&spec.frontend_address),
            kind.clone(),
            if name.is_empty() { "(nobody's yet)".into() } else { format!("{namespace}/{name}") },
            backends.join("\n"),
        ]
    }

    fn namespaces(&self) -> BTreeSet<String> {
        let namespace = self.spec.flags.namespace.clone();
        if namespace.is_empty() { BTreeSet::new() } else { [namespace].into() }
    }
}

fn frontend(FrontendAddress { ip, protocol, port, scope }: &FrontendAddress) -> String {
    let inside = if scope == "internal" { "/i" } else { "" };
    format!("{}/{}{inside}", socket(ip, *port), protocol.to_uppercase())
}

fn used(backend: &BackendAddress) -> String {
    match backend.state.as_str() {
        "active" => place(backend),
        state => format!("{} ({state})", place(backend)),
    }
}

fn place(backend: &BackendAddress) -> String {
    format!("{}/{}", socket(&backend.ip, backend.port), backend.protocol)
}

fn socket(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}
