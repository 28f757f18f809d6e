//! The API servers that are named by a setting, as URLs. They are tried in this order, round.

use std::{collections::BTreeSet, fmt, str::FromStr};

use hyper::Uri;
use serde::{Serialize, Serializer};

/// API servers of one cluster, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers(Vec<Uri>);

/// A text that names no API servers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServersError {
    /// Nothing is named, or nothing stands between two commas.
    #[error("{0:?} has an empty entry: write URL,URL, each as https://HOST:PORT")]
    Empty(String),
    /// An entry that is no URL.
    #[error("{entry:?} is no URL of an API server ({cause}): write https://HOST:PORT")]
    NoUrl {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        cause: String,
    },
    /// An entry that stands there twice.
    #[error("{0:?} is named twice: drop one of the two")]
    Doubled(String),
}

impl Servers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose turn it is, by how often it changed.
    pub(super) fn at(&self, turn: usize) -> Option<&Uri> {
        self.0.get(turn.checked_rem(self.0.len())?)
    }
}

impl FromStr for Servers {
    type Err = ServersError;

    /// Reads URLs with commas between, or spaces, as Cilium's chart writes them.
    fn from_str(text: &str) -> Result<Self, ServersError> {
        let (mut servers, mut known) = (Vec::new(), BTreeSet::new());
        for part in text.split(',') {
            let mut entries = part.split_whitespace().peekable();
            if entries.peek().is_none() {
                return Err(ServersError::Empty(text.to_owned()));
            }
            for entry in entries {
                let uri = uri(entry)?;
                if !known.insert(place(&uri)) {
                    return Err(ServersError::Doubled(entry.to_owned()));
                }
                servers.push(uri);
            }
        }
        Ok(Self(servers))
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(told).collect::<Vec<_>>().join(","))
    }
}

impl Serialize for Servers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A server's address as people are told it.
pub(super) fn told(uri: &Uri) -> String {
    uri.to_string().trim_end_matches('/').to_owned()
}

/// What two entries have in common that name one server.
fn place(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or_default();
    let host = uri.host().unwrap_or_default().to_lowercase();
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    format!("{scheme}://{host}:{port}{}", uri.path().trim_end_matches('/'))
}

/// Reads an entry. One without a scheme is asked without encryption.
fn uri(entry: &str) -> Result<Uri, ServersError> {
    let no_url =
        |cause: &str| ServersError::NoUrl { entry: entry.to_owned(), cause: cause.to_owned() };
    let text = if entry.contains("://") { entry.to_owned() } else { format!("http://{entry}") };
    let uri: Uri =
        text.parse().map_err(|error: hyper::http::uri::InvalidUri| no_url(&error.to_string()))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(no_url("its scheme is neither https nor http"));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(no_url("it has no host"));
    }
    let authority = uri.authority().map_or("", |it| it.as_str());
    let host = uri.host().unwrap_or_default();
    if !authority.ends_with(host) && uri.port_u16().is_none() {
        return Err(no_url("what stands behind the host is no port"));
    }
    if uri.query().is_some() {
        return Err(no_url("it has a query"));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<Servers>().unwrap_err().to_string()
    }

    #[test]
    fn servers_are_named_with_commas_or_spaces_between() {
        let all = "https://10.0.0.1:6443,https://[fd00::1]:6443";
        let servers: Servers = all.parse().unwrap();
        assert_eq!((servers.len(), servers.to_string().as_str()), (2, all));
        assert_eq!("https://10.0.0.1:6443  https://[fd00::1]:6443 ".parse(), Ok(servers.clone()));
        let at = |turn| servers.at(turn).map(told).unwrap();
        assert_eq!(at(0), "https://10.0.0.1:6443");
        assert_eq!((at(1), at(2)), ("https://[fd00::1]:6443".to_owned(), at(0)));
        assert_eq!(Servers::default().at(1), None);
        // As one server could be named before there were several.
        let plain: Servers = "localhost:8080".parse().unwrap();
        assert_eq!(plain.to_string(), "http://localhost:8080");
    }

    #[test]
    fn an_entry_that_is_none_is_named_with_what_to_write() {
        for text in ["", " ", "https://a:1,,https://b:1", "https://a:1,"] {
            assert!(refused(text).contains("has an empty entry: write URL,URL"), "{text}");
        }
        for (text, entry, cause) in [
            ("https://a:1,ftp://b", "\"ftp://b\"", "neither https nor http"),
            ("https://a:1,https://b:x", "\"https://b:x\"", "behind the host is no port"),
            ("https://a:", "\"https://a:\"", "behind the host is no port"),
            ("https://a:65536", "\"https://a:65536\"", "behind the host is no port"),
            ("https://", "\"https://\"", "no URL"),
            ("https://a?b=c", "\"https://a?b=c\"", "it has a query"),
        ] {
            let said = refused(text);
            assert!(said.contains(entry) && said.contains(cause), "{text}: {said}");
            assert!(said.ends_with("write https://HOST:PORT"), "{said}");
        }
        for (text, twice) in [
            ("https://a:1 https://b:1,https://A:1/", "https://A:1/"),
            ("https://a,https://a:443", "https://a:443"),
        ] {
            let said = refused(text);
            assert_eq!(said, format!("{twice:?} is named twice: drop one of the two"));
        }
        assert!("https://a,http://a,https://a/other".parse::<Servers>().is_ok());
    }
}
