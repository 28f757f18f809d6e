//! What is looked at of a CustomResourceDefinition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition,
};
use serde_json::Value;

use crate::model::{ApiObject, Readership};

const KIND: &str = "CustomResourceDefinition";
const VERSION: &str = "apiextensions.k8s.io/v1";

/// The label that says which version of Cilium's schemas a definition has.
pub const SCHEMA_VERSION_LABEL: &str = "io.cilium.k8s.crd.schema.version";

/// A CustomResourceDefinition, as far as anybody looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// What the label says of the version of its schemas.
    pub schema_version: Option<String>,
    /// Whether the first version of its objects has a schema.
    pub has_schema: bool,
    /// Whether the server has accepted its names: its condition Established.
    pub established: bool,
    /// Which state of the definition this is: who changes it says so, and does not undo what
    /// somebody else did meanwhile.
    pub resource_version: String,
    /// Who changed it, as far as the server keeps that: names of programs, each once.
    pub managers: Vec<String>,
}

impl Definition {
    /// Reads the object as a server has it. What is missing is not there.
    pub fn of(object: &ApiObject) -> Result<Self, String> {
        match object {
            ApiObject::CustomResourceDefinition(object) => Ok(Self::of_typed(object)),
            ApiObject::Malformed(error) => Err(error.to_string()),
            _ => Err("it is no CustomResourceDefinition".to_owned()),
        }
    }

    /// Reads one that is brought.
    pub(crate) fn of_document(object: &Value) -> Result<Self, String> {
        let text = object.to_string();
        let read = ApiObject::of_server(KIND, VERSION, &text, Readership::Agent);
        Self::of(&read.map_err(|error| error.to_string())?)
    }

    fn of_typed(object: &CustomResourceDefinition) -> Self {
        let metadata = &object.metadata;
        let label = metadata.labels.as_ref().and_then(|all| all.get(SCHEMA_VERSION_LABEL));
        let schema = object.spec.versions.first().and_then(|it| it.schema.as_ref());
        let conditions = object.status.iter().filter_map(|status| status.conditions.as_ref());
        let is_established = |it: &CustomResourceDefinitionCondition| {
            it.type_ == "Established" && it.status == "True"
        };
        let managed = metadata.managed_fields.iter().flatten();
        // Of the status is nobody's opinion asked.
        let managed = managed.filter(|it| it.subresource.as_deref().is_none_or(str::is_empty));
        let mut managers: Vec<String> = managed.filter_map(|it| it.manager.clone()).collect();
        managers.sort();
        managers.dedup();
        Self {
            managers,
            schema_version: label.cloned(),
            has_schema: schema.is_some_and(|it| it.open_api_v3_schema.is_some()),
            established: conditions.flatten().any(is_established),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(object: Value) -> Definition {
        Definition::of_document(&object).unwrap()
    }

    #[test]
    fn all_that_counts_is_read() {
        let object = json!({
            "metadata": {
                "name": "cars.example.org", "resourceVersion": "7",
                "labels": { SCHEMA_VERSION_LABEL: "1.32.6", "other": "x" },
                "managedFields": [
                    { "manager": "volvox", "operation": "Update" },
                    { "manager": "helm", "operation": "Apply", "subresource": "" },
                    { "manager": "helm", "operation": "Update" },
                    { "manager": "kube-apiserver", "subresource": "status" },
                ],
            },
            "spec": { "versions": [
                { "name": "v2", "schema": { "openAPIV3Schema": { "type": "object" } } },
                { "name": "v1" },
            ] },
            "status": { "conditions": [
                { "type": "NamesAccepted", "status": "True" },
                { "type": "Established", "status": "True" },
            ] },
        });
        let expected = Definition {
            schema_version: Some("1.32.6".to_owned()),
            has_schema: true,
            established: true,
            resource_version: "7".to_owned(),
            managers: vec!["helm".to_owned(), "volvox".to_owned()],
        };
        assert_eq!(read(object), expected);
    }

    #[test]
    fn a_condition_counts_by_its_status_and_a_schema_by_the_first_version() {
        let object = json!({
            "spec": { "versions": [
                { "name": "v1" }, { "name": "v2", "schema": { "openAPIV3Schema": {} } },
            ] },
            "status": { "conditions": [
                { "type": "Established", "status": "False" },
                { "type": "NamesAccepted", "status": "True" },
            ] },
        });
        let Definition { has_schema, established, .. } = read(object);
        assert_eq!((has_schema, established), (false, false));
    }

    #[test]
    fn what_is_not_there_is_not_read_and_what_nobody_reads_may_be_anything() {
        for object in [
            json!({}),
            json!({ "metadata": { "managedFields": [{ "fieldsV1": 7 }], "finalizers": {} } }),
            json!({ "metadata": { "labels": null }, "spec": { "versions": [{ "served": "x" }] } }),
            json!({ "spec": { "versions": [{ "schema": { "openAPIV3Schema": null } }] } }),
        ] {
            assert_eq!(read(object.clone()), Definition::default(), "{object}");
        }
    }

    #[test]
    fn of_what_is_no_definition_it_is_said_what_is_wrong() {
        for (object, why) in [
            (json!({ "metadata": { "resourceVersion": 3 } }), "metadata.resourceVersion: 3 is no"),
            (json!({ "spec": { "versions": {} } }), "spec.versions: a mapping where a list"),
            (
                json!({ "status": { "conditions": [1] } }),
                "status.conditions[0]: a number where a mapping",
            ),
        ] {
            let error = Definition::of_document(&object).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
