//! What is looked at of a CustomResourceDefinition.

use serde_json::Value;

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
    /// Reads the object as a server has it. What is missing or of another type is not there.
    pub fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let label = metadata["labels"][SCHEMA_VERSION_LABEL].as_str();
        let schema = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let managed = metadata["managedFields"].as_array().into_iter().flatten();
        // Of the status is nobody's opinion asked.
        let managed =
            managed.filter(|it| it["subresource"].as_str().unwrap_or_default().is_empty());
        let mut managers: Vec<String> =
            managed.filter_map(|it| it["manager"].as_str().map(str::to_owned)).collect();
        managers.sort();
        managers.dedup();
        Self {
            managers,
            schema_version: label.map(str::to_owned),
            has_schema: schema.is_object(),
            established: conditions.any(|it| it["type"] == "Established" && it["status"] == "True"),
            resource_version: metadata["resourceVersion"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
                    { "manager": 7 },
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
        assert_eq!(Definition::of(&object), expected);
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
        let Definition { has_schema, established, .. } = Definition::of(&object);
        assert_eq!((has_schema, established), (false, false));
    }

    #[test]
    fn of_any_other_document_nothing_is_read() {
        for object in [
            json!(null),
            json!(7),
            json!("text"),
            json!([{}]),
            json!({ "metadata": [], "spec": 1, "status": "x" }),
            json!({ "metadata": { "labels": [1], "resourceVersion": 3, "managedFields": [1] } }),
            json!({ "metadata": { "managedFields": { "manager": "x" } } }),
            json!({ "metadata": { "labels": { SCHEMA_VERSION_LABEL: {} } } }),
            json!({ "spec": { "versions": {} }, "status": { "conditions": { "type": 1 } } }),
            json!({ "spec": { "versions": [[]] }, "status": { "conditions": [1, null, []] } }),
            json!({ "spec": { "versions": [{ "schema": { "openAPIV3Schema": true } }] } }),
        ] {
            assert_eq!(Definition::of(&object), Definition::default(), "{object}");
        }
    }
}
