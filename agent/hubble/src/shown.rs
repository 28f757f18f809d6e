//! What a flow is called where people read it: which record it was, and what became of it.

use volvox_bpf_progs::{DropReason, TracePoint};

use crate::messages::{Flow, direction, event, verdict};

/// Labels that say what an application is, the first one counts.
pub(crate) const APPS: [&str; 3] = ["k8s:app.kubernetes.io/name=", "k8s:k8s-app=", "k8s:app="];

/// Which record it was.
pub fn kind(flow: &Flow) -> String {
    let Some(it) = flow.event_type else { return "unknown".to_owned() };
    match it.kind {
        event::TRACE => u8::try_from(it.sub_type)
            .ok()
            .and_then(TracePoint::from_number)
            .map_or_else(|| it.sub_type.to_string(), |point| point.text().to_owned()),
        event::DROP => u8::try_from(it.sub_type)
            .ok()
            .and_then(DropReason::from_number)
            .map_or_else(|| format!("reason {}", it.sub_type), |it| it.text().to_owned()),
        event::POLICY_VERDICT => {
            let matched = flow.policy_match().unwrap_or("unknown");
            let way = match flow.traffic_direction {
                direction::INGRESS => "INGRESS",
                direction::EGRESS => "EGRESS",
                _ => "UNKNOWN",
            };
            format!("policy-verdict:{matched} {way}")
        }
        other => format!("type {other}"),
    }
}

/// What became of it: of verdicts what the policy said.
pub fn action(flow: &Flow) -> &'static str {
    let is_verdict = flow.event_type.is_some_and(|it| it.kind == event::POLICY_VERDICT);
    match (flow.verdict, is_verdict) {
        (verdict::FORWARDED, true) => "ALLOWED",
        (verdict::DROPPED, true) => "DENIED",
        (verdict::AUDIT, true) => "AUDITED",
        (verdict::FORWARDED, _) => "FORWARDED",
        (verdict::DROPPED, _) => "DROPPED",
        (verdict::AUDIT, _) => "AUDIT",
        (verdict::REDIRECTED, _) => "REDIRECTED",
        _ => "UNKNOWN",
    }
}
