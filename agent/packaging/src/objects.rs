//! The objects: the templates `daemonset.yaml` and `operator.yaml` with values put into them.

use std::{fmt::Write, path::Path};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use volvox_inspect::manifests;

use crate::{
    definitions,
    names::named,
    settings::{Kind, NO_RUNTIME, Place, RUNTIME, RUNTIME_FLAG, RUNTIME_SOCKET, SETTINGS, Setting},
    values::{Values, at, go_text},
};

/// What every object of an installation is called, but for its ConfigMaps.
pub const NAME: &str = "volvox";
/// The ConfigMap that keeps which values were given.
pub const VALUES: &str = "volvox-values";
/// The label by which what an installation made is found.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The label of what belongs together.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// Who manages the objects that `volvox install` makes; also their field manager.
pub const MANAGER: &str = "volvox";
/// The pods' annotation that changes when the ConfigMap does, so that they are replaced.
pub const HASH: &str = "volvox.io/config-hash";

/// Keys of the ConfigMap that belong to the pod's mounts.
pub(crate) const MOUNTED: [&str; 2] = ["procfs", "write-cni-conf-when-ready"];
/// The volume of the container runtime's socket.
const RUNTIME_VOLUME: &str = "container-runtime";
/// Servers from this minor version on know `appArmorProfile`.
const APP_ARMOR_MINOR: u32 = 30;
const OLD_APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/agent";

const TEMPLATE: &str = include_str!("../daemonset.yaml");
const OPERATOR: &str = include_str!("../operator.yaml");

/// What differs between those who apply the objects.
pub(crate) struct Marks {
    /// Who manages them.
    pub(crate) manager: String,
    /// The annotation [`HASH`].
    pub(crate) hash: String,
}

/// All objects, in the order in which they are applied: definitions first.
pub fn objects(values: &Values) -> Vec<Value> {
    let all = values.all();
    let marks = Marks { manager: MANAGER.to_owned(), hash: hash(&all) };
    let mut made = definitions();
    made.iter_mut().for_each(|object| label(object, &marks.manager));
    made.extend(rendered(&all, &marks));
    made
}

/// The ConfigMap that keeps which values were given, for the next upgrade.
pub fn record(values: &Values) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": VALUES, "namespace": values.namespace() },
        "data": { "values.yaml": values.given() },
    });
    label(&mut object, MANAGER);
    object
}

/// Changes the objects to what a server of version 1.`minor` knows.
pub fn for_server(objects: &mut [Value], minor: u32) {
    if minor >= APP_ARMOR_MINOR {
        return;
    }
    for set in objects.iter_mut().filter(|it| it["kind"] == "DaemonSet") {
        let template = &mut set["spec"]["template"];
        let containers = template["spec"]["containers"].as_array_mut();
        for context in containers.into_iter().flatten().map(|it| &mut it["securityContext"]) {
            if let Some(context) = context.as_object_mut() {
                context.remove("appArmorProfile");
            }
        }
        template["metadata"]["annotations"][OLD_APP_ARMOR] = "unconfined".into();
    }
}

/// The templates' objects. The agents come last: what their pods need is there before them.
pub(crate) fn template() -> Vec<Value> {
    // A file of this crate that cannot be read fails its tests, not a cluster.
    let mut all = manifests::objects(TEMPLATE).unwrap_or_default();
    let agents = all.pop();
    all.extend(manifests::objects(OPERATOR).unwrap_or_default());
    all.extend(agents);
    all
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|it| it["kind"] == kind).unwrap_or(&Value::Null)
}

/// What the template has for a value.
pub(crate) fn initial(template: &[Value], setting: &Setting) -> Value {
    let data = &of_kind(template, "ConfigMap")["data"];
    let set = of_kind(template, "DaemonSet");
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    match setting.place {
        Place::Flag(key) => match (setting.kind, data[key].as_str()) {
            (Kind::Switch | Kind::Number(_), Some(text)) => {
                serde_json::from_str(text).unwrap_or_default()
            }
            _ => data[key].clone(),
        },
        Place::Flags => {
            let mut more = data.clone();
            if let Some(more) = more.as_object_mut() {
                more.retain(|key, _| !is_known(key));
            }
            more
        }
        Place::Namespace => set["metadata"]["namespace"].clone(),
        Place::Image => image_part(&container["image"], setting),
        Place::OperatorImage => {
            let pod = &of_kind(template, "Deployment")["spec"]["template"]["spec"];
            image_part(&pod["containers"][0]["image"], setting)
        }
        Place::Operators => of_kind(template, "Deployment")["spec"]["replicas"].clone(),
        Place::EveryContainer(member)
        | Place::Container(member)
        | Place::ContainerItems(member) => container[member].clone(),
        // They have nothing further.
        Place::PodItems(_) | Place::OperatorPodItems(_) | Place::OperatorContainerItems(_) => {
            Value::Null
        }
        Place::Variable(_) | Place::PodMetadata(_) | Place::Runtime => Value::Null,
        Place::Pod(member) => pod[member].clone(),
        Place::Set(member) => set["spec"][member].clone(),
        Place::Volume(name) => volume(pod, name)["hostPath"]["path"].clone(),
    }
}

