use super::{args::ServiceCommand, error::ClientError, output::Output};
use crate::{
    api::models::{Backend, BackendAddress, FrontendAddress, Service, ServiceFlags},
    rest_client::RestClient,
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

pub(super) async fn backends(client: &RestClient, out: &mut Output<'_>) -> Result<(), ClientError> {
    let all: Vec<Backend> = client.get("/volvox/backends").await?;
    out.answer(&all, |out, all| {
        let row = |it: &Backend| [it.id.to_string(), place(&it.address), it.address.state.clone()];
        out.table(["ID", "BACKEND", "STATE"], all.iter().map(row))
    })
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
