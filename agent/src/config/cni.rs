//! How the agent goes together with other CNI plugins: the list that runtimes are given, and what of a
//! list that somebody else wrote counts here.

use std::{fs, path::PathBuf};

use clap::{ArgAction, Args, ValueEnum};
use serde::Serialize;
use volvox_cni::{Composition, CustomConflist};

use super::{Config, ConfigError, Origin, layers::Origins};

/// With which other plugins ours goes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChainingMode {
    /// With none: ours makes interfaces of pods
    #[default]
    None,
    /// Behind ours, portmap makes ports of the node lead to pods
    Portmap,
    /// Ours serves the veth pairs of the plugin of --cni-chaining-target, or of a list of one's own
    GenericVeth,
    /// The same; the target is aws-cni if none is given
    AwsCni,
    /// The same
    Azure,
    /// The same; without a target the list has flannel, portmap and ours
    Flannel,
}

/// The target of `aws-cni`, if none is given.
const AWS_TARGET: &str = "aws-cni";

/// Flags of the CNI configuration.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CniOptions {
    /// Where the CNI configuration is written once the agent is ready, a file or a directory; nowhere
    /// if not given
    #[arg(long, value_name = "FILE")]
    #[serde(rename = "WriteCNIConfigurationWhenReady")]
    pub write_cni_conf_when_ready: Option<PathBuf>,

    /// CNI configuration that is written there as it is, instead of one that the agent makes; the mtu
    /// of volvox-cni in it counts instead of --mtu
    #[arg(long, value_name = "FILE")]
    #[serde(rename = "ReadCNIConfiguration")]
    pub read_cni_conf: Option<PathBuf>,

    /// With which other CNI plugins volvox-cni goes together
    #[arg(long, value_enum, ignore_case = true, value_name = "MODE", default_value = "none")]
    #[serde(rename = "CNIChainingMode")]
    pub cni_chaining_mode: ChainingMode,

    /// The CNI network into whose list of plugins volvox-cni is put, * for the first there is
    #[arg(long, value_name = "NETWORK")]
    #[serde(rename = "CNIChainingTarget")]
    pub cni_chaining_target: Option<String>,

    /// Whether configurations of other CNI plugins beside it are set aside, until `uninstall`
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "CNIExclusive")]
    pub cni_exclusive: bool,

    /// Where the CNI plugin logs to; written into the CNI configuration
    #[arg(long, value_name = "FILE", default_value = "/var/run/cilium/cilium-cni.log")]
    #[serde(rename = "CNILogFile")]
    pub cni_log_file: PathBuf,

    /// What `--read-cni-conf` names, as it was when the agent started.
    #[arg(skip)]
    #[serde(skip)]
    pub custom: Option<CustomConflist>,
}

impl CniOptions {
    /// With whom ours goes together, what is given by the target considered.
    pub fn mode(&self) -> ChainingMode {
        match (self.cni_chaining_mode, &self.cni_chaining_target) {
            (ChainingMode::None, Some(_)) => ChainingMode::GenericVeth,
            (mode, _) => mode,
        }
    }

    /// The mode's name.
    pub fn mode_name(&self) -> String {
        let value = self.mode().to_possible_value();
        value.map_or_else(String::new, |it| it.get_name().to_owned())
    }

    /// What is written into the CNI configuration.
    pub fn composition(&self) -> Composition {
        if let Some(custom) = &self.custom {
            return Composition::Custom(custom.clone());
        }
        let of_mode = (self.mode() == ChainingMode::AwsCni).then_some(AWS_TARGET);
        match self.cni_chaining_target.as_deref().or(of_mode) {
            Some(network) => {
                Composition::Into { network: network.to_owned(), mode: self.mode_name() }
            }
            None if self.mode() == ChainingMode::Portmap => Composition::Portmap,
            None if self.mode() == ChainingMode::Flannel => Composition::Flannel,
            None => Composition::Alone,
        }
    }

    /// Reads what `--read-cni-conf` names. The file is looked at once: a change is in force after a
    /// restart, as that of a flag.
    pub(super) fn read(&mut self) -> Result<(), ConfigError> {
        let Some(path) = &self.read_cni_conf else { return Ok(()) };
        let wrong = |why: String| ConfigError::CniConf { path: path.clone(), why };
        let text = fs::read(path)
            .map_err(|error| wrong(format!("{error}; correct the name, or drop the flag")))?;
        let custom = CustomConflist::parse(&text).map_err(|error| wrong(error.to_string()))?;
        self.custom = Some(custom);
        Ok(())
    }
}

impl Config {
    /// The largest packet that the node's devices are said to take; 0 if nobody says it.
    pub fn said_mtu(&self) -> u32 {
        self.cni.custom.as_ref().and_then(|custom| custom.mtu).unwrap_or(self.mtu)
    }
}