/// What stands before the colon of an image's name, or behind it.
fn image_part(image: &Value, setting: &Setting) -> Value {
    let image = image.as_str().unwrap_or_default();
    let (repository, tag) = image.rsplit_once(':').unwrap_or((image, ""));
    Value::from(if setting.name.ends_with("tag") { tag } else { repository })
}

/// Whether a key of the ConfigMap has a value of its own, or belongs to the pod's mounts.
fn is_known(key: &str) -> bool {
    let has = |it: &Setting| matches!(it.place, Place::Flag(flag) if flag == key);
    MOUNTED.contains(&key) || SETTINGS.iter().any(has)
}

fn volume<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let volumes = pod["volumes"].as_array();
    volumes.into_iter().flatten().find(|it| it["name"] == name).unwrap_or(&Value::Null)
}

/// The template's objects with those values in them.
pub(crate) fn rendered(all: &Value, marks: &Marks) -> Vec<Value> {
    let mut objects = template();
    let namespace = at(all, "namespace");
    for object in &mut objects {
        label(object, &marks.manager);
        if !object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = namespace.clone();
        }
        match object["kind"].as_str() {
            Some("ClusterRoleBinding" | "RoleBinding") => {
                object["subjects"][0]["namespace"] = namespace.clone();
            }
            Some("ConfigMap") => object["data"] = data(all),
            Some("DaemonSet") => daemon_set(object, all, marks),
            Some("Deployment") => deployment(object, all, marks),
            _ => {}
        }
    }
    objects
}

/// Gives an object the labels by which it is found.
fn label(object: &mut Value, manager: &str) {
    let labels = &mut object["metadata"]["labels"];
    labels[MANAGED_BY] = manager.into();
    labels[PART_OF] = NAME.into();
}

/// Keys of the ConfigMap in the order of the hash, each with what it says: a value, or always that.
pub(crate) fn entries() -> Vec<(&'static str, Result<&'static str, String>)> {
    let flags = SETTINGS.iter().filter_map(|it| match it.place {
        Place::Flag(flag) => Some((flag, Ok(it.name))),
        _ => None,
    });
    let template = template();
    let data = &of_kind(&template, "ConfigMap")["data"];
    flags.chain(MOUNTED.map(|key| (key, Err(go_text(&data[key]))))).collect()
}

/// What the agent's ConfigMap says. What is empty is left to the agent's default.
fn data(all: &Value) -> Value {
    let mut data = Map::new();
    for (key, value) in entries() {
        let text = value.map_or_else(|it| it, |name| said(name, at(all, name)));
        put(&mut data, key, &Value::from(text));
    }
    if at(all, RUNTIME) == NO_RUNTIME {
        data.remove(RUNTIME_FLAG);
    }
    extend(&mut data, at(all, "extraConfig"));
    Value::Object(data)
}

/// What the ConfigMap says of a value.
fn said(name: &str, value: &Value) -> String {
    match named(name).map(|it| it.kind) {
        Some(Kind::Document) if is_empty(value) => String::new(),
        Some(Kind::Document) if value.is_object() => value.to_string(),
        _ => go_text(value),
    }
}

/// A number for what the ConfigMap says, which the chart computes alike.
pub(crate) fn hash(all: &Value) -> String {
    let mut text = String::new();
    for (key, value) in entries() {
        let value = value.map_or_else(|it| it, |name| go_text(at(all, name)));
        // Writing to a text never fails.
        let _ = writeln!(text, "{key}={value}");
    }
    let _ = writeln!(text, "{}", go_text(at(all, "extraConfig")));
    sha256(&text)
}

/// The sum of a text, as Helm's `sha256sum` writes it.
pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn daemon_set(set: &mut Value, all: &Value, marks: &Marks) {
    let metadata = &mut set["spec"]["template"]["metadata"];
    metadata["annotations"] = json!({ HASH: marks.hash });
    for setting in SETTINGS {
        let value = at(all, setting.name);
        let template = &mut set["spec"]["template"];
        match setting.place {
            Place::Flag(_)
            | Place::Flags
            | Place::Namespace
            | Place::OperatorImage
            | Place::OperatorPodItems(_)
            | Place::OperatorContainerItems(_)
            | Place::Operators => {}
            Place::Runtime => runtime(&mut template["spec"], all),
            Place::Image => every_container(template, "image", &image(all, "image")),
            Place::EveryContainer(member) => every_container(template, member, value),
            Place::Container(member) => put_in(agent(template), member, value),
            Place::ContainerItems(member) => append(&mut agent(template)[member], value),
            Place::PodItems(member) => append(&mut template["spec"][member], value),
            Place::Variable(name) => variable(template, name, value),
            Place::Pod(member) => put_in(&mut template["spec"], member, value),
            Place::PodMetadata(member) => {
                if let Some(members) = template["metadata"][member].as_object_mut() {
                    extend(members, value);
                }
            }
            Place::Set(member) => put_in(&mut set["spec"], member, value),
            Place::Volume(name) => {
                let volumes = template["spec"]["volumes"].as_array_mut();
                let mut volumes = volumes.into_iter().flatten();
                if let Some(volume) = volumes.find(|it| it["name"] == name) {
                    volume["hostPath"]["path"] = value.clone();
                }
            }
        }
    }
}

