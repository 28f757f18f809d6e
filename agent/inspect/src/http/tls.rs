//! TLS of a TCP listener: certificates are read again when their files change, and whoever connects has
//! to show one where an authority of clients is named.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use axum::serve::Listener;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a greeting may take,
const GREETING_PATIENCE: Duration = Duration::from_secs(10);
/// and how many may be under way at a time.
const GREETINGS_MAX: usize = 64;
/// How long is waited when nobody can be let in.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

/// Where certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The flags that name the certificate, the key, and the authorities: for who reads of a trouble.
    pub flags: [&'static str; 3],
    /// The server's certificate, and those that vouch for it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authorities of clients' certificates; none lets everybody connect.
    pub client_authorities: Vec<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{flag} {}: {cause}; the server waits for a file that can be used", .path.display())]
    File {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A certificate of its own cannot be made.
    #[error("a certificate cannot be made: {0}; name one by flag")]
    Own(String),
}

/// TLS by the files as they are, or by a certificate that is made for one life.
#[derive(Debug)]
pub struct Tls {
    files: Option<TlsFiles>,
    /// What is spoken then, `h2` or `http/1.1`.
    speaks: &'static [u8],
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Instant>,
    times: Vec<Option<SystemTime>>,
    config: Option<Arc<ServerConfig>>,
}

impl Tls {
    /// By files, which may come later.
    pub fn new(files: TlsFiles, speaks: &'static [u8]) -> Self {
        Self { files: Some(files), speaks, state: Mutex::default() }
    }

    /// By a certificate that nobody vouches for: what is said is hidden from who listens, and that is all.
    pub fn own(names: Vec<String>, speaks: &'static [u8]) -> Result<Self, TlsError> {
        let own = |error: &dyn ToString| TlsError::Own(error.to_string());
        let made = rcgen::generate_simple_self_signed(names).map_err(|it| own(&it))?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let key = key.map_err(|it| own(&it))?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_no_client_auth().with_single_cert(vec![made.cert.into()], key));
        let config = speaking(config.map_err(|it| own(&it))?, speaks);
        let state = State { config: Some(config), ..State::default() };
        Ok(Self { files: None, speaks, state: Mutex::new(state) })
    }

    /// How to greet the next one who connects. A new file that cannot be used leaves the one before.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = &self.files {
            let is_due = state.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
            let times = if is_due { files.times() } else { state.times.clone() };
            if state.config.is_none() || times != state.times {
                match files.read() {
                    Ok(config) => state.config = Some(speaking(config, self.speaks)),
                    Err(error) if state.config.is_none() => return Err(error),
                    Err(error) => tracing::warn!(%error, "the certificate stays the one before"),
                }
                state.times = times;
            }
            if is_due {
                state.looked = Some(Instant::now());
            }
        }
        let config = state.config.clone().unwrap_or_else(|| unreachable!("it is read above"));
        Ok(TlsAcceptor::from(config))
    }
}

impl TlsFiles {
    /// Those that settings name; nothing without a certificate and its key.
    pub fn named(
        flags: [&'static str; 3],
        certificate: Option<&PathBuf>,
        key: Option<&PathBuf>,
        authorities: &[String],
    ) -> Option<Self> {
        let (certificate, key) = (certificate?.clone(), key?.clone());
        let client_authorities = authorities.iter().map(PathBuf::from).collect();
        Some(Self { flags, certificate, key, client_authorities })
    }

    fn times(&self) -> Vec<Option<SystemTime>> {
        let Self { certificate, key, client_authorities, .. } = self;
        let all = [certificate, key].into_iter().chain(client_authorities);
        all.map(|path| fs::metadata(path).and_then(|it| it.modified()).ok()).collect()
    }

    fn read(&self) -> Result<ServerConfig, TlsError> {
        let Self { flags: [of_certificate, of_key, of_authorities], .. } = *self;
        let Self { certificate, key, client_authorities, .. } = self;
        let trouble = |flag, path: &Path, cause: &dyn ToString| TlsError::File {
            flag,
            path: path.to_owned(),
            cause: cause.to_string(),
        };
        let chain =
            certificates(certificate).map_err(|it| trouble(of_certificate, certificate, &it))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|it| trouble(of_key, key, &it))?;
        let mut roots = RootCertStore::empty();
        for path in client_authorities {
            for one in certificates(path).map_err(|it| trouble(of_authorities, path, &it))? {
                roots.add(one).map_err(|it| trouble(of_authorities, path, &it))?;
            }
        }
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|it| trouble(of_certificate, certificate, &it))?;
        let builder = match client_authorities.first() {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let verifier = verifier.map_err(|it| trouble(of_authorities, path, &it))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        builder
            .with_single_cert(chain, private)
            .map_err(|it| trouble(of_certificate, certificate, &it))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn speaking(mut config: ServerConfig, speaks: &[u8]) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![speaks.to_vec()];
    Arc::new(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err("there is no certificate in it".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(error.to_string()),
    }
}

/// Listens, and greets by TLS. Who does not greet holds up nobody else.
#[derive(Debug)]
pub struct TlsListener {
    tcp: TcpListener,
    tls: Tls,
    greetings: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    /// Over a listener, once there are certificates: whoever makes them may come later.
    pub async fn new(tcp: TcpListener, tls: Tls) -> Self {
        let mut told = String::new();
        while let Err(error) = tls.acceptor() {
            let text = error.to_string();
            if text != told {
                let address = tcp.local_addr().ok();
                tracing::warn!(?address, %error, "nobody is served there yet");
                told = text;
            }
            sleep(LOOK_EVERY).await;
        }
        Self { tcp, tls, greetings: JoinSet::new() }
    }

    fn greet(&mut self, stream: TcpStream, from: SocketAddr) {
        // Without it an answer may wait for the next one.
        let _ = stream.set_nodelay(true);
        match self.tls.acceptor() {
            Ok(acceptor) => drop(self.greetings.spawn(async move {
                match timeout(GREETING_PATIENCE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => return Some((stream, from)),
                    Ok(Err(error)) => tracing::debug!(%from, %error, "a client is refused"),
                    Err(_) => tracing::debug!(%from, "a client does not greet in time"),
                }
                None
            })),
            Err(error) => tracing::warn!(%error, "a client cannot be served"),
        }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let has_room = self.greetings.len() < GREETINGS_MAX;
            tokio::select! {
                Some(greeted) = self.greetings.join_next() => {
                    if let Ok(Some(greeted)) = greeted {
                        return greeted;
                    }
                }
                accepted = self.tcp.accept(), if has_room => match accepted {
                    Ok((stream, from)) => self.greet(stream, from),
                    Err(error) => {
                        tracing::warn!(%error, "a client cannot be let in");
                        sleep(REFUSAL_PAUSE).await;
                    }
                },
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
