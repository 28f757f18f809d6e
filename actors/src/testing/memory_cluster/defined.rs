//! CustomResourceDefinitions of an API server in memory: what is defined, and when it is served.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{MemoryCluster, Server, ServerChange};
use crate::{
    cluster::resources::definitions,
    ports::{ClusterError, Definition, ObjectKey, Verb},
    testing::patches,
};

/// Definitions by name.
#[derive(Default)]
pub(super) struct DefinedKinds {
    objects: BTreeMap<String, Value>,
    /// How often one of them changed.
    version: u64,
    /// New ones are not established.
    held: bool,
}

impl DefinedKinds {
    /// Whether objects of that definition are served.
    pub(super) fn serves(&self, name: &str) -> bool {
        self.objects.get(name).is_some_and(|object| read(object).established)
    }

    fn put(&mut self, name: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["name"] = name.into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["status"].is_null() {
            let established = if self.held { "False" } else { "True" };
            object["status"] =
                json!({ "conditions": [{ "type": "Established", "status": established }] });
        }
        self.objects.insert(name.to_owned(), object);
    }
}

impl MemoryCluster {
    /// Whether there is that definition from now on. It says nothing of its objects.
    pub fn define(&self, definition: &str, there: bool) {
        let mut server = self.0.borrow_mut();
        match there {
            true => server.put_definition(definition, json!({})),
            false => {
                server.defined.objects.remove(definition);
                server.happened(
                    definitions().kind.to_owned(),
                    ServerChange::Deleted(key(definition)),
                );
            }
        }
    }

    /// Somebody makes a definition, or changes it to that.
    pub fn define_as(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.0.borrow_mut().put_definition(name, object.clone());
    }

    /// A definition as it is.
    pub fn defined(&self, name: &str) -> Option<Value> {
        self.0.borrow().defined.objects.get(name).cloned()
    }

    /// Definitions that are made from now on are not established; or all are.
    pub fn hold_definitions(&self, held: bool) {
        let defined = &mut self.0.borrow_mut().defined;
        defined.held = held;
        for object in defined.objects.values_mut().filter(|_| !held) {
            object["status"]["conditions"][0]["status"] = "True".into();
        }
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey { namespace: String::new(), name: name.to_owned() }
}

fn read(object: &Value) -> Definition {
    Definition::of_document(object).expect("it is a definition")
}

impl Server {
    fn put_definition(&mut self, name: &str, object: Value) {
        self.defined.put(name, object);
        let value = self.defined.objects[name].clone();
        let applied = ServerChange::Applied(key(name), value);
        self.happened(definitions().kind.to_owned(), applied);
    }

    /// Definitions as objects, all or that of a name.
    pub(super) fn definitions(&self, name: Option<&str>) -> Vec<(ObjectKey, Value)> {
        let all = self.defined.objects.iter();
        let all = all.filter(|(known, _)| name.is_none_or(|name| *known == name));
        all.map(|(name, value)| (key(name), value.clone())).collect()
    }

    pub(super) fn definition(&self, name: &str) -> Result<Option<Definition>, ClusterError> {
        let failing = self.faults.failing.get(definitions().kind).cloned();
        failing.map_or(Ok(()), Err)?;
        Ok(self.defined.objects.get(name).map(read))
    }

    pub(super) fn write_definition(&mut self, name: &str, verb: Verb) -> Result<(), ClusterError> {
        let before = self.defined.objects.get(name).cloned();
        let after = match (verb, before) {
            (Verb::Create(_), Some(_)) => {
                return Err(ClusterError::Conflict(format!("{name} already exists")));
            }
            (Verb::Create(object), None) => object,
            (Verb::Merge(patch), Some(before)) => {
                let expected = &patch["metadata"]["resourceVersion"];
                if !expected.is_null() && *expected != before["metadata"]["resourceVersion"] {
                    return Err(ClusterError::Conflict(format!("{name} has been modified")));
                }
                patches::merge(before, &patch)
            }
            (verb, Some(_)) => return Err(ClusterError::Failed(format!("{name}: {verb:?}"))),
            (_, None) => return Err(ClusterError::NotFound(name.to_owned())),
        };
        self.put_definition(name, after);
        Ok(())
    }
}
