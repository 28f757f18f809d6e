//! `volvox service` and `volvox backend`: frontends and their backends, and how a backend is
//! quarantined and released.

use hyper::Method;
use volvox_actors::ports::BackendState;
use volvox_rest::{
    RestClient,
    models::{Backend, BackendAddress, FrontendAddress, Service, ServiceFlags},
};

use super::{
    args::{BackendCommand, ServiceCommand},
    error::ClientError,
    output::Output,
};

pub(super) async fn run(
    client: &RestClient,
    out: &mut Output<'_>,
    command: ServiceCommand,
) -> Result<(), ClientError> {
    match command {
        ServiceCommand::List => {
            let all: Vec<Service> = client.get("/service").await?;
            out.answer(&all, |out, all| table(out, all))
        }
        ServiceCommand::Get { id } => {
            let service: Service = client.get(&format!("/service/{id}")).await?;
            out.answer(&service, |out, service| table(out, std::slice::from_ref(service)))
        }
    }
}

pub(super) async fn backend(
    client: &RestClient,
    out: &mut Output<'_>,
    command: BackendCommand,
) -> Result<(), ClientError> {
    let (at, state) = match command {
        BackendCommand::List => {
            let all: Vec<Backend> = client.get("/volvox/backends").await?;
            return out.answer(&all, |out, all| backends(out, all));
        }
        BackendCommand::Quarantine { backend } => (backend, BackendState::Quarantined),
        BackendCommand::Release { backend } => (backend, BackendState::Active),
    };
    let expected = BackendAddress::new(at, state);
    let answer = client.send(Method::PATCH, "/volvox/backends", &[], Some(&expected)).await?;
    out.answer(&answer.json()?, |out, backend| backends(out, std::slice::from_ref(backend)))
}

fn backends(out: &mut Output<'_>, all: &[Backend]) -> Result<(), ClientError> {
    let row = |it: &Backend| {
        let state = match &*it.left.join(", ") {
            "" => it.address.state.clone(),
            left => format!("{} (left {left}; TCP connections go on)", it.address.state),
        };
        [it.id.to_string(), place(&it.address), state]
    };
    out.table(["ID", "BACKEND", "STATE"], all.iter().map(row))
}

fn table(out: &mut Output<'_>, services: &[Service]) -> Result<(), ClientError> {
    let rows = services.iter().map(|Service { spec, status }| {
        let ServiceFlags { kind, name, namespace, .. } = &spec.flags;
        let mut backends: Vec<_> = spec.backend_addresses.iter().map(used).collect();
        if status.realized.is_none() {
            backends.push("(not written yet)".to_owned());
        }
        [
            spec.id.to_string(),
            frontend(&spec.frontend_address),
            kind.clone(),
            if name.is_empty() { "(nobody's yet)".into() } else { format!("{namespace}/{name}") },
            backends.join("\n"),
        ]
    });
    out.table(["ID", "FRONTEND", "TYPE", "SERVICE", "BACKENDS"], rows)
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
