//! `volvox dashboard`: serves the dashboard over flight records on disk, on a loopback address.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use volvox_hubble::dashboard::no_flows_router;
use volvox_inspect::{
    dashboard::{Lives, Opened, router},
    http::{Server, Socket, listen},
};

use super::{error::ClientError, output::Output};

#[derive(Debug, Args)]
pub(super) struct DashboardArguments {
    /// Records, as an agent keeps them or `volvox trace export --json` writes them; two can be
    /// compared
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Where to serve, on loopback; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(super) listen: SocketAddr,
}

/// What is said of flows.
const NO_FLOWS: &str = "a recording has no flows: ask the node that has them, by its own dashboard or by \
                        `volvox observe`";

/// Serves the page over files until somebody ends it.
pub(super) async fn run(
    out: &mut Output<'_>,
    arguments: &DashboardArguments,
) -> Result<(), ClientError> {
    if !arguments.listen.ip().is_loopback() {
        let text = format!("--listen {}: name a loopback address", arguments.listen);
        return Err(ClientError::Usage(text));
    }
    let opened = arguments.files.iter().map(|file| Opened::read(file)).collect::<Result<_, _>>()?;
    let in_use = |error| {
        let text = format!("--listen {}: {error}; choose another port", arguments.listen);
        ClientError::Failed(text)
    };
    let socket = listen(arguments.listen).map_err(in_use)?;
    let address = socket.local_addr()?;
    let page = router(Lives::Opened(opened), no_flows_router(NO_FLOWS));
    let server = Server::start("dashboard", vec![(Socket::Tcp(socket), page)])?;
    out.line(format!("http://{address}/    (Ctrl-C ends)"))?;
    tokio::signal::ctrl_c().await?;
    server.stop();
    Ok(())
}
