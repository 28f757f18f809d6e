//! For the fuzzer: bodies of requests, and where packets go.

use volvox_inspect::http::ApiError;
use volvox_rest::models::{
    BackendAddress, ConfigurationSpec, EndpointBatchDeleteRequest, EndpointChangeRequest,
    LabelConfiguration, OptionTexts, OptionsOf, option_texts, parse_options,
};

use super::{
    destination::Destination,
    endpoint_spec::{endpoint_spec, given_labels, parse_labels},
    extract::read_json,
};

/// Reads a body as that of each request that has one, as far as the request is checked before an actor
/// hears of it.
pub(crate) fn bodies(body: &[u8]) {
    let text = std::str::from_utf8(body).unwrap_or_default();
    checked(Destination::parse(text).map_err(ApiError::bad_request));
    let spec = read_json::<EndpointChangeRequest>(body).and_then(endpoint_spec);
    if let Ok(spec) = &spec {
        let is_group = [spec.mac, spec.node_mac].iter().any(|mac| mac.0[0] & 1 == 1);
        let is_reserved = spec.labels.iter().any(|label| label.source == "reserved");
        assert!(!is_group && !is_reserved && spec.ifname.len() < 16, "{spec:?}");
    }
    checked(spec);
    checked(read_json::<EndpointBatchDeleteRequest>(body));
    checked(read_json::<LabelConfiguration>(body).and_then(|it| given_labels("user", &it.user)));
    checked(read_json::<Vec<String>>(body).and_then(|it| parse_labels("labels", &it)));
    let now = option_texts(&Default::default(), &Default::default());
    let options = |texts: &OptionTexts| {
        parse_options(texts, &now, OptionsOf::Node).map_err(ApiError::bad_request)
    };
    checked(read_json::<ConfigurationSpec>(body).and_then(|it| options(&it.options)));
    checked(read_json::<OptionTexts>(body).and_then(|it| options(&it)));
    let backend = read_json::<BackendAddress>(body);
    checked(backend.and_then(|it| it.at().map_err(ApiError::bad_request)));
}

/// A refusal is the caller's fault and says what is wrong.
fn checked<T>(read: Result<T, ApiError>) {
    if let Err(error) = read {
        assert!(error.status.is_client_error() && !error.text.is_empty(), "{}", error.text);
    }
}
