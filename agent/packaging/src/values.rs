//! Values of an installation: read from `--set` and from files, checked, and put over the defaults.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{
    names::{named, nearest},
    objects,
    settings::{Initial, Kind, Place, RUNTIME_SOCKET, SETTINGS, Setting},
};

/// Why a value is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// There is no such value.
    #[error("there is no value {name}{}", near(.nearest.as_deref()))]
    Unknown {
        /// Its name.
        name: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// It is there, and may not be that.
    #[error("{name} is {value}: {wanted}")]
    Wrong {
        /// Its name.
        name: String,
        /// What it is.
        value: String,
        /// What to write.
        wanted: String,
    },
    /// It cannot be read.
    #[error("{text:?} cannot be read ({cause}): {wanted}")]
    Unreadable {
        /// What was given.
        text: String,
        /// What is wrong with it.
        cause: String,
        /// What to write.
        wanted: &'static str,
    },
}

fn near(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!(": did you mean {name}?"),
        None => ": agent/docs/install.md lists the values".to_owned(),
    }
}

/// The values that somebody gave; all others have their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    given: Map<String, Value>,
}

impl Values {
    /// Puts `name=value` over what is given; several are separated by commas.
    pub fn set(&mut self, text: &str) -> Result<(), ValueError> {
        for pair in split(text, ',') {
            let unreadable = |cause: &str| ValueError::Unreadable {
                text: pair.clone(),
                cause: cause.to_owned(),
                wanted: "write NAME=VALUE",
            };
            let (name, value) = pair.split_once('=').ok_or_else(|| unreadable("no = in it"))?;
            let path = split(name.trim(), '.').map(|word| word.replace("\\.", ".")).collect();
            self.set_one(path, &value.replace("\\,", ","))?;
        }
        Ok(())
    }

    fn set_one(&mut self, path: Vec<String>, text: &str) -> Result<(), ValueError> {
        let (setting, rest) = find(&path)?;
        let below = !rest.is_empty();
        let value = match setting.kind {
            Kind::List | Kind::Tree | Kind::Quantities | Kind::Texts if !below => {
                let wanted = "it is a list or a map: write it into a file for --values";
                return Err(wrong(setting.name, text, wanted));
            }
            Kind::Texts | Kind::Text | Kind::Choice(_) if text == "null" => Value::Null,
            Kind::Texts | Kind::Text | Kind::Choice(_) => Value::from(text),
            Kind::Document if !below && text != "null" => Value::from(text),
            Kind::Document
            | Kind::Tree
            | Kind::Quantities
            | Kind::Switch
            | Kind::Number(_)
            | Kind::List => serde_norway::from_str(text).unwrap_or_else(|_| Value::from(text)),
        };
        self.put(&path, setting, rest, value)
    }

    /// Puts the values of a file over what is given: YAML, as Helm reads it.
    pub fn merge(&mut self, text: &str) -> Result<(), ValueError> {
        let unreadable = |cause: String| ValueError::Unreadable {
            text: text.lines().next().unwrap_or_default().to_owned(),
            cause,
            wanted: "write a map in YAML",
        };
        let read = serde_norway::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        match read {
            Value::Null => Ok(()),
            Value::Object(members) => self.merge_map(&mut Vec::new(), members),
            _ => Err(unreadable("it is no map".to_owned())),
        }
    }

    fn merge_map(
        &mut self,
        path: &mut Vec<String>,
        members: Map<String, Value>,
    ) -> Result<(), ValueError> {
        for (key, value) in members {
            path.push(key);
            let inner = format!("{}.", path.join("."));
            match value {
                Value::Object(members) if SETTINGS.iter().any(|it| it.name.starts_with(&inner)) => {
                    self.merge_map(path, members)?;
                }
                value => {
                    let (setting, rest) = find(path)?;
                    self.put(path, setting, rest, value)?;
                }
            }
            path.pop();
        }
        Ok(())
    }

