//! Calls to containerd, each with a time limit, by the newest connection.

use std::{
    collections::BTreeMap,
    fmt::Display,
    future::Future,
    path::Path,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::{net::UnixStream, time::timeout};
use tonic::{
    Code, Request, Response, Status, Streaming,
    client::Grpc,
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tower::service_fn;
use volvox_actors::ports::{RuntimeContainer, RuntimeContainers, WhichContainers};

use super::{
    ContainerdError,
    messages::{
        ById, Empty, Filters, NAME_BYTES_MAX, OneContainer, OneTask, SANDBOXES, Tasks,
        VersionResponse,
    },
};

/// Where the Kubernetes part of containerd keeps its containers.
pub(crate) const NAMESPACE: &str = "k8s.io";
/// How long an answer may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Largest message that is read: as much as containerd sends by default, bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Most sandboxes of a list that are kept.
const SANDBOXES_MAX: usize = 65_536;

/// The way to the socket.
#[derive(Clone)]
pub(crate) struct Client {
    socket: Arc<Path>,
    newest: Arc<Mutex<Option<Connection>>>,
}

/// One connection.
#[derive(Clone)]
pub(crate) struct Connection(Channel);

impl Client {
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.into(), newest: Arc::default() }
    }

    /// Connects anew; what is looked up is looked up there from now on.
    pub(crate) async fn connect(&self) -> Result<Connection, ContainerdError> {
        let unreachable = |cause: String| {
            let socket = self.socket.to_path_buf();
            ContainerdError::Unreachable { socket, cause }
        };
        // Whoever is not there is found out by the system in plain words.
        let first = UnixStream::connect(&*self.socket).await;
        let mut first = Some(first.map_err(|error| unreachable(error.to_string()))?);
        let socket = Arc::clone(&self.socket);
        let connector = service_fn(move |_| {
            let (first, socket) = (first.take(), Arc::clone(&socket));
            async move {
                match first {
                    Some(stream) => Ok(TokioIo::new(stream)),
                    None => UnixStream::connect(socket).await.map(TokioIo::new),
                }
            }
        });
        let endpoint = Endpoint::from_static("http://containerd");
        let connected = endpoint.connect_with_connector(connector);
        let channel = match timeout(PATIENCE, connected).await {
            Ok(channel) => channel.map_err(|error| unreachable(error.to_string()))?,
            Err(_) => return Err(silence("connect")),
        };
        let connection = Connection(channel);
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.clone());
        Ok(connection)
    }

    /// What there is of these containers.
    pub(crate) async fn look_up(
        &self,
        which: WhichContainers,
    ) -> Result<RuntimeContainers, ContainerdError> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(connection) = newest else { return Err(ContainerdError::Ended) };
        match which {
            WhichContainers::Sandboxes => timed("list", connection.sandboxes()).await,
            WhichContainers::These(these) => {
                let look = async {
                    let mut found = BTreeMap::new();
                    for id in these {
                        if let Some(container) = connection.container(&id).await? {
                            found.insert(id, container);
                        }
                    }
                    Ok(found)
                };
                timed("look up", look).await
            }
        }
    }
}

impl Connection {
    /// Its version, if it is containerd.
    pub(crate) async fn version(&self) -> Result<String, ContainerdError> {
        let answer = async {
            let answered = self.unary("version.v1.Version/Version", Empty {}).await;
            answered.map_err(|status| match status.code() {
                Code::Unimplemented => ContainerdError::Stranger { cause: words(&status) },
                _ => refused("version")(status),
            })
        };
        let VersionResponse { version } = timed("version", answer).await?;
        Ok(version)
    }

