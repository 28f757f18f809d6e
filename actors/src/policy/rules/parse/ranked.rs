//! ClusterNetworkPolicy of `policy.networking.k8s.io/v1alpha2`.
//!
//! What names a policy's place, subject or verdict must be known, or the policy is refused. Of a rule the
//! definition may have more than this agent knows: such a rule fails closed, as the definition asks for. One
//! that accepts is then about no packet; one that denies or passes on denies everything.

use super::{
    ranked_peers::{PeerSide, peers},
    ranked_pods::subject,
    ranked_ports::ports,
    scope::ParseContext,
};
use crate::{
    model::field::{Fault, Field, Mapping},
    policy::rules::{
        ClauseAction, ClauseOrigin, Effect, PolicyRank, PolicyTier, RankedRule,
        rule::{Bound, Clause, ClausePeers, ClausePorts, Rule},
    },
};

/// The highest number of a priority.
const PRIORITY_MAX: u16 = 1000;

/// Longest name of a rule.
const NAME_CHARS_MAX: usize = 100;

/// Reads a `spec`.
pub(super) fn rule(field: &Field<'_>, scope: &mut ParseContext<'_>) -> Result<Rule, Fault> {
    let spec = field.mapping(&["tier", "priority", "subject", "ingress", "egress"])?;
    let rank = rank(&spec)?;
    let subject = subject(&spec.need("subject")?)?;
    let mut clauses = Vec::new();
    for side in PeerSide::ALL {
        for field in spec.list(side.list)?.unwrap_or_default() {
            clauses.push(clause(&field, rank, side, scope)?);
        }
    }
    Ok(Rule {
        subject: Some(Bound::Endpoints(subject)),
        default_deny_ingress: false,
        default_deny_egress: false,
        rank,
        clauses,
    })
}

fn rank(spec: &Mapping<'_>) -> Result<PolicyRank, Fault> {
    let field = spec.need("tier")?;
    let tier = match field.text()? {
        "Admin" => PolicyTier::Admin,
        "Baseline" => PolicyTier::Baseline,
        other => {
            return Err(field.fault(
                format!("unknown tier {other:?}"),
                "write Admin or Baseline; another one needs a newer agent",
            ));
        }
    };
    let field = spec.need("priority")?;
    let priority = field.value.as_u64().and_then(|number| u16::try_from(number).ok());
    match priority.filter(|priority| *priority <= PRIORITY_MAX) {
        Some(priority) => Ok(PolicyRank { tier, priority }),
        None => Err(field.fault(
            format!("{} is no priority", field.value),
            format!("write a number from 0 to {PRIORITY_MAX}; the lowest is asked first"),
        )),
    }
}

fn clause(
    field: &Field<'_>,
    rank: PolicyRank,
    side: PeerSide,
    scope: &mut ParseContext<'_>,
) -> Result<Clause, Fault> {
    let mapping = field.any_mapping()?;
    let action = action(&mapping.need("action")?)?;
    let name = mapping.get("name").map(|name| rule_name(&name)).transpose()?;
    let mut unknown: Vec<Field<'_>> = mapping
        .entries()
        .filter(|(key, _)| !["action", "name", "protocols", side.peers].contains(key))
        .map(|(_, field)| field)
        .collect();
    let peers = peers(&mapping, side, action, scope, &mut unknown)?;
    let ports = ports(&mapping, &mut unknown)?;
    for part in &unknown {
        scope.not_supported(&part.path(), effect(action));
    }
    let (peers, ports) = match (unknown.is_empty(), action) {
        (true, _) => (peers, ports),
        (false, ClauseAction::Allow) => (ClausePeers::Of(Vec::new()), ports),
        (false, _) => (ClausePeers::Any, ClausePorts::Any),
    };
    let action = match (unknown.is_empty(), action) {
        (false, ClauseAction::Pass) => ClauseAction::Deny,
        _ => action,
    };
    let origin = scope.origin(side.direction, &field.path());
    let ranked = Some(RankedRule { rank, action, name });
    let origin = ClauseOrigin { ranked, ..ClauseOrigin::clone(&origin) };
    Ok(Clause { direction: side.direction, action, peers, ports, origin: origin.into() })
}

fn effect(action: ClauseAction) -> Effect {
    match action {
        ClauseAction::Allow => Effect::RuleAcceptsNothing,
        ClauseAction::Deny | ClauseAction::Pass => Effect::RuleDeniesEverything,
    }
}

fn action(field: &Field<'_>) -> Result<ClauseAction, Fault> {
    match field.text()? {
        "Accept" => Ok(ClauseAction::Allow),
        "Deny" => Ok(ClauseAction::Deny),
        "Pass" => Ok(ClauseAction::Pass),
        other => Err(field.fault(
            format!("unknown action {other:?}"),
            "write Accept, Deny or Pass; another one needs a newer agent",
        )),
    }
}

fn rule_name(field: &Field<'_>) -> Result<String, Fault> {
    let name = field.text()?;
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(field.fault(
            format!("the name is longer than {NAME_CHARS_MAX} characters"),
            "write a shorter one",
        ));
    }
    Ok(name.to_owned())
}
