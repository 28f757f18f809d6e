//! Reads prefixes and their exceptions from policy documents.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;

use crate::{
    model::field::{Fault, Field},
    policy::rules::peer::CidrMatch,
};

/// Reads a prefix or a single address; host bits are cut off.
pub(super) fn prefix(field: &Field<'_>) -> Result<IpNet, Fault> {
    let text = field.text()?;
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.map(|net| net.trunc()).map_err(|_| {
        field.fault(
            format!("{text:?} is no prefix"),
            "write an address and a length, as in 10.0.0.0/8 or fd00::/64",
        )
    })
}

/// A prefix with exceptions, each of which must be a part of it.
pub(super) fn with_except(cidr: &Field<'_>, except: &[Field<'_>]) -> Result<CidrMatch, Fault> {
    let net = prefix(cidr)?;
    let except = except.iter().map(|field| exception(&net, field));
    Ok(CidrMatch { net, except: except.collect::<Result<BTreeSet<_>, _>>()? })
}

fn exception(net: &IpNet, field: &Field<'_>) -> Result<IpNet, Fault> {
    let except = prefix(field)?;
    if !net.contains(&except) {
        return Err(field.fault(
            format!("the exception {except} is outside {net}"),
            "remove it, or write a part of the prefix",
        ));
    }
    if except == *net {
        return Err(field.fault(
            format!("the exception is all of {net}: nothing is left"),
            "remove the prefix, or except only a part of it",
        ));
    }
    Ok(except)
}
