//! What the actor of an endpoint is called: by its number, and by its pod where that is known, so that a
//! recording speaks of pods where nobody can be asked any more.

use super::endpoint::EndpointSpec;
use crate::model::EndpointId;

/// `endpoint 42 (shop/web)`.
pub(super) fn actor_name(id: EndpointId, spec: &EndpointSpec) -> String {
    match spec.pod() {
        Some(pod) => format!("endpoint {id} ({pod})"),
        None => format!("endpoint {id}"),
    }
}

/// The number of the endpoint whose actor is called so.
pub fn endpoint_called(name: &str) -> Option<u16> {
    let rest = name.strip_prefix("endpoint ")?;
    let number = rest.split_once(' ').map_or(rest, |(number, _)| number);
    number.parse().ok()
}

/// The pod of the endpoint whose actor is called so.
pub fn pod_called(name: &str) -> Option<&str> {
    let (_, pod) = name.strip_prefix("endpoint ")?.split_once(" (")?;
    pod.strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back() {
        let spec = EndpointSpec {
            namespace: "shop".into(),
            pod_name: "web".into(),
            ..EndpointSpec::default()
        };
        let name = actor_name(EndpointId(42), &spec);
        assert_eq!((endpoint_called(&name), pod_called(&name)), (Some(42), Some("shop/web")));
        let name = actor_name(EndpointId(42), &EndpointSpec::default());
        assert_eq!((endpoint_called(&name), pod_called(&name)), (Some(42), None));
        assert_eq!(endpoint_called("endpoints"), None);
        assert_eq!(endpoint_called("endpoint x (shop/web)"), None);
    }
}