/// Mounts the directory of the container runtime's socket, if the runtime is followed. The socket is made anew
/// with each start of the runtime. The directory also has mounts of containers: what the host unmounts there
/// is not held here.
fn runtime(pod: &mut Value, all: &Value) {
    if at(all, RUNTIME) == NO_RUNTIME {
        return;
    }
    let socket = go_text(at(all, RUNTIME_SOCKET));
    // What has no directory stands for one that a chart puts there.
    let directory = socket.rsplit_once('/').map_or(&*socket, |(directory, _)| directory);
    let mount = json!([{
        "name": RUNTIME_VOLUME,
        "mountPath": directory,
        "mountPropagation": "HostToContainer",
        "readOnly": true,
    }]);
    append(&mut pod["containers"][0]["volumeMounts"], &mount);
    // A node without that runtime has no such directory, and its agent starts all the same.
    let place = json!({ "path": directory, "type": "DirectoryOrCreate" });
    append(&mut pod["volumes"], &json!([{ "name": RUNTIME_VOLUME, "hostPath": place }]));
}

/// Whether a mount there would hide one that the agent's container has anyway.
pub(crate) fn hides_mounts(directory: &str) -> bool {
    let template = template();
    let container = &of_kind(&template, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let mut paths = mounts.filter_map(|mount| mount["mountPath"].as_str());
    paths.any(|path| Path::new(path).starts_with(directory))
}

/// The operator's pods share with the agents' where the API server and the images are.
fn deployment(deployment: &mut Value, all: &Value, marks: &Marks) {
    let spec = &mut deployment["spec"];
    spec["template"]["metadata"]["annotations"] = json!({ HASH: marks.hash });
    for setting in SETTINGS {
        let value = at(all, setting.name);
        let template = &mut spec["template"];
        match setting.place {
            Place::Operators => spec["replicas"] = value.clone(),
            Place::OperatorImage => {
                every_container(template, "image", &image(all, "operator.image"));
            }
            Place::EveryContainer(member) => every_container(template, member, value),
            Place::Variable(name) => variable(template, name, value),
            Place::OperatorPodItems(member) => append(&mut template["spec"][member], value),
            Place::OperatorContainerItems(member) => append(&mut agent(template)[member], value),
            Place::Pod("imagePullSecrets") => {
                put_in(&mut template["spec"], "imagePullSecrets", value);
            }
            _ => {}
        }
    }
}

/// The name of an image, of the values in that group.
fn image(all: &Value, group: &str) -> Value {
    let part = |name: &str| go_text(at(all, &format!("{group}.{name}")));
    Value::from(format!("{}:{}", part("repository"), part("tag")))
}

/// Sets a variable of the main container, unless the value is empty.
fn variable(template: &mut Value, name: &str, value: &Value) {
    let text = go_text(value);
    if !text.is_empty() {
        append(&mut agent(template)["env"], &json!([{ "name": name, "value": text }]));
    }
}

/// The container that is no init container.
fn agent(template: &mut Value) -> &mut Value {
    &mut template["spec"]["containers"][0]
}

fn every_container(template: &mut Value, member: &str, value: &Value) {
    for list in ["initContainers", "containers"] {
        // Asked for by its name, what is not there would come to be.
        let containers = template["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            put_in(container, member, value);
        }
    }
}

fn put_in(object: &mut Value, key: &str, value: &Value) {
    if let Some(members) = object.as_object_mut() {
        put(members, key, value);
    }
}

/// Sets a member; what is empty takes it away.
fn put(members: &mut Map<String, Value>, key: &str, value: &Value) {
    if is_empty(value) {
        members.remove(key);
    } else {
        members.insert(key.to_owned(), value.clone());
    }
}

pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Puts further members into a map; a text stands for members that a chart puts there.
fn extend(members: &mut Map<String, Value>, more: &Value) {
    match more {
        Value::Object(more) => more.iter().for_each(|(key, value)| {
            members.insert(key.clone(), value.clone());
        }),
        Value::String(mark) => drop(members.insert(mark.clone(), more.clone())),
        _ => {}
    }
}

/// Appends items to a list; a text stands for items that a chart puts there.
fn append(list: &mut Value, more: &Value) {
    let Some(list) = list.as_array_mut() else { return };
    match more {
        Value::Array(more) => list.extend(more.iter().cloned()),
        Value::String(_) => list.push(more.clone()),
        _ => {}
    }
}
