//! What is to become of one definition, by what the server has of it.

use serde_json::{Value, json};

use crate::ports::{Definition, SCHEMA_VERSION_LABEL, Verb};

/// What is to be done about a definition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DefinitionStep {
    /// It is written so, and looked at again.
    Write(Verb),
    /// It stays as it is; the server has not established it yet.
    Await,
    /// It stays as it is. Its version is named if it is a newer one.
    Done(Option<String>),
}

/// A definition that is brought.
pub(super) struct BroughtDefinition {
    pub(super) name: String,
    object: Value,
    version: Option<SchemaVersion>,
}

/// Three numbers, of which the first one counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SchemaVersion([u64; 3]);

impl SchemaVersion {
    /// Reads it as generously as Cilium's operator: `v1.2` is 1.2.0. What stands behind the numbers,
    /// as in `1.2.3-rc1`, does not count.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let numbers = text.split(['-', '+']).next()?;
        let mut version = [0; 3];
        for (place, number) in numbers.split('.').enumerate() {
            *version.get_mut(place)? = number.parse().ok()?;
        }
        Some(Self(version))
    }
}

impl BroughtDefinition {
    pub(super) fn new(object: Value) -> Self {
        // One that is none is brought without a version.
        let own = Definition::of_document(&object).unwrap_or_default();
        Self {
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            version: own.schema_version.as_deref().and_then(SchemaVersion::parse),
            object,
        }
    }

    /// What is to be done, if the server has that.
    pub(super) fn decide(&self, there: Option<&Definition>) -> DefinitionStep {
        let Some(there) = there else {
            return DefinitionStep::Write(Verb::Create(self.object.clone()));
        };
        let theirs = there.schema_version.as_deref().and_then(SchemaVersion::parse);
        // One that is brought without a version replaces nothing: it would do so for ever.
        let is_older = self.version.is_some() && (theirs < self.version || !there.has_schema);
        match (is_older, there.established) {
            (true, _) => DefinitionStep::Write(Verb::Merge(self.patch(&there.resource_version))),
            (false, false) => DefinitionStep::Await,
            (false, true) => {
                let version = there.schema_version.clone();
                DefinitionStep::Done(version.filter(|_| theirs > self.version))
            }
        }
    }

    /// Makes what is there in that state the one that is brought. Lists are replaced as a whole. Two
    /// members that ours may lack, and that change how objects are stored, must not stay.
    fn patch(&self, resource_version: &str) -> Value {
        let mut spec = json!({ "conversion": null, "preserveUnknownFields": false });
        for (name, value) in self.object["spec"].as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        let label = &self.object["metadata"]["labels"][SCHEMA_VERSION_LABEL];
        json!({
            "metadata": {
                "labels": { SCHEMA_VERSION_LABEL: label },
                "resourceVersion": resource_version,
            },
            "spec": spec,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brought(version: &str) -> BroughtDefinition {
        BroughtDefinition::new(json!({
            "metadata": { "name": "cars.example.org", "labels": { SCHEMA_VERSION_LABEL: version } },
            "spec": { "group": "example.org", "versions": [{ "name": "v2" }] },
        }))
    }

    fn there(version: Option<&str>) -> Definition {
        Definition {
            schema_version: version.map(str::to_owned),
            has_schema: true,
            established: true,
            resource_version: "7".to_owned(),
            managers: Vec::new(),
        }
    }

    #[test]
    fn versions_are_numbers() {
        let numbers = |text| SchemaVersion::parse(text).map(|version| version.0);
        assert_eq!(numbers("1.32.6"), Some([1, 32, 6]));
        assert_eq!(numbers(" v1.32"), Some([1, 32, 0]));
        assert_eq!(numbers("1.32.6-rc.1+x"), Some([1, 32, 6]));
        for text in ["", "v", "one", "1.2.3.4", "1..2", "1.+2", "-1", "99999999999999999999.0.0"] {
            assert_eq!(numbers(text), None, "{text}");
        }
        assert!(numbers("1.9.0") < numbers("1.10.0"));
    }

    #[test]
    fn what_is_older_is_replaced_and_what_is_as_new_stays() {
        let brought = brought("1.32.6");
        for version in ["1.32.5", "1.9.9", "0.99", "rubbish", ""] {
            let step = brought.decide(Some(&there(Some(version))));
            assert!(matches!(step, DefinitionStep::Write(Verb::Merge(_))), "{version}: {step:?}");
        }
        let step = brought.decide(Some(&there(None)));
        assert!(matches!(step, DefinitionStep::Write(Verb::Merge(_))), "{step:?}");
        for version in ["1.32.6", "v1.32.6", "1.32.6-rc1"] {
            let step = brought.decide(Some(&there(Some(version))));
            assert_eq!(step, DefinitionStep::Done(None), "{version}");
        }
        let step = brought.decide(Some(&there(Some("1.33.0"))));
        assert_eq!(step, DefinitionStep::Done(Some("1.33.0".to_owned())));
    }

    #[test]
    fn one_without_a_schema_is_replaced_whatever_its_label_says() {
        let bare = Definition { has_schema: false, ..there(Some("9.0.0")) };
        let step = brought("1.32.6").decide(Some(&bare));
        assert!(matches!(step, DefinitionStep::Write(Verb::Merge(_))), "{step:?}");
        let step = brought("rubbish").decide(Some(&bare));
        assert_eq!(step, DefinitionStep::Done(Some("9.0.0".to_owned())));
    }

    #[test]
    fn one_that_is_not_established_is_waited_for() {
        let young = Definition { established: false, ..there(Some("1.32.6")) };
        assert_eq!(brought("1.32.6").decide(Some(&young)), DefinitionStep::Await);
        let newer = Definition { established: false, ..there(Some("2.0.0")) };
        assert_eq!(brought("1.32.6").decide(Some(&newer)), DefinitionStep::Await);
    }

    #[test]
    fn a_missing_one_is_made_as_it_is_brought() {
        let brought = brought("1.32.6");
        let made = Verb::Create(brought.object.clone());
        assert_eq!(brought.decide(None), DefinitionStep::Write(made));
    }

    #[test]
    fn a_replacement_names_the_state_that_it_replaces() {
        let patch = json!({
            "metadata": {
                "labels": { SCHEMA_VERSION_LABEL: "1.32.6" }, "resourceVersion": "7",
            },
            "spec": {
                "conversion": null, "preserveUnknownFields": false,
                "group": "example.org", "versions": [{ "name": "v2" }],
            },
        });
        let step = brought("1.32.6").decide(Some(&there(None)));
        assert_eq!(step, DefinitionStep::Write(Verb::Merge(patch)));
    }
}
