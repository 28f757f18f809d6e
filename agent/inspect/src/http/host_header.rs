//! Whom a request means, by its `Host`. A browser can be made to ask here by a name that its owner points
//! at this machine (DNS rebinding), and would then show the answer to a page of that name. An address
//! cannot be pointed anywhere.

use std::net::IpAddr;

use axum::http::HeaderMap;

/// Whether a `Host` names this machine itself, with or without a port.
pub fn is_loopback(host: &str) -> bool {
    let name = without_port(host);
    name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Whether a `Host` is an address, or `localhost`, or that name, with or without a port.
pub fn is_address_or(host: &str, own: &str) -> bool {
    let name = without_port(host);
    name == "localhost" || name.eq_ignore_ascii_case(own) || name.parse::<IpAddr>().is_ok()
}

/// A header as text.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // One that is no text is no origin that is known here.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}