/// Refuses what cannot be written.
pub(super) fn check(
    config: &Config,
    origins: &Origins,
    say: &impl Fn(&str, &dyn std::fmt::Display) -> String,
) -> Result<(), ConfigError> {
    let cni = &config.cni;
    let (mode, named) = (cni.cni_chaining_mode, cni.mode_name());
    let contradiction = |one, other, why| Err(ConfigError::Contradiction { one, other, why });
    if let Some(target) = &cni.cni_chaining_target {
        let target = || say("cni-chaining-target", target);
        if let Some(path) = &cni.read_cni_conf {
            let why = "one configuration is written; drop one of the two";
            return contradiction(target(), say("read-cni-conf", &path.display()), why);
        }
        let said_none =
            mode == ChainingMode::None && origins.of("cni-chaining-mode") != Origin::Default;
        if said_none || mode == ChainingMode::Portmap {
            let other = say("cni-chaining-mode", &if said_none { "none" } else { named.as_str() });
            let why = "behind another plugin ours makes no interface; say generic-veth, or drop the target";
            return contradiction(target(), other, why);
        }
    }
    let is_behind = matches!(mode, ChainingMode::GenericVeth | ChainingMode::Azure);
    if let Some(place) = &cni.write_cni_conf_when_ready
        && is_behind
        && cni.composition() == Composition::Alone
    {
        let one = say("cni-chaining-mode", &named);
        let other = say("write-cni-conf-when-ready", &place.display());
        let why = "nothing says which plugin comes before ours; name its network by \
                   --cni-chaining-target, or the whole list by --read-cni-conf, or do not write one";
        return contradiction(one, other, why);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    fn loaded(flags: &[&str]) -> Result<Config, ConfigError> {
        let all = ["volvox-agent"].iter().chain(flags);
        load(all.copied(), |_| None).map(|loaded| loaded.config)
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_mode_and_a_target_say_what_is_written() {
        let of = |flags: &[&str]| {
            let cni = loaded(flags).unwrap().cni;
            (cni.mode_name(), cni.composition())
        };
        let into = |network: &str, mode: &str| Composition::Into {
            network: network.to_owned(),
            mode: mode.to_owned(),
        };
        assert_eq!(of(&[]), ("none".to_owned(), Composition::Alone));
        let portmap = of(&["--cni-chaining-mode=portmap"]);
        assert_eq!(portmap, ("portmap".to_owned(), Composition::Portmap));
        let flannel = of(&["--cni-chaining-mode=flannel"]);
        assert_eq!(flannel.1, Composition::Flannel);
        let target = of(&["--cni-chaining-target=site"]);
        assert_eq!(target, ("generic-veth".to_owned(), into("site", "generic-veth")));
        assert_eq!(of(&["--cni-chaining-mode=aws-cni"]).1, into("aws-cni", "aws-cni"));
    }

    #[test]
    fn a_file_is_taken_as_it_is_and_its_mtu_counts() {
        let text = r#"{"name": "a", "plugins": [{"type": "volvox-cni", "mtu": 1400}]}"#;
        let file = file(text);
        let flag = format!("--read-cni-conf={}", file.path().display());
        let config = loaded(&[&flag, "--mtu=9000"]).unwrap();
        assert_eq!(config.said_mtu(), 1400);
        assert!(matches!(config.cni.composition(), Composition::Custom(_)));
        assert_eq!(loaded(&["--mtu=9000"]).unwrap().said_mtu(), 9000);
    }

    #[test]
    fn what_cannot_be_written_is_refused_with_a_remedy() {
        let garbled = file("{");
        let without = file(r#"{"plugins": [{"type": "bridge"}]}"#);
        let tiny = file(r#"{"plugins": [{"type": "volvox-cni", "mtu": 900}]}"#);
        let read =
            |file: &tempfile::NamedTempFile| format!("--read-cni-conf={}", file.path().display());
        for (flags, word) in [
            (vec!["--read-cni-conf=/none/such".to_owned()], "drop the flag"),
            (vec![read(&garbled)], "no JSON"),
            (vec![read(&without)], "but bridge"),
            (vec![read(&tiny)], "mtu 900 of --read-cni-conf"),
            (vec![read(&tiny), "--cni-chaining-target=a".to_owned()], "one configuration"),
            (
                vec!["--cni-chaining-target=a".to_owned(), "--cni-chaining-mode=none".to_owned()],
                "say generic-veth",
            ),
            (
                vec![
                    "--cni-chaining-mode=generic-veth".to_owned(),
                    "--write-cni-conf-when-ready=/etc/cni/net.d/".to_owned(),
                ],
                "--cni-chaining-target",
            ),
        ] {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let error = loaded(&flags).unwrap_err().to_string();
            assert!(error.contains(word), "{error} does not say {word}");
        }
        // Nobody writes it: another one does, or the runtime knows it already.
        loaded(&["--cni-chaining-mode=generic-veth"]).unwrap();
    }
}