    /// Checks one value and puts it where it belongs.
    fn put(
        &mut self,
        path: &[String],
        setting: &Setting,
        rest: &[String],
        value: Value,
    ) -> Result<(), ValueError> {
        let mut value = value;
        for key in rest.iter().rev() {
            value = Value::Object(Map::from_iter([(key.clone(), value)]));
        }
        let path = &path[..path.len() - rest.len()];
        if value.is_null() {
            remove(&mut self.given, path);
            return Ok(());
        }
        let value = checked(setting, value)?;
        let mut over = value;
        for key in path.iter().rev() {
            over = Value::Object(Map::from_iter([(key.clone(), over)]));
        }
        let mut given = Value::Object(std::mem::take(&mut self.given));
        over_lay(&mut given, over, false);
        if let Value::Object(given) = given {
            self.given = given;
        }
        Ok(())
    }

    /// What is wrong with the values together.
    pub fn check(&self) -> Result<(), ValueError> {
        let all = self.all();
        let text = |name: &str| go_text(at(&all, name));
        let told = |name: &str, wanted: &str| Err(wrong(name, &text(name), wanted));
        for name in ["namespace", "image.repository", "image.tag", "cluster.name"] {
            if text(name).is_empty() {
                return told(name, "it may not be empty");
            }
        }
        if text("ipv4.enabled") == "false" && text("ipv6.enabled") == "false" {
            return told("ipv4.enabled", "so is ipv6.enabled: set one of them to true");
        }
        if text("cluster.id") != "0" && text("cluster.name") == "default" {
            return told(
                "cluster.id",
                "set cluster.name, too: other than 0 it wants a name of its own",
            );
        }
        if text("k8sServiceHost").is_empty() != text("k8sServicePort").is_empty() {
            let wanted = "k8sServiceHost and k8sServicePort go together: set both";
            return told("k8sServicePort", wanted);
        }
        if !text("k8sServicePort").is_empty() && text("k8sServicePort").parse::<u16>().is_err() {
            return told("k8sServicePort", "write a port, 1 to 65535");
        }
        check_servers(&text("k8s.apiServerURLs"))?;
        for name in ["cni.confPath", "cni.binPath"] {
            if !text(name).starts_with('/') {
                return told(name, "write a path that begins with /");
            }
        }
        check_socket(&text(RUNTIME_SOCKET))?;
        check_flags(at(&all, "extraConfig"))?;
        match at(&all, "podLabels").get("k8s-app") {
            Some(_) => told("podLabels", "k8s-app is the label by which the pods are found"),
            None => Ok(()),
        }
    }

    /// Whether somebody gave that value.
    pub fn has(&self, name: &str) -> bool {
        !at(&Value::Object(self.given.clone()), name).is_null()
    }

    /// Every value, those that nobody gave with their defaults.
    pub(crate) fn all(&self) -> Value {
        let mut all = defaults();
        over_lay(&mut all, Value::Object(self.given.clone()), true);
        all
    }

    /// What was given, as YAML: read again, it gives the same values.
    pub fn given(&self) -> String {
        if self.given.is_empty() {
            return String::new();
        }
        // A map of texts, numbers and the like can always be written.
        serde_norway::to_string(&self.given).unwrap_or_default()
    }

    /// The namespace of the objects.
    pub fn namespace(&self) -> String {
        go_text(at(&self.all(), "namespace"))
    }

    /// Names of values that are other ones there.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let (one, other) = (self.all(), other.all());
        let differs = |it: &&Setting| at(&one, it.name) != at(&other, it.name);
        SETTINGS.iter().filter(differs).map(|it| it.name).collect()
    }
}

