//! TLS of the TCP listener: certificates are read again when their files change, and whoever connects has
//! to show one where an authority of clients is named.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

/// How often files are looked at.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// Where certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those that vouch for it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authorities of clients' certificates; none lets everybody connect.
    pub client_authorities: Vec<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {}: {cause}; the server waits for a file that can be used", .path.display())]
pub(crate) struct TlsError {
    flag: &'static str,
    path: PathBuf,
    cause: String,
}

/// TLS by the files as they are.
pub(crate) struct Tls {
    files: TlsFiles,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked: Option<Instant>,
    times: Vec<Option<SystemTime>>,
    config: Option<Arc<ServerConfig>>,
}

impl Tls {
    pub(crate) fn new(files: TlsFiles) -> Self {
        Self { files, state: Mutex::default() }
    }

    /// How to greet the next one who connects. A new file that cannot be used leaves the one before.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = state.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
        let times = if is_due { self.times() } else { state.times.clone() };
        if state.config.is_none() || times != state.times {
            match self.read() {
                Ok(config) => state.config = Some(Arc::new(config)),
                Err(error) if state.config.is_none() => return Err(error),
                Err(error) => tracing::warn!(%error, "Hubble's certificate stays the one before"),
            }
            state.times = times;
        }
        if is_due {
            state.looked = Some(Instant::now());
        }
        let config = state.config.clone().unwrap_or_else(|| unreachable!("it is read above"));
        Ok(TlsAcceptor::from(config))
    }

    fn times(&self) -> Vec<Option<SystemTime>> {
        let TlsFiles { certificate, key, client_authorities } = &self.files;
        let all = [certificate, key].into_iter().chain(client_authorities);
        all.map(|path| fs::metadata(path).and_then(|it| it.modified()).ok()).collect()
    }

    fn read(&self) -> Result<ServerConfig, TlsError> {
        let TlsFiles { certificate, key, client_authorities } = &self.files;
        let trouble = |flag, path: &Path, cause: &dyn ToString| TlsError {
            flag,
            path: path.to_owned(),
            cause: cause.to_string(),
        };
        let (of_certificate, of_key) = ("--hubble-tls-cert-file", "--hubble-tls-key-file");
        let chain =
            certificates(certificate).map_err(|it| trouble(of_certificate, certificate, &it))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|it| trouble(of_key, key, &it))?;
        let mut roots = RootCertStore::empty();
        for path in client_authorities {
            let flag = "--hubble-tls-client-ca-files";
            for one in certificates(path).map_err(|it| trouble(flag, path, &it))? {
                roots.add(one).map_err(|it| trouble(flag, path, &it))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|it| trouble(of_certificate, certificate, &it))?;
        let builder = match client_authorities.first() {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let flag = "--hubble-tls-client-ca-files";
                builder.with_client_cert_verifier(verifier.map_err(|it| trouble(flag, path, &it))?)
            }
        };
        let mut config = builder
            .with_single_cert(chain, private)
            .map_err(|it| trouble(of_certificate, certificate, &it))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err("there is no certificate in it".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(error.to_string()),
    }
}
