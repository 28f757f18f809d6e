//! Calling the container runtime as a kubelet does.

use std::path::Path;

use anyhow::{Context, Result};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::{net::UnixStream, runtime::Runtime};
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tower::service_fn;

/// A connection to the runtime's socket.
pub(crate) struct Cri {
    runtime: Runtime,
    channel: Channel,
}

impl Cri {
    /// Connects to `socket` at the first call.
    pub(crate) fn new(socket: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let socket = socket.to_owned();
        let connector = service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let guard = runtime.enter();
        let channel =
            Endpoint::from_static("http://containerd").connect_with_connector_lazy(connector);
        drop(guard);
        Ok(Self { runtime, channel })
    }

    /// Calls `SERVICE/METHOD` of `runtime.v1`.
    pub(crate) fn call<I, O>(&self, method: &str, request: I) -> Result<O>
    where
        I: Message + 'static,
        O: Message + Default + 'static,
    {
        let path = format!("/runtime.v1.{method}").parse().context("a method's path")?;
        self.runtime
            .block_on(async {
                let mut grpc = Grpc::new(self.channel.clone());
                grpc.ready().await?;
                let codec = ProstCodec::<I, O>::default();
                Ok(grpc.unary(Request::new(request), path, codec).await?.into_inner())
            })
            .map_err(|error: anyhow::Error| error.context(format!("{method} failed")))
    }
}
