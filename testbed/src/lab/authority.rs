//! Who signs certificates in the lab.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// How the authority signs: whatever name is asked for.
const CONFIGURATION: &str = "\
[ca]
default_ca = lab
[lab]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = anybody
unique_subject = no
[anybody]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
extendedKeyUsage = serverAuth, clientAuth
";

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Today.
    Today,
    /// Not any more.
    Over,
}

/// A certificate authority. Its certificate is `ca.pem`, each that it signs is `NAME.pem` with the
/// key `NAME.key`.
#[derive(Debug)]
pub struct Authority {
    place: PathBuf,
}

impl Authority {
    /// Makes one that keeps everything below `place`.
    pub fn create(place: &Path) -> Result<Self> {
        fs::create_dir_all(place)?;
        fs::write(place.join("openssl.cnf"), CONFIGURATION)?;
        fs::write(place.join("index"), "")?;
        let authority = Self { place: place.to_owned() };
        authority.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
             -subj /CN=lab-authority -keyout ca.key -out ca.pem",
        )?;
        Ok(authority)
    }

    /// Signs a certificate for a server on loopback or a client, in place of an earlier one of that
    /// name.
    pub fn sign(&self, name: &str, validity: Validity) -> Result<()> {
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} \
             -keyout {name}.key -out {name}.csr"
        ))?;
        let days = match validity {
            Validity::Today => "-days 2",
            Validity::Over => "-startdate 20200101000000Z -enddate 20200102000000Z",
        };
        self.openssl(&format!(
            "ca -batch -notext -config openssl.cnf -extensions server -cert ca.pem -keyfile ca.key \
             {days} -in {name}.csr -out {name}.pem"
        ))
    }

    /// Where they are.
    pub fn place(&self) -> &Path {
        &self.place
    }

    fn openssl(&self, words: &str) -> Result<()> {
        let output = Command::new("openssl")
            .current_dir(&self.place)
            .args(words.split_whitespace())
            .output()
            .context("cannot run openssl: install the package openssl")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "openssl {words}: {complaint}");
        Ok(())
    }
}