    /// Whatever happens that these filters let through.
    pub(crate) async fn subscribe<T: Message + Default + 'static>(
        &self,
        filters: Vec<String>,
    ) -> Result<Streaming<T>, ContainerdError> {
        let streaming = self.streaming("events.v1.Events/Subscribe", Filters { filters });
        streaming.await.map_err(refused("subscribe"))
    }

    /// All sandboxes. Where no tasks are listed, nothing is concluded from that.
    async fn sandboxes(&self) -> Result<RuntimeContainers, ContainerdError> {
        let filters = vec![SANDBOXES.to_owned()];
        let listing = self.streaming("containers.v1.Containers/ListStream", Filters { filters });
        let mut listed: Streaming<OneContainer> = listing.await.map_err(refused("list"))?;
        let mut sandboxes = Vec::new();
        while let Some(OneContainer { container }) =
            listed.message().await.map_err(refused("list"))?
        {
            let is_kept = sandboxes.len() < SANDBOXES_MAX;
            let container = container.filter(|it| is_kept && it.id.len() <= NAME_BYTES_MAX);
            sandboxes.extend(container.map(|it| (it.pod(), it.id)));
        }
        let tasks: Result<Tasks, Status> =
            self.unary("tasks.v1.Tasks/List", Filters::default()).await;
        let runs: Option<BTreeMap<String, bool>> = tasks.ok().map(|tasks| {
            tasks.tasks.into_iter().map(|task| (task.id.clone(), task.runs())).collect()
        });
        let described = sandboxes.into_iter().map(|(pod, id)| {
            let runs = runs.as_ref().is_none_or(|all| all.get(&id).copied() == Some(true));
            (id, RuntimeContainer { runs, pod })
        });
        Ok(described.collect())
    }

    /// One container, if there is it.
    async fn container(&self, id: &str) -> Result<Option<RuntimeContainer>, ContainerdError> {
        let by_id = || ById { id: id.to_owned() };
        let found = self.unary("containers.v1.Containers/Get", by_id()).await;
        let container = match found {
            Ok(OneContainer { container: Some(container) }) if container.id == id => container,
            Ok(_) => {
                let cause = format!("the answer is not about container {id}");
                return Err(ContainerdError::Refused { op: "look up", cause });
            }
            Err(status) if status.code() == Code::NotFound => return Ok(None),
            Err(status) => return Err(refused("look up")(status)),
        };
        let task: Result<OneTask, Status> = self.unary("tasks.v1.Tasks/Get", by_id()).await;
        let runs = match task {
            Ok(OneTask { task }) => task.is_none_or(|task| task.runs()),
            // Nobody can say it of one whose helper does not answer.
            Err(status) => status.code() != Code::NotFound,
        };
        Ok(Some(RuntimeContainer { runs, pod: container.pod() }))
    }

    async fn unary<I, O>(&self, method: &str, request: I) -> Result<O, Status>
    where
        I: Message + 'static,
        O: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<I, O>::default();
        Ok(grpc.unary(namespaced(request), path(method)?, codec).await?.into_inner())
    }

    async fn streaming<I, O>(&self, method: &str, request: I) -> Result<Streaming<O>, Status>
    where
        I: Message + 'static,
        O: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<I, O>::default();
        let streaming = grpc.server_streaming(namespaced(request), path(method)?, codec);
        streaming.await.map(Response::into_inner)
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.0.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }
}

/// Where a method is called. It is one that stands in this file.
fn path<P: FromStr<Err: Display>>(method: &str) -> Result<P, Status> {
    let path = format!("/containerd.services.{method}").parse();
    path.map_err(|error: P::Err| Status::internal(error.to_string()))
}

fn namespaced<I>(request: I) -> Request<I> {
    let mut request = Request::new(request);
    let namespace = MetadataValue::from_static(NAMESPACE);
    request.metadata_mut().insert("containerd-namespace", namespace);
    request
}

/// An answer, if it comes in time.
async fn timed<T>(
    op: &'static str,
    work: impl Future<Output = Result<T, ContainerdError>>,
) -> Result<T, ContainerdError> {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(silence(op)))
}

fn silence(op: &'static str) -> ContainerdError {
    ContainerdError::Silence { op, seconds: PATIENCE.as_secs() }
}

pub(crate) fn refused(op: &'static str) -> impl Fn(Status) -> ContainerdError {
    move |status| ContainerdError::Refused { op, cause: words(&status) }
}

/// What it says, on one line.
fn words(status: &Status) -> String {
    match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    }
}
