//! A client of Hubble's API, over a unix socket.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use prost::{
    Message,
    bytes::{Buf, BufMut},
};
use tokio::net::UnixStream;
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use crate::messages::{GetEventsRequest, GetFlowsRequest, Nothing, ServerStatusResponse};

/// The largest answer that is read, bytes.
const ANSWER_MAX: usize = 4 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HubbleClientError {
    /// Nobody listens there.
    #[error(
        "Hubble's server at {} cannot be reached: {cause}; does an agent run, with \
         --enable-hubble=true?", .path.display()
    )]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// It was asked wrongly.
    #[error("{0}")]
    Refused(String),
    /// It ended, or cannot do that.
    #[error("Hubble's server says: {0}")]
    Failed(String),
}

impl From<Status> for HubbleClientError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::InvalidArgument => Self::Refused(status.message().to_owned()),
            _ => Self::Failed(status.message().to_owned()),
        }
    }
}

/// Requests and answers are bytes of messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

/// Answers as they come: bytes of a message each.
#[derive(Debug)]
pub struct HubbleAnswers(Streaming<Vec<u8>>);

impl HubbleAnswers {
    /// The next one; none when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, HubbleClientError> {
        Ok(self.0.message().await?)
    }
}

/// A connection to Hubble's server.
#[derive(Clone, Debug)]
pub struct HubbleClient(Channel);

impl HubbleClient {
    /// Connects.
    pub async fn connect(socket: &Path) -> Result<Self, HubbleClientError> {
        let unreachable =
            |cause: String| HubbleClientError::Unreachable { path: socket.to_owned(), cause };
        // Whoever is not there is found out by the system in plain words.
        let first = UnixStream::connect(socket).await.map_err(|it| unreachable(it.to_string()))?;
        let mut first = Some(first);
        let path = socket.to_owned();
        let connector = service_fn(move |_| {
            let (first, path) = (first.take(), path.clone());
            async move {
                match first {
                    Some(stream) => Ok(TokioIo::new(stream)),
                    None => UnixStream::connect(path).await.map(TokioIo::new),
                }
            }
        });
        let endpoint = Endpoint::from_static("http://hubble");
        let connected = endpoint.connect_with_connector(connector);
        Ok(Self(connected.await.map_err(|error| unreachable(error.to_string()))?))
    }

    /// The same over a channel that is there.
    pub fn over(channel: Channel) -> Self {
        Self(channel)
    }

    /// Flows.
    pub async fn flows(
        &self,
        request: &GetFlowsRequest,
    ) -> Result<HubbleAnswers, HubbleClientError> {
        self.stream("/observer.Observer/GetFlows", request).await
    }

    /// What the agent says of itself.
    pub async fn agent_events(
        &self,
        request: &GetEventsRequest,
    ) -> Result<HubbleAnswers, HubbleClientError> {
        self.stream("/observer.Observer/GetAgentEvents", request).await
    }

    /// How the server is.
    pub async fn status(&self) -> Result<ServerStatusResponse, HubbleClientError> {
        let bytes = self.unary("/observer.Observer/ServerStatus", &Nothing {}).await?;
        ServerStatusResponse::decode(&*bytes)
            .map_err(|error| HubbleClientError::Failed(error.to_string()))
    }

    /// Any call with one answer.
    pub async fn unary(
        &self,
        path: &'static str,
        request: &impl Message,
    ) -> Result<Vec<u8>, HubbleClientError> {
        let mut grpc = self.grpc().await?;
        let request = Request::new(request.encode_to_vec());
        let path = http::uri::PathAndQuery::from_static(path);
        Ok(grpc.unary(request, path, Bytes).await?.into_inner())
    }

    /// Any call with many.
    pub async fn stream(
        &self,
        path: &'static str,
        request: &impl Message,
    ) -> Result<HubbleAnswers, HubbleClientError> {
        let mut grpc = self.grpc().await?;
        let request = Request::new(request.encode_to_vec());
        let path = http::uri::PathAndQuery::from_static(path);
        let answers = grpc.server_streaming(request, path, Bytes).await?;
        Ok(HubbleAnswers(answers.into_inner()))
    }

    async fn grpc(&self) -> Result<Grpc<Channel>, HubbleClientError> {
        let mut grpc = Grpc::new(self.0.clone()).max_decoding_message_size(ANSWER_MAX);
        let ready = grpc.ready().await;
        ready.map_err(|error| HubbleClientError::Failed(error.to_string()))?;
        Ok(grpc)
    }
}
