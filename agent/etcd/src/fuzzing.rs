//! For the fuzzer: what is said of etcd.

use std::{fs, path::Path};

use super::{Endpoints, EtcdOptions};

/// What flags and the file of etcd's clients say.
pub fn etcd(dir: &Path, data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match text.parse::<EtcdOptions>() {
        // Its files are somebody else's.
        Ok(options) => drop(Endpoints::read(&EtcdOptions { config: None, ..options })),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let path = dir.join("etcd.yaml");
    fs::write(&path, data).expect("there is room");
    if !text.contains("file") {
        drop(Endpoints::read(&EtcdOptions { config: Some(path), address: None }));
    }
}
