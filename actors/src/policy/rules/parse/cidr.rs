//! Reads prefixes and their exceptions from policy documents.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::IPBlock;

use crate::{
    model::{
        field::{Fault, Field},
        place::Place,
    },
    policy::rules::peer::CidrMatch,
};

/// Reads a prefix or a single address; host bits are cut off.
pub(super) fn prefix(field: &Field<'_>) -> Result<IpNet, Fault> {
    parsed(field.text()?).map_err(|(problem, remedy)| field.fault(problem, remedy))
}

/// A prefix with exceptions, each of which must be a part of it.
pub(super) fn with_except(cidr: &Field<'_>, except: &[Field<'_>]) -> Result<CidrMatch, Fault> {
    let net = prefix(cidr)?;
    let except = except.iter().map(|field| {
        let said = exception(&net, field.text()?);
        said.map_err(|(problem, remedy)| field.fault(problem, remedy))
    });
    Ok(CidrMatch { net, except: except.collect::<Result<BTreeSet<_>, _>>()? })
}

/// The same of a NetworkPolicy.
pub(super) fn with_typed_except(at: &Place<'_>, block: &IPBlock) -> Result<CidrMatch, Fault> {
    let place = at.key("cidr");
    let net = parsed(at.need("cidr", &block.cidr)?);
    let net = net.map_err(|(problem, remedy)| place.fault(problem, remedy))?;
    let place = at.key("except");
    let except = place.each(block.except.as_ref()).map(|(at, text)| {
        exception(&net, text).map_err(|(problem, remedy)| at.fault(problem, remedy))
    });
    Ok(CidrMatch { net, except: except.collect::<Result<BTreeSet<_>, _>>()? })
}

/// The prefix; or what is wrong and what to do about it.
fn parsed(text: &str) -> Result<IpNet, (String, &'static str)> {
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.map(|net| net.trunc()).map_err(|_| {
        (
            format!("{text:?} is no prefix"),
            "write an address and a length, as in 10.0.0.0/8 or fd00::/64",
        )
    })
}

fn exception(net: &IpNet, text: &str) -> Result<IpNet, (String, &'static str)> {
    let except = parsed(text)?;
    if !net.contains(&except) {
        return Err((
            format!("the exception {except} is outside {net}"),
            "remove it, or write a part of the prefix",
        ));
    }
    if except == *net {
        return Err((
            format!("the exception is all of {net}: nothing is left"),
            "remove the prefix, or except only a part of it",
        ));
    }
    Ok(except)
}
