//! The calls of Hubble's API: `observer.Observer`, `peer.Peer` and `grpc.health.v1.Health`.

use std::{convert::Infallible, marker::PhantomData, sync::Arc};

use prost::{
    Message,
    bytes::{Buf, BufMut},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::Grpc,
};
use tower::service_fn;

use crate::{
    messages::{
        GetEventsRequest, GetFlowsRequest, GetNamespacesResponse, HealthCheckRequest,
        HealthCheckResponse, Nothing, ServerStatusResponse,
    },
    observer::Observer,
    peers::Peers,
    read::{self, Answers},
};

/// The largest request that is read, bytes: filters are bounded as well.
const REQUEST_MAX: usize = 1 << 20;
/// `SERVING` of health checks.
const SERVING: i32 = 1;
/// How many changes of nodes wait for a relay; who does not read them hears the rest at once.
const CHANGES_MAX: usize = 16;

/// Requests are messages, answers are bytes of such.
struct AsBytes<T>(PhantomData<T>);

impl<T: Message + Default + 'static> Codec for AsBytes<T> {
    type Encode = Vec<u8>;
    type Decode = T;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<T> Encoder for AsBytes<T> {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl<T: Message + Default> Decoder for AsBytes<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        let request = T::decode(bytes);
        request.map(Some).map_err(|error| {
            Status::invalid_argument(format!("the request is no message of Hubble's API: {error}"))
        })
    }
}

/// Answers one call.
pub(crate) async fn call<B>(
    observer: Arc<Observer>,
    request: http::Request<B>,
) -> Result<http::Response<Body>, Infallible>
where
    B: http_body::Body<Data = prost::bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let path = request.uri().path().to_owned();
    let answer = match path.as_str() {
        "/observer.Observer/GetFlows" => {
            streaming(request, |asked: GetFlowsRequest| read::flows(observer, asked)).await
        }
        "/observer.Observer/GetAgentEvents" => {
            let answer =
                |asked: GetEventsRequest| async move { read::agent_events(observer, asked) };
            streaming(request, answer).await
        }
        "/observer.Observer/GetDebugEvents" => {
            streaming(request, |asked| debug_events(observer, asked)).await
        }
        "/observer.Observer/GetNamespaces" => {
            unary(request, |_: Nothing| async move {
                observer.freshen().await;
                Ok(GetNamespacesResponse { namespaces: observer.namespaces() }.encode_to_vec())
            })
            .await
        }
        "/observer.Observer/ServerStatus" => {
            unary(request, |_: Nothing| async move { Ok(status(&observer).encode_to_vec()) }).await
        }
        "/observer.Observer/GetNodes" => {
            let why = "a node knows itself alone: ask a relay for the nodes";
            unary(request, |_: Nothing| async move { Err(Status::unimplemented(why)) }).await
        }
        "/peer.Peer/Notify" => streaming(request, |_: Nothing| peers(observer)).await,
        "/grpc.health.v1.Health/Check" => unary(request, health).await,
        "/grpc.health.v1.Health/Watch" => {
            streaming(request, |asked| watch_health(observer, asked)).await
        }
        _ => Status::unimplemented(format!("{path} is no call of Hubble's API")).into_http(),
    };
    Ok(answer)
}

async fn unary<T, B, F>(
    request: http::Request<B>,
    answer: impl FnOnce(T) -> F + Send,
) -> http::Response<Body>
where
    T: Message + Default + 'static,
    B: http_body::Body<Data = prost::bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    F: Future<Output = Result<Vec<u8>, Status>> + Send,
{
    let mut answer = Some(answer);
    let service = service_fn(move |request: Request<T>| {
        let answer = answer.take().map(|answer| answer(request.into_inner()));
        async move {
            match answer {
                Some(answer) => answer.await.map(Response::new),
                None => Err(Status::internal("a call is answered once")),
            }
        }
    });
    let codec = AsBytes::<T>(PhantomData);
    Grpc::new(codec).max_decoding_message_size(REQUEST_MAX).unary(service, request).await
}

async fn streaming<T, B, F>(
    request: http::Request<B>,
    answer: impl FnOnce(T) -> F + Send,
) -> http::Response<Body>
where
    T: Message + Default + 'static,
    B: http_body::Body<Data = prost::bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    F: Future<Output = Result<Answers, Status>> + Send,
{
    let mut answer = Some(answer);
    let service = service_fn(move |request: Request<T>| {
        let answer = answer.take().map(|answer| answer(request.into_inner()));
        async move {
            match answer {
                Some(answer) => answer.await.map(|it| Response::new(ReceiverStream::new(it))),
                None => Err(Status::internal("a call is answered once")),
            }
        }
    });
    let codec = AsBytes::<T>(PhantomData);
    Grpc::new(codec).max_decoding_message_size(REQUEST_MAX).server_streaming(service, request).await
}

fn status(observer: &Observer) -> ServerStatusResponse {
    let ring = observer.ring();
    let (oldest, next) = ring.bounds();
    ServerStatusResponse {
        num_flows: next - oldest,
        max_flows: ring.capacity(),
        seen_flows: ring.seen(),
        uptime_ns: u64::try_from(observer.uptime().as_nanos()).unwrap_or(u64::MAX),
        version: observer.names().node().version.clone(),
        flows_rate: ring.rate(),
        ..ServerStatusResponse::default()
    }
}

/// The datapath writes no debug records: nothing is told, for as long as somebody follows.
async fn debug_events(
    observer: Arc<Observer>,
    request: GetEventsRequest,
) -> Result<Answers, Status> {
    let place = read::place(&observer)?;
    let (answers, receiver) = mpsc::channel(1);
    if request.follow {
        tokio::spawn(async move {
            answers.closed().await;
            drop(place);
        });
    }
    Ok(receiver)
}

async fn health(request: HealthCheckRequest) -> Result<Vec<u8>, Status> {
    // The second is how Hubble's own servers call their observer there.
    let known = ["", "hubble.server.Observer", "observer.Observer", "peer.Peer"];
    match known.contains(&request.service.as_str()) {
        true => Ok(HealthCheckResponse { status: SERVING }.encode_to_vec()),
        false => Err(Status::not_found(format!("{:?} is not served here", request.service))),
    }
}

async fn watch_health(
    observer: Arc<Observer>,
    request: HealthCheckRequest,
) -> Result<Answers, Status> {
    let place = read::place(&observer)?;
    let first = health(request).await?;
    let (answers, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        if answers.send(Ok(first)).await.is_ok() {
            answers.closed().await;
        }
        drop(place);
    });
    Ok(receiver)
}

/// Tells nodes as they are, then each change. Who reads late hears what is so by then.
async fn peers(observer: Arc<Observer>) -> Result<Answers, Status> {
    let place = read::place(&observer)?;
    observer.refresh_peers().await;
    let (mut heard, terms) = observer.peers();
    let (answers, receiver) = mpsc::channel(CHANGES_MAX);
    tokio::spawn(async move {
        let _place = place;
        let mut told = Peers::new();
        loop {
            let now = heard.borrow_and_update().clone();
            for change in terms.changes(&told, &now) {
                if answers.send(Ok(change.encode_to_vec())).await.is_err() {
                    return;
                }
            }
            told = now;
            tokio::select! {
                changed = heard.changed() => if changed.is_err() { return },
                () = answers.closed() => return,
            }
        }
    });
    Ok(receiver)
}