/// The container runtime's socket lies in a directory that can be mounted beside the others.
fn check_socket(text: &str) -> Result<(), ValueError> {
    let told = |wanted: &str| Err(wrong(RUNTIME_SOCKET, text, wanted));
    let is_plain = |word: &str| !matches!(word, "" | "." | "..");
    let plain = text.strip_prefix('/').filter(|path| path.split('/').all(is_plain));
    match plain.and_then(|_| text.rsplit_once('/')) {
        None => told("write a path as /run/containerd/containerd.sock"),
        Some((directory, _)) if directory.is_empty() || objects::hides_mounts(directory) => {
            told("have the runtime listen in a directory of its own: all of it is mounted")
        }
        Some(_) => Ok(()),
    }
}

/// API servers are URLs, each once. One on loopback may be a proxy that every node has.
fn check_servers(text: &str) -> Result<(), ValueError> {
    let mut known = BTreeSet::new();
    let told = |entry: &str, wanted: &str| Err(wrong("k8s.apiServerURLs", entry, wanted));
    for entry in text.split([' ', ',']).filter(|entry| !entry.is_empty()) {
        let host = entry.strip_prefix("https://").or_else(|| entry.strip_prefix("http://"));
        if host.is_none_or(|host| host.is_empty() || host.starts_with(['/', ':'])) {
            return told(entry, "write URLs as https://HOST:PORT, separated by spaces");
        }
        if !known.insert(entry.trim_end_matches('/')) {
            return told(entry, "it is named twice: drop one of the two");
        }
    }
    Ok(())
}

/// Flags that a value sets, or the pod's mounts, may not be set a second time.
fn check_flags(flags: &Value) -> Result<(), ValueError> {
    for (key, value) in flags.as_object().into_iter().flatten() {
        let name = format!("extraConfig.{key}");
        let twin = SETTINGS.iter().find(|it| matches!(it.place, Place::Flag(flag) if flag == key));
        if let Some(twin) = twin {
            return Err(wrong(&name, &go_text(value), &format!("set {} instead", twin.name)));
        }
        if objects::MOUNTED.contains(&&**key) {
            let wanted = "it belongs to the pod's mounts; cni.confPath is the host's directory";
            return Err(wrong(&name, &go_text(value), wanted));
        }
    }
    Ok(())
}

/// The setting at the beginning of a path, and what is behind it.
fn find(path: &[String]) -> Result<(&'static Setting, &[String]), ValueError> {
    let name = path.join(".");
    let found = (1..=path.len()).find_map(|length| {
        let setting = named(&path[..length].join("."))?;
        let inside = setting.kind.has_members();
        (inside || length == path.len()).then_some((setting, &path[length..]))
    });
    match found {
        // Values of this map are texts: what has dots is one key.
        Some((setting, rest)) if setting.kind == Kind::Texts && rest.len() > 1 => {
            let wanted = format!("write {}.{}", setting.name, rest.join("\\."));
            Err(wrong(&name, "inside a text", &wanted))
        }
        Some(found) => Ok(found),
        None => Err(ValueError::Unknown { nearest: nearest(&name).map(str::to_owned), name }),
    }
}

/// The value as it is kept, if it may be that.
fn checked(setting: &Setting, value: Value) -> Result<Value, ValueError> {
    let name = setting.name;
    let refuse = |value: &Value, wanted: &str| Err(wrong(name, &go_text(value), wanted));
    match setting.kind {
        Kind::Switch => match value.as_str() {
            _ if value.is_boolean() => Ok(value),
            Some("true") => Ok(Value::Bool(true)),
            Some("false") => Ok(Value::Bool(false)),
            _ => refuse(&value, "write true or false"),
        },
        Kind::Number(max) => {
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            match number.filter(|number| *number <= max) {
                Some(number) => Ok(Value::from(number)),
                None => refuse(&value, &format!("write a number, at most {max}")),
            }
        }
        Kind::Choice(choices) => match value.as_str() {
            Some(text) if choices.contains(&text) => Ok(value),
            _ => refuse(&value, &format!("write {}", choices.join(" or "))),
        },
        Kind::Text => text(name, value),
        Kind::Texts => match value {
            Value::Object(members) => {
                let texts = members.into_iter().map(|(key, value)| {
                    let value = text(&format!("{name}.{key}"), value)?;
                    Ok((key, value))
                });
                texts.collect::<Result<_, _>>().map(Value::Object)
            }
            value => refuse(&value, "write a map of names to texts"),
        },
        Kind::Tree if value.is_object() => Ok(value),
        Kind::Quantities if value.is_object() => Ok(quantities(value)),
        Kind::Tree | Kind::Quantities => refuse(&value, "write a map"),
        Kind::Document if value.is_object() || value.is_string() => Ok(value),
        Kind::Document => refuse(&value, "write a map, or the text that the flag takes"),
        Kind::List if value.is_array() => Ok(value),
        Kind::List => refuse(&value, "write a list"),
    }
}

