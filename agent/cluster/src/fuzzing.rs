//! For the fuzzer: what an API server says.

use volvox_actors::{
    cluster::resources::{further, resources},
    ports::{ObjectChange, Resource},
};

use super::{events::Lines, trim::one_of_many};

/// Events of a watch, as they come in pieces; the first byte says of which kind of object, the second
/// one how long the pieces are.
pub fn events(data: &[u8]) {
    let [kind, length, rest @ ..] = data else { return };
    let all: Vec<Resource> =
        resources("node").into_iter().chain(further("node")).flat_map(|(_, forms)| forms).collect();
    let resource = &all[usize::from(*kind) % all.len()];
    let mut lines = Lines::default();
    for piece in rest.chunks(usize::from(*length).max(1)) {
        let Ok(changes) = lines.take(resource, piece) else { return };
        for change in changes {
            let ObjectChange::Applied(taken) = change else { continue };
            assert!(!taken.key.name.is_empty(), "an object without a name");
            let json = taken.value.to_json();
            assert_eq!(json["kind"], resource.kind);
            // What is left is left of what is left.
            let again = one_of_many(resource, &json.to_string());
            assert_eq!(again, Some(taken));
        }
    }
}