/// The same with its numbers as texts.
fn quantities(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (key, quantities(value))).collect()
        }
        Value::Number(number) => Value::from(number.to_string()),
        value => value,
    }
}

/// A value that is a text; numbers that look like one are taken.
fn text(name: &str, value: Value) -> Result<Value, ValueError> {
    match value {
        Value::String(_) | Value::Null => Ok(value),
        Value::Bool(_) => Ok(Value::from(go_text(&value))),
        Value::Number(number) if !number.is_f64() => Ok(Value::from(number.to_string())),
        value => Err(wrong(name, &go_text(&value), "write it in quotes, as a text")),
    }
}

fn wrong(name: &str, value: &str, wanted: &str) -> ValueError {
    let value = if value.is_empty() { "empty" } else { value };
    ValueError::Wrong { name: name.to_owned(), value: value.to_owned(), wanted: wanted.to_owned() }
}

/// The value of that name.
pub(crate) fn at<'a>(all: &'a Value, name: &str) -> &'a Value {
    name.split('.').fold(all, |value, key| &value[key])
}

/// All defaults.
pub(crate) fn defaults() -> Value {
    let template = objects::template();
    let mut all = Value::Object(Map::new());
    for setting in SETTINGS {
        let mut value = match setting.initial {
            // The table's own texts; a test reads them.
            Initial::Json(text) => serde_json::from_str(text).unwrap_or_default(),
            Initial::Template => objects::initial(&template, setting),
        };
        for key in setting.name.rsplit('.') {
            value = Value::Object(Map::from_iter([(key.to_owned(), value)]));
        }
        over_lay(&mut all, value, false);
    }
    all
}

/// Puts one tree over another. Where `removes`, a null takes away what is below it.
fn over_lay(below: &mut Value, above: Value, removes: bool) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                if removes && value.is_null() {
                    below.remove(&key);
                } else {
                    over_lay(below.entry(key).or_insert(Value::Null), value, removes);
                }
            }
        }
        (below, Value::Object(above)) if removes => {
            *below = Value::Object(Map::new());
            over_lay(below, Value::Object(above), removes);
        }
        (below, above) => *below = above,
    }
}

/// Takes away what stands at a path, and what is empty without it.
fn remove(members: &mut Map<String, Value>, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        members.remove(key);
    } else if let Some(Value::Object(inner)) = members.get_mut(key) {
        remove(inner, rest);
        if inner.is_empty() {
            members.remove(key);
        }
    }
}

/// A text in parts; the separator behind a backslash separates nothing.
fn split(text: &str, separator: char) -> impl Iterator<Item = String> {
    let mut parts = vec![String::new()];
    for letter in text.chars() {
        match parts.last_mut() {
            Some(part) if letter != separator || part.ends_with('\\') => part.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts.into_iter()
}

/// A value as Go's `%v` writes it.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let mut all: Vec<_> = members.iter().collect();
            all.sort_unstable_by_key(|(key, _)| *key);
            let all: Vec<_> =
                all.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", all.join(" "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" "))
        }
        value => value.to_string(),
    }
}
